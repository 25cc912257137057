"""A recipe is called better only by enough trainings of its own on one suite; everything else is refused by
name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from assay.core.errors import EvidenceError
from assay.core.records import Interval
from assay.verdict.evidence.figures.recipe_figures import performance_profile, seeds_forest
from assay.verdict.evidence.recipe.contest import Contest
from assay.verdict.evidence.recipe.records import RecipeClaim
from assay.verdict.evidence.recipe.runs import KnownRival, Run
from assay.verdict.evidence.recipe.tables import (
    RecipeComparison,
    compare_runs,
    comparison_markdown,
    contests_frame,
    csv_rows,
)
from assay.verdict.evidence.words.remarks import Remark, remark
from recipe_material import BASE, BEFORE, facts, run, runs
from synthetic_episodes import arm
from test_figures import words

GAP = Interval(value=-0.2, low=-0.3, high=-0.1, n=20)


@cache
def six() -> list[Run]:
    return runs(6, 0.6)


def only(found: RecipeComparison) -> RecipeClaim:
    (claim,) = found.recipes
    return claim


def test_six_seeds_that_all_gain_improve_and_the_sentence_has_its_form() -> None:
    found = only(compare_runs(six(), one_sided=False))
    assert (found.verdict, found.p_seeds, found.seeds) == ("IMPROVED", 0.03125, (0, 1, 2, 3, 4, 5))
    form = (
        r"The recipe improves held-out success: \+\d+\.\d points \(95 % interval \+\d+\.\d…\+\d+\.\d;"
        r" p = \.031; 6 seeds, 20 scenarios, K = 4\)\. One base, one"
        r" held-out suite\."
    )
    assert re.fullmatch(form, found.sentence)


def ahead(seed: int) -> KnownRival:
    """Return a use of the base that is better than the run of a seed."""
    behind = Interval(value=-0.1 - 0.01 * seed, low=-0.3, high=-0.05, n=20)
    return KnownRival(kind="instead of training", difference=behind, p=0.001)


def test_recipes_in_english_are_those_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    lucky = [e.model_copy(update={"success": True}) for e in BEFORE]
    lost = remark("worse_on_suite", suite="traps", before=0.5, after=0.3, difference=GAP)
    cases: dict[str, tuple[list[Run], bool]] = {
        "better": (six(), False),
        "better, one-sided": ([planned(r, sided="one-sided") for r in six()], True),
        "better, and worse beside": ([changed(r, reasons=(lost,)) for r in six()], False),
        "better, but prompting is better": (
            [changed(r, rivals=r.claim.rivals | {"greedy": ahead(k)}) for k, r in enumerate(six())],
            False,
        ),
        "better, without skill": ([run(k, 0.6, rivals={"null": lucky}) for k in range(6)], False),
        "worse": (runs(6, 0.1), False),
        "nothing shown": (runs(6, 0.35), False),
        "equivalent": (
            [planned(r, smallest_effect_points=30.0, worst_cluster=25.0) for r in runs(6, 0.35)],
            False,
        ),
        "hand-picked": (runs(7, 0.6), False),
        "a second recipe": ([opened(r, recipe_place=2) for r in runs(8, 0.7, seeds=tuple(range(8)))], False),
        "too few": (six()[:5], False),
        "two recipes": ([*six(), *runs(6, 0.2, recipe="b")], False),
        "three recipes": ([*six(), *runs(6, 0.2, recipe="b"), *runs(2, 0.2, recipe="c")], False),
    }
    blocks = []
    for name, (asked, one_sided) in cases.items():
        found = compare_runs(asked, one_sided=one_sided)
        each = [*found.recipes, *found.contests]
        said = [f"{one.marked}: {one.sentence}" for one in each]
        said += [str(warning) for one in found.recipes for warning in one.warnings]
        blocks.append("\n".join([f"# {name}", *said]) + "\n")
    golden("recipes.txt", "\n".join(blocks))


def test_the_numbers_are_those_of_the_episodes() -> None:
    found = only(compare_runs(six(), one_sided=False))
    base = np.mean([e.success for e in BEFORE])
    after = [np.mean([e.success for e in r.after]) for r in six()]
    assert found.difference is not None and found.probability_of_improvement is not None
    assert (found.before, found.after) == pytest.approx((base, np.mean(after)))
    assert found.difference.value == pytest.approx(np.mean(after) - base)
    assert [row.gain.value for row in found.runs] == pytest.approx([a - base for a in after])
    items = sorted({e.item_id for e in BEFORE})
    cells = {
        (k, item): np.mean([e.success for e in r.after if e.item_id == item])
        for k, r in enumerate(six())
        for item in items
    }
    before = np.array([np.mean([e.success for e in BEFORE if e.item_id == item]) for item in items])
    gains = np.array([[cells[k, item] for item in items] for k in range(6)]) - before
    assert found.probability_of_improvement.value == pytest.approx(np.mean((gains > 0) + 0.5 * (gains == 0)))
    for each in (found.difference, found.probability_of_improvement):
        assert each.low is not None and each.high is not None and each.value is not None
        assert each.low < each.value < each.high
    assert [point.after.value for point in found.profile] == sorted(
        (p.after.value for p in found.profile), reverse=True
    )


def beaten_by(found: RecipeClaim) -> dict[str | None, int]:
    """Return by how many runs each player was beaten that they are not shown to beat together."""
    (reason,) = found.reasons
    assert reason.code == "seeds_not_beaten" and reason.values["runs"] == len(found.seeds)
    rivals: Any = reason.values["rivals"]
    return {each["name"]: each["beaten"] for each in rivals}


def changed(r: Run, **changes: object) -> Run:
    return replace(r, claim=r.claim.model_copy(update=changes))


def planned(r: Run, **changes: object) -> Run:
    return changed(r, plan=r.claim.plan.model_copy(update=changes))


def opened(r: Run, **changes: object) -> Run:
    assert r.claim.opened is not None
    return changed(r, opened=r.claim.opened.model_copy(update=changes))


@pytest.mark.parametrize(
    ("picked", "why"),
    [
        (lambda six: six[:5], remark("other_seeds", missing=[5], more=[])),
        (lambda _: runs(7, 0.6), remark("other_seeds", missing=[], more=[6])),
        (lambda six: [*six[:5], run(11, 0.6)], remark("other_seeds", missing=[5], more=[11])),
        (lambda six: [planned(r, seeds=()) for r in six], remark("no_seeds_planned")),
        (
            lambda six: [planned(r, sided="one-sided") for r in six],
            remark("other_sides", asked="two-sided", planned="one-sided"),
        ),
        (
            lambda six: [*six[:5], opened(six[5], registered=False)],
            remark("registered_late", trainings=["a5"]),
        ),
        (
            lambda six: [*six[:5], opened(six[5], recipe_place=None)],
            remark("places_not_known", trainings=["a5"]),
        ),
        (
            lambda six: [*six[:4], opened(six[4], rolls=2), opened(six[5], rolls=1)],
            remark("other_rolls", trainings=["a4", "a5"]),
        ),
        (
            lambda six: [changed(r, opened=None) for r in six],
            remark("places_not_known", trainings=[f"a{seed}" for seed in range(6)]),
        ),
    ],
)
def test_seeds_that_are_not_those_of_the_plan_are_marked_in_record_table_and_text(
    picked: Callable[[list[Run]], list[Run]], why: Remark
) -> None:
    comparison = compare_runs(picked(six()), one_sided=False)
    found = only(comparison)
    assert found.registration == why
    picked = f"Hand-picked seeds ({why}), which nothing corrects for."
    assert picked in found.sentence
    if found.verdict != "NOT EVALUABLE":
        assert found.sentence.startswith(f"{picked} The recipe improves")
        text = comparison_markdown(comparison)
        assert "**IMPROVED (hand-picked seeds).**" in text and "| IMPROVED |" not in text.split("## Runs")[0]


def test_the_seeds_of_the_plan_carry_no_mark_and_a_second_recipe_pays_with_its_level() -> None:
    found = only(compare_runs(six(), one_sided=False))
    assert (found.registration, found.level, found.warnings) == (None, 0.05, ())
    second = only(compare_runs([opened(r, recipe_place=2) for r in six()], one_sided=False))
    assert (second.registration, second.level) == (None, 0.025)
    whole = only(compare_runs([opened(r, recipe_place=2, rolls=1) for r in six()], one_sided=False))
    assert (whole.registration, whole.level) == (None, 0.025), "a whole plan rolled again is its second try"
    assert second.verdict == "NOT EVALUABLE", "no six seeds can reach a level under 1/32"
    eight = [opened(r, recipe_place=2) for r in runs(8, 0.7, seeds=tuple(range(8)))]
    second = only(compare_runs(eight, one_sided=False))
    assert second.verdict == "IMPROVED"
    assert second.warnings == (remark("recipe_place", place=2, looks=None, level=0.025, alpha=0.05),)


@pytest.mark.parametrize(("n", "one_sided"), [(1, False), (4, True), (5, False)])
def test_too_few_seeds_are_refused_without_a_number(n: int, one_sided: bool) -> None:
    found = only(compare_runs(six()[:n], one_sided=one_sided))
    assert found.verdict == "NOT EVALUABLE"
    needed, sided = (5, "one-sided") if one_sided else (6, "two-sided")
    assert found.reasons == (remark("too_few_seeds", n=n, level=0.05, needed=needed, sided=sided),)
    assert found.sentence.startswith(f"{found.reason}. ")
    assert found.difference is found.p is None and found.profile == ()
    assert len(found.runs) == n  # what each run shows by itself is still told


def test_five_seeds_are_enough_for_a_one_sided_statement_that_says_so() -> None:
    found = only(compare_runs(six()[:5], one_sided=True))
    assert (found.verdict, found.sided, found.p_seeds) == ("IMPROVED", "one-sided", 0.03125)
    assert (
        "one-sided p = .031; 5 seeds" in found.sentence
        and "points (two-sided 95 % interval" in found.sentence
    )


def test_seeds_that_gain_and_lose_alike_give_no_evidence_with_the_detectable_effect() -> None:
    found = only(compare_runs(runs(6, 0.35), one_sided=False))
    assert found.verdict == "NO EVIDENCE" and found.effect is not None and found.effect.size == "not shown"
    assert found.sentence.startswith(
        "No evidence that the recipe changes held-out success (smallest detectable effect"
    )
    (worse,) = found.warnings
    assert worse.code == "seeds_worse" and worse.values["of"] == 6
    down = [row.name for row in found.runs if (row.gain.value or 0) < 0]
    assert worse.values["trainings"] == down != []


def test_a_change_too_small_to_matter_is_equivalent() -> None:
    asked = [planned(r, smallest_effect_points=30.0, worst_cluster=25.0) for r in runs(6, 0.35)]
    found = only(compare_runs(asked, one_sided=False))
    assert (
        found.verdict == "NO CHANGE THAT MATTERS"
        and found.effect is not None
        and found.effect.size == "equivalent"
    )


@pytest.mark.parametrize("one_sided", [False, True])
def test_a_recipe_that_loses_is_regressed_however_many_sides_were_asked_about(one_sided: bool) -> None:
    assert only(compare_runs(runs(6, 0.1), one_sided=one_sided)).verdict == "REGRESSED"


def test_seeds_that_all_gain_and_do_not_beat_a_trivial_player_show_no_skill() -> None:
    lucky = [e.model_copy(update={"success": True}) for e in BEFORE]
    found = only(compare_runs([run(k, 0.6, rivals={"null": lucky}) for k in range(6)], one_sided=False))
    assert found.verdict == "NO SKILL SHOWN" and beaten_by(found) == {"null": 0}
    assert found.reason in found.sentence


def test_where_lower_is_better_a_fall_improves() -> None:
    found = only(compare_runs(runs(6, 0.1, direction="lower", guardrails={}), one_sided=True))
    assert found.verdict == "IMPROVED"
    assert (
        found.probability_of_improvement is not None and (found.probability_of_improvement.value or 0) > 0.5
    )


def test_seeds_that_gain_no_more_than_for_random_rewards_show_no_skill() -> None:
    plan = {"controls": ("aa", "random_reward")}
    coins = [arm(f"coin {k}", 0.6) for k in range(6)]
    found = only(compare_runs([run(k, 0.6, random_arm=coins[k], **plan) for k in range(6)], one_sided=False))
    assert found.verdict == "NO SKILL SHOWN" and beaten_by(found) == {None: 0}
    assert "the training for random rewards (" in found.sentence


def test_a_guardrail_that_every_seed_breaks_is_a_regression() -> None:
    broken = [replace(r, after=arm(f"rash{k}", 0.95, parse_rate=0.7)) for k, r in enumerate(six())]
    found = only(compare_runs(broken, one_sided=False))
    assert found.verdict == "IMPROVED WITH REGRESSIONS"
    assert found.reasons == (remark("better", level=0.05), remark("worse_beside", measures=["parsed_rate"]))
    assert "But: got worse: parsed_rate." in found.sentence


def test_what_most_seeds_lost_beside_is_a_regression_and_what_few_lost_is_none() -> None:
    lost = remark("worse_on_suite", suite="traps", before=0.5, after=0.3, difference=GAP)

    def with_losses(n: int) -> RecipeClaim:
        found = [changed(r, reasons=(lost,)) if k < n else r for k, r in enumerate(six())]
        return only(compare_runs(found, one_sided=False))

    assert with_losses(3).verdict == "IMPROVED"
    most = with_losses(4)
    assert most.verdict == "IMPROVED WITH REGRESSIONS"
    assert most.reasons[1:] == (remark("worse_in_seeds", n=4, of=6),)


@pytest.mark.parametrize("rate", [0.2, 0.35, 0.42, 0.47, 0.6])
def test_the_interval_of_a_recipe_is_that_of_the_tests_that_decide(rate: float) -> None:
    found = only(compare_runs(runs(6, rate), one_sided=False))
    assert found.difference is not None and found.p is not None
    assert found.difference.low is not None and found.difference.high is not None
    assert (found.difference.low <= 0 <= found.difference.high) == (found.p > 0.05)


def test_luck_in_the_one_measurement_of_the_base_is_not_taken_for_a_recipe() -> None:
    # All seeds gain by the same few points, because the base was measured that much too low on three
    # scenarios.
    unlucky = {f"scenario-{k:03d}" for k in (3, 7, 11)}
    base = [e.model_copy(update={"success": e.success and e.cluster not in unlucky}) for e in BEFORE]
    six = [run(seed, 0.37, recipe="luck", before=base) for seed in range(6)]
    found = only(compare_runs(six, one_sided=False))
    assert found.p_seeds == 0.03125 and found.p is not None and found.p > 0.05
    assert found.verdict == "NO EVIDENCE"


def test_trainings_that_change_nothing_give_no_evidence_and_the_interval_of_items_that_never_moved() -> None:
    idle = [replace(r, after=BEFORE, claim=changed(r, after_policy=BASE).claim) for r in six()]
    found = only(compare_runs(idle, one_sided=False))
    assert found.verdict == "NO EVIDENCE" and found.p == 1.0
    assert found.difference is not None
    assert found.difference.high == pytest.approx(1 - 40 ** (-1 / 20), abs=1e-9), "of 20 that never moved"
    assert [each.code for each in found.warnings] == ["seeds_untrained"]


def test_having_seen_almost_nothing_is_not_called_equivalent() -> None:
    never = [e.model_copy(update={"success": False}) for e in BEFORE]
    once = [e.model_copy(update={"success": e.item_id == "item-003"}) for e in never]
    idle = [
        replace(planned(r, smallest_effect_points=10.0), before=never, after=once if k == 2 else never)
        for k, r in enumerate(six())
    ]
    found = only(compare_runs(idle, one_sided=False))
    assert found.difference is not None and found.difference.high is not None and found.difference.high > 0.1
    assert found.verdict == "NO EVIDENCE" and found.effect is not None and found.effect.size == "not shown"


def test_the_order_of_the_runs_does_not_matter_and_the_record_survives_json() -> None:
    found = compare_runs(six(), one_sided=False)
    assert compare_runs(six()[::-1], one_sided=False) == found
    assert RecipeComparison.model_validate_json(found.model_dump_json()) == found


def test_recipes_are_told_apart_by_their_settings_and_compared_by_seed() -> None:
    found = compare_runs([*six(), *runs(6, 0.2, recipe="b")], one_sided=False)
    assert [r.recipe for r in found.recipes] == ["train.learning_rate=a", "train.learning_rate=b"]
    assert [r.settings for r in found.recipes] == [{"train.learning_rate": "a"}, {"train.learning_rate": "b"}]
    (contest,) = found.contests
    assert (contest.verdict, contest.seeds) == ("A IS BETTER", (0, 1, 2, 3, 4, 5))
    assert contest.difference is not None and contest.difference.value == pytest.approx(
        (found.recipes[0].after or 0) - (found.recipes[1].after or 0)
    )
    assert contest.probability_a_beats_b is not None and (contest.probability_a_beats_b.low or 0) > 0.5


def test_the_pair_of_a_later_recipe_pays_for_those_that_are_not_shown() -> None:
    first, last = (
        runs(11, rate, recipe=name, seeds=tuple(range(11))) for rate, name in ((0.9, "a"), (0.1, "b"))
    )

    def pair(place: int) -> Contest:
        (found,) = compare_runs(
            [*first, *(opened(r, recipe_place=place) for r in last)], one_sided=False
        ).contests
        return found

    assert [pair(place).level for place in (1, 2, 4)] == pytest.approx([0.05, 0.025, 0.05 / 36])
    assert [pair(place).verdict for place in (1, 4)] == ["A IS BETTER"] * 2
    many = pair(10)  # whoever tried ten recipes and shows the best beside the worst
    (few,) = many.reasons
    assert (many.verdict, few.code, few.values["needed"]) == ("NOT EVALUABLE", "too_few_in_common", 15)
    assert few.values["level"] == pytest.approx(0.05 / 810)


def test_a_pair_of_seeds_that_no_plan_registered_is_marked_wherever_it_stands() -> None:
    late = [opened(r, registered=False) for r in runs(6, 0.2, recipe="b")]
    part = runs(8, 0.2, recipe="b")
    for others, why in ((late, "registered_late"), (part, "other_seeds")):
        found = compare_runs([*six(), *others], one_sided=False)
        (contest,) = found.contests
        assert contest.registration is not None and contest.registration.code == why
        assert contest.sentence.startswith("Hand-picked seeds (")
        assert "**A IS BETTER (hand-picked seeds).**" in comparison_markdown(found)
        assert list(contests_frame(found)["verdict"]) == ["A IS BETTER (hand-picked seeds)"]


def test_recipes_without_enough_seeds_in_common_are_not_compared() -> None:
    others = [run(seed, 0.4, recipe="b") for seed in range(3, 9)]
    (contest,) = compare_runs([*six(), *others], one_sided=True).contests
    assert contest.verdict == "NOT EVALUABLE" and contest.difference is contest.p is None
    assert contest.reasons == (remark("too_few_in_common", n=3, needed=6, pairs=1, level=None),)


def test_equal_recipes_are_not_told_apart() -> None:
    (contest,) = compare_runs([*six(), *runs(6, 0.6, recipe="b")], one_sided=False).contests
    assert contest.verdict == "NO EVIDENCE"


def test_several_pairs_are_corrected_together() -> None:
    found = compare_runs(
        [*runs(7, 0.6), *runs(7, 0.2, recipe="b"), *runs(7, 0.19, recipe="c")], one_sided=False
    )
    assert all(c.p is not None and c.p_holm is not None and c.p_holm >= c.p for c in found.contests)
    assert [c.verdict for c in found.contests] == ["A IS BETTER", "A IS BETTER", "NO EVIDENCE"]
    assert all(c.pairs == 3 and "; Holm p = " in c.sentence for c in found.contests)


def test_pairs_that_could_never_reach_the_level_together_are_not_evaluable() -> None:
    # The smallest two-sided p of six seeds is .031: three times that is above .05 whatever was seen; seven
    # seeds reach .047.
    found = compare_runs([*six(), *runs(6, 0.2, recipe="b"), *runs(6, 0.19, recipe="c")], one_sided=False)
    assert [(c.verdict, c.difference, c.p, c.p_holm) for c in found.contests] == [
        ("NOT EVALUABLE", None, None, None)
    ] * 3
    assert found.contests[0].reasons == (remark("too_few_in_common", n=6, needed=7, pairs=3, level=None),)


def test_a_pair_with_enough_seeds_is_tested_beside_pairs_that_have_too_few() -> None:
    found = compare_runs([*six(), *runs(6, 0.2, recipe="b"), *runs(2, 0.19, recipe="c")], one_sided=False)
    assert [c.verdict for c in found.contests] == ["A IS BETTER", "NOT EVALUABLE", "NOT EVALUABLE"]
    assert found.contests[0].pairs == 1 and "Holm" not in found.contests[0].sentence
    assert found.contests[0].p_holm == found.contests[0].p


def test_many_differing_settings_make_no_endless_name_and_no_recipe_is_lost() -> None:
    odd = [
        replace(r, settings={f"s{k}": "x" for k in range(5)} | {"s9": str(i // 3)})
        for i, r in enumerate(six())
    ]
    plain = [replace(r, settings={"s0": "y"}) for r in runs(2, 0.5, recipe="b")]
    found = compare_runs([*odd, *plain], one_sided=False)
    assert [len(r.seeds) for r in found.recipes] == [3, 3, 2]
    assert len({r.recipe for r in found.recipes}) == 3 and all(len(r.recipe) < 60 for r in found.recipes)


REFUSED = {
    "suite": lambda r: planned(r, suite_digest="6" * 64),
    "plan of the claim": lambda r: changed(r, plan_digest="d" * 64),
    "base policy": lambda r: changed(r, before_policy="e" * 64),
    "NOT EVALUABLE": lambda r: changed(r, verdict="NOT EVALUABLE", reason="a leak"),
    "seed 0 in": lambda r: replace(r, trained=facts(0)),
    "same digests of every step": lambda r: replace(
        r, trained=r.trained.model_copy(update={"chain": six()[0].trained.chain})
    ),
    "same trained policy": lambda r: changed(r, after_policy=six()[0].claim.after_policy),
    "draws 0..3 of every item": lambda r: replace(r, after=r.after[1:]),
    "each draw of each item once": lambda r: replace(r, after=[*r.after, r.after[0]]),
    "same items": lambda r: replace(
        r,
        after=[e.model_copy(update={"item_id": "other"}) if e.item_id == "item-000" else e for e in r.after],
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_runs_that_do_not_belong_together_are_refused_by_what_differs(words: str) -> None:
    spoiled = REFUSED[words](replace(six()[5], name="the odd one"))
    with pytest.raises(EvidenceError) as caught:
        compare_runs([*six()[:5], spoiled], one_sided=False)
    assert words in str(caught.value) and "the odd one" in str(caught.value)


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(EvidenceError, match="at least one finished run"):
        compare_runs([], one_sided=False)


def test_the_text_and_the_table_hold_every_run_and_say_what_the_interval_is_for() -> None:
    found = compare_runs([*six(), *runs(2, 0.5, recipe="<b>|b", name=None)], one_sided=False)
    text = comparison_markdown(found)
    assert text.startswith("# Recipes over training seeds\n\n**NOT EVALUABLE.**") and "**IMPROVED.**" in text
    assert "one measurement of the base" in text and "<b>" not in text.split("## Recipes")[1]
    rows = csv_rows(found)
    assert len(rows) == 8 and all(f"| {row['seed']} |" in text for row in rows)


@pytest.fixture(scope="module")
def one() -> tuple[RecipeClaim, ...]:
    return compare_runs(six(), one_sided=False).recipes


def test_the_forest_has_a_row_a_seed_and_one_for_the_recipe(one: tuple[RecipeClaim, ...]) -> None:
    shown = words(seeds_forest(one, 3.0, "success"))
    assert all(f"seed {seed}" in shown for seed in range(6))
    assert "n = 6 seeds" in shown and "IMPROVED, two-sided p = .031" in shown and "under 3 points" in shown
    assert "favours before" in shown and "favours after" in shown


def test_a_recipe_that_is_not_evaluable_is_shown_as_such_beside_one_that_is() -> None:
    two = compare_runs([*six(), *runs(3, 0.4, recipe="b")], one_sided=False).recipes
    shown = words(seeds_forest(two, 3.0, "success"))
    assert shown.count("not evaluable") == 1 and "train.learning_rate=b" in shown
    assert "NOT EVALUABLE; profile: missing" in words(performance_profile(two, "success"))


def test_a_run_without_an_interval_is_an_empty_marker_and_says_so(one: tuple[RecipeClaim, ...]) -> None:
    bare = one[0].runs[0].gain.model_copy(update={"low": None, "high": None})
    rows = (one[0].runs[0].model_copy(update={"gain": bare}), *one[0].runs[1:])
    shown = words(seeds_forest([one[0].model_copy(update={"runs": rows})], 3.0, "success"))
    assert shown.count("[no interval]") == 1
    assert "[no interval]" not in words(seeds_forest(one, 3.0, "success"))
