"""Each trained policy that sees held-out records takes the next place among them, whatever suite asked them;
the seeds of one plan take the places of their order, and together one place as a recipe."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.pipeline.heldout_ledger import NOTHING, HeldoutLedger, HeldoutOpening, merged, noted, opened
from assay.pipeline.note_openings import Recipe, placed, tries
from assay.statistics.openings import opening_level

SEEDS = (0, 1, 2, 3)


def recipe(seed: int, family: str = "f", seeds: tuple[int, ...] = SEEDS) -> Recipe:
    return Recipe(family, seed, seeds)


def open_one(
    ledger: HeldoutLedger,
    policy: str,
    by: Recipe | None = None,
    *,
    records: str = "uvw",
    stage: str = "post_eval",
) -> HeldoutLedger:
    one = opened(stage, policy, "suite", records, data="mine", split="heldout", copy_id="here")
    return noted(ledger, placed(ledger, one, by))


def base(ledger: HeldoutLedger = NOTHING) -> HeldoutLedger:
    return noted(
        ledger, opened("pre_eval", "base", "suite", "uvw", data="mine", split="heldout", copy_id="here")
    )


def place_of(ledger: HeldoutLedger, policy: str) -> tuple[int | None, int | None]:
    (found,) = [each for each in tries(ledger, "uvw") if each.policy_digest == policy]
    return found.place, found.recipe_place


def test_the_first_policy_is_first_and_each_other_one_comes_after_it() -> None:
    ledger = base()
    for k, policy in enumerate("pqr"):
        ledger = open_one(ledger, policy, recipe(100 + k, f"family {policy}"))
        assert place_of(ledger, policy) == (k + 1, k + 1)
    assert place_of(open_one(ledger, "p", recipe(100, "family p")), "p") == (1, 1), (
        "playing again is no other"
    )


def test_base_control_and_rivals_are_no_tries() -> None:
    ledger = base()
    for stage, policy in (("control", "coin"), ("rivals", "player"), ("post_eval", "base")):
        ledger = noted(
            ledger, opened(stage, policy, "suite", "uvw", data="mine", split="heldout", copy_id="here")
        )
    assert tries(ledger, "uvw") == []
    assert place_of(open_one(ledger, "p"), "p") == (1, 1)


def test_a_policy_that_saw_one_of_the_records_counts_and_one_that_saw_none_does_not() -> None:
    ledger = open_one(base(), "elsewhere", records="xyz")
    ledger = open_one(ledger, "partly", records="wxyz", stage="evaluate")
    assert place_of(open_one(ledger, "p", recipe(0)), "p") == (2, 2)


def test_notes_of_before_places_were_kept_and_those_of_unknown_records_all_count() -> None:
    old = [
        HeldoutOpening(
            stage="post_eval",
            policy_digest=policy,
            suite_digest="s",
            data=None,
            split=None,
            records=None,
            copy_id=None,
            times=2,
        )
        for policy in ("a", "b")
    ]
    ledger = merged(base(), NOTHING.model_copy(update={"openings": tuple(old)}))
    ledger = noted(
        ledger, opened("post_eval", "c", "suite", "uv", data="mine", split="heldout", copy_id="there")
    )
    assert place_of(open_one(ledger, "p", recipe(0)), "p") == (4, 4)


@given(st.permutations(SEEDS), st.integers(0, 3))
def test_the_seeds_of_a_plan_have_the_places_of_their_order_whichever_is_trained_first(
    order: list[int], before: int
) -> None:
    ledger = reduce(lambda known, k: open_one(known, f"other {k}"), range(before), base())
    # Each in a copy of its own, as `assay seeds` trains them: none knows of another.
    copies = [open_one(ledger, f"seed {seed}", recipe(seed)) for seed in order]
    together = reduce(merged, copies, ledger)
    for seed in SEEDS:
        assert place_of(together, f"seed {seed}") == (before + SEEDS.index(seed) + 1, before + 1)


def test_the_recipe_after_a_recipe_is_the_second_and_its_policies_pay_for_all_before_them() -> None:
    ledger = reduce(lambda known, seed: open_one(known, f"a{seed}", recipe(seed)), SEEDS, base())
    for k, seed in enumerate(SEEDS):
        ledger = open_one(ledger, f"b{seed}", recipe(seed, "g"))
        assert place_of(ledger, f"b{seed}") == (5 + k, 2)


def test_a_seed_trained_again_under_the_same_plan_to_another_policy_is_another_try() -> None:
    ledger = reduce(lambda known, seed: open_one(known, f"a{seed}", recipe(seed)), SEEDS, base())
    ledger = open_one(ledger, "again", recipe(0))
    assert place_of(ledger, "again")[0] == 5
    ledger = open_one(ledger, "later", recipe(7, "g"))
    assert place_of(ledger, "later") == (6, 3), "the recipe was tried twice"


def test_an_unregistered_seed_is_no_member_of_its_plan() -> None:
    ledger = open_one(base(), "p0", recipe(0))
    ledger = open_one(ledger, "p9", recipe(9))
    assert place_of(ledger, "p9") == (2, 2)


@given(
    st.lists(
        st.tuples(st.sampled_from(["f", "g", "h"]), st.integers(0, 5), st.integers(0, 1)),
        max_size=12,
        unique=True,
    )
)
def test_no_order_of_openings_spends_more_than_alpha(tried: list[tuple[str, int, int]]) -> None:
    ledger = base()
    for family, seed, n in tried:
        ledger = open_one(ledger, f"{family}{seed}{n}", recipe(seed, family))
    found = tries(ledger, "uvw")
    assert len(found) == len(tried)
    places = sorted(each.place or 0 for each in found)
    assert all(place >= rank for rank, place in enumerate(places, 1))
    assert sum(opening_level(place, 0.05) / 2 for place in places) <= 0.05


def test_copies_that_did_not_know_of_each_other_keep_both_notes() -> None:
    one, other = open_one(base(), "p", recipe(0)), open_one(base(), "q", recipe(0, "g"))
    both = merged(one, other)
    assert merged(other, one) == both
    assert [each.place for each in tries(both, "uvw")] == [1, 1]


@pytest.mark.parametrize("one_sided", [False, True])
def test_levels_fall_and_what_they_spend_stays_under_alpha(one_sided: bool) -> None:
    levels = [opening_level(k, 0.05, one_sided=one_sided) for k in range(1, 500)]
    assert levels == sorted(levels, reverse=True)
    assert sum(levels) * (1.0 if one_sided else 0.5) < 0.05
    assert levels[0] >= 0.03125, "five seeds one-sided, six two-sided can reach it"
    with pytest.raises(ValueError, match="begin with 1"):
        opening_level(0, 0.05)


def test_a_policy_noted_before_places_were_kept_has_the_place_of_its_next_note() -> None:
    ledger = base()
    for policy in ("older", "p"):
        ledger = noted(
            ledger,
            opened("post_eval", policy, "old suite", "uv", data="mine", split="heldout", copy_id="there"),
        )
    assert place_of(ledger, "p") == (None, None)
    assert place_of(open_one(ledger, "p", recipe(0)), "p") == (2, 2)
