"""Each trained policy that sees held-out records takes the next place among them, whatever suite asked them;
the seeds of one plan take the places of their order, and together one place as a recipe."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.pipeline.heldout_ledger import NOTHING, HeldoutLedger, merged, noted, opened
from assay.pipeline.note_openings import Recipe, placed, tries
from assay.verdict.statistics.openings import Look, opening_level, share_of_look

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
    suite: str = "suite",
    of: str | None = "base",
) -> HeldoutLedger:
    one = opened(
        stage, policy, suite, records, data="mine", split="heldout", copy_id="here", base=of or policy
    )
    return noted(ledger, placed(ledger, one, by))


def base(ledger: HeldoutLedger = NOTHING, name: str = "base", suite: str = "suite") -> HeldoutLedger:
    return open_one(ledger, name, stage="pre_eval", of=None, suite=suite)


def place_of(
    ledger: HeldoutLedger, policy: str, suite: str = "suite", of: str = "base"
) -> tuple[int | None, int | None]:
    known = [each for each in tries(ledger, "uvw", of, suite) if each.policy_digest == policy]
    (found,) = [each for each in known if each.suite_digest == suite or each.place is None]
    return found.place, found.recipe_place


def test_the_first_policy_is_first_and_each_other_one_comes_after_it() -> None:
    ledger = base()
    for k, policy in enumerate("pqr"):
        ledger = open_one(ledger, policy, recipe(100 + k, f"family {policy}"))
        assert place_of(ledger, policy) == (k + 1, k + 1)
    assert place_of(open_one(ledger, "p", recipe(100, "family p")), "p") == (1, 1), (
        "playing again is no other"
    )


def test_the_base_of_the_claim_and_its_control_are_no_tries() -> None:
    ledger = open_one(base(), "coin", stage="control")
    ledger = open_one(ledger, "base", recipe(0), of=None)  # the base once more, after the training
    assert tries(ledger, "uvw", "base", "suite") == []
    assert place_of(open_one(ledger, "p"), "p") == (1, 1)
    again = base(base(open_one(ledger, "p")))
    assert place_of(open_one(again, "q"), "q") == (2, 2), "a base that was measured before costs nothing"


@pytest.mark.parametrize("stage", ["pre_eval", "control"])
def test_trained_models_named_as_bases_are_looks_at_them(stage: str) -> None:
    """Ten recipes looked at as the base of another run, or by a control that moves none of it."""
    ledger = NOTHING
    for k in range(10):
        name, of = (f"trained {k}", None) if stage == "pre_eval" else (f"hardly moved {k}", f"trained {k}")
        ledger = open_one(ledger, name, stage=stage, of=of)
    ledger = open_one(base(ledger), "the best", recipe(0))
    assert place_of(ledger, "the best") == (11, 11)
    before = [each for each in tries(ledger, "uvw", "trained 3", "suite") if each.policy_digest != "the best"]
    assert len(before) == 10, "whose base is one of them pays for the others, and for that base"


def test_a_policy_in_another_suite_is_another_try_and_in_the_same_one_none() -> None:
    ledger = open_one(base(), "p", recipe(0, "one"))
    for k in range(2, 5):
        name = f"suite of seed {k}"
        ledger = open_one(base(ledger, suite=name), "p", recipe(0, f"settings {k}"), suite=name)
        assert place_of(ledger, "p", name) == (k, k)
    assert place_of(open_one(ledger, "p", recipe(0, "one")), "p") == (1, 1)


def test_a_base_whose_luck_was_rolled_again_until_it_was_bad_costs_each_roll() -> None:
    ledger = NOTHING
    for k in range(5):
        ledger = base(ledger, suite=f"suite of seed {k}")
    ledger = open_one(ledger, "p", recipe(0), suite="suite of seed 4")
    assert place_of(ledger, "p", "suite of seed 4") == (5, 5)


def test_a_policy_that_saw_one_of_the_records_counts_and_one_that_saw_none_does_not() -> None:
    ledger = open_one(base(), "elsewhere", records="xyz")
    ledger = open_one(ledger, "partly", records="wxyz", stage="evaluate")
    assert place_of(open_one(ledger, "p", recipe(0)), "p") == (2, 2)


def test_notes_of_before_places_were_kept_all_count() -> None:
    ledger = base()
    for policy in "abc":
        one = opened("post_eval", policy, "s", "uv", data="mine", split="heldout", copy_id="there")
        ledger = noted(ledger, one)
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
    assert place_of(ledger, "again") == (5, 2)
    ledger = open_one(ledger, "later", recipe(7, "g"))
    assert place_of(ledger, "later") == (6, 3), "the recipe was tried twice"


def test_a_plan_rolled_again_is_the_next_recipe_whichever_seed_is_first() -> None:
    ledger = base()
    for roll, order in enumerate([SEEDS, SEEDS[::-1], SEEDS]):
        copies = [open_one(ledger, f"{roll} {seed}", recipe(seed)) for seed in order]
        ledger = reduce(merged, copies, ledger)
        for seed in SEEDS:
            assert place_of(ledger, f"{roll} {seed}") == (4 * roll + SEEDS.index(seed) + 1, roll + 1)


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
    found = tries(ledger, "uvw", "base", "suite")
    assert len(found) == len(tried)
    places = sorted(each.place or 0 for each in found)
    assert all(place >= rank for rank, place in enumerate(places, 1))
    assert sum(opening_level(place, 0.05) / 2 for place in places) <= 0.05


def test_copies_that_did_not_know_of_each_other_keep_both_notes() -> None:
    one, other = open_one(base(), "p", recipe(0)), open_one(base(), "q", recipe(0, "g"))
    both = merged(one, other)
    assert merged(other, one) == both
    assert [each.place for each in tries(both, "uvw", "base", "suite")] == [1, 1]


@pytest.mark.parametrize("one_sided", [False, True])
def test_levels_fall_and_what_they_spend_stays_under_alpha(one_sided: bool) -> None:
    levels = [opening_level(k, 0.05, one_sided=one_sided) for k in range(1, 500)]
    assert levels == sorted(levels, reverse=True)
    assert sum(levels) * (1.0 if one_sided else 0.5) < 0.05
    assert levels[0] >= 0.03125, "five seeds one-sided, six two-sided can reach it"
    with pytest.raises(ValueError, match="begin with 1"):
        opening_level(0, 0.05)


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 3, 20, 30]), st.sampled_from([True, False, None])), max_size=40)
)
def test_planned_looks_spend_no_more_than_alpha_whatever_was_called_and_however_plans_change(
    tried: list[tuple[int, bool | None]],
) -> None:
    before, spent = list[Look](), 0.0
    for place, (looks, called) in enumerate(tried, 1):
        share = share_of_look(place, looks, before)
        called = called and share > 0  # nothing is called at no level
        spent += 0 if called else share  # what was called hands its level on
        before.append(Look(place, looks, called))
    assert spent <= 1 + 1e-9


def test_a_look_that_was_called_hands_its_level_to_the_next_alone_and_to_none_that_cannot_know() -> None:
    called = [Look(k, 20, called=True) for k in (1, 2, 3)]
    assert share_of_look(4, 20, called) == pytest.approx(4 / 20)
    assert share_of_look(3, 20, called[:1]) == 1 / 20, "the second is still to come"
    assert share_of_look(4, 20, [*called[:2], Look(3, 20)]) == 1 / 20, "nobody knows of the third"
    assert share_of_look(2, 20, [Look(1, None, called=True)]) == 1 / 20, "nobody knows at which level"
    assert share_of_look(3, 20, [called[0], called[0]]) == 1 / 20, "one place was taken twice"
    assert share_of_look(21, 20, [Look(k, 20, called=True) for k in range(1, 21)]) == 0


def test_a_policy_noted_before_places_were_kept_has_the_place_of_its_next_note() -> None:
    ledger = base()
    for policy in ("older", "p"):
        ledger = noted(
            ledger,
            opened("post_eval", policy, "old suite", "uv", data="mine", split="heldout", copy_id="there"),
        )
    assert place_of(ledger, "p") == (None, None)
    assert place_of(open_one(ledger, "p", recipe(0)), "p") == (2, 2)
