"""What a difference shows, and what is called an improvement: docs/method.md and the code have one table."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest
from tests.house import ROOT

from assay.core.records import Episode, Interval
from assay.verdict.evidence.claim.effect import Effect, effect_of, margins_of
from assay.verdict.evidence.claim.verdict import Shown, Verdict, decide
from assay.verdict.evidence.page import report
from assay.verdict.evidence.words.remarks import remark
from assay.verdict.evidence.words.sentences import size_said
from conftest import codes, make_claim, make_plan, never_right
from synthetic_episodes import arm

DIRECTIONS = ("better", "worse", "not shown")
SIZES = ("matters", "less than matters", "equivalent", "not shown")


def table() -> list[tuple[str, ...]]:
    lines = (ROOT / "docs/method.md").read_text(encoding="utf-8").splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("| direction |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(tuple(cell.strip() for cell in line.strip("|").split("|")))
    return rows


def can_be(direction: str, size: str) -> bool:
    return size == "not shown" or (size == "equivalent") == (direction == "not shown")


YES_NO = ("yes", "no")
CASES = [case for case in product(DIRECTIONS, SIZES, YES_NO, YES_NO, YES_NO) if can_be(case[0], case[1])]


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_the_table_of_the_docs_has_one_row_for_each_case_and_the_code_agrees(case: tuple[str, ...]) -> None:
    direction, size, beats, prompted, worse = case
    rows = [row for row in table() if all(a in ("any", b) for a, b in zip(row[:5], case, strict=True))]
    assert len(rows) == 1
    effect = Effect.model_validate(
        {"direction": direction, "size": size, "fall_that_matters": 0.1, "rise_that_matters": 0.1}
    )
    better, lost = remark("prompting_better", rivals=[]), remark("worse_beside", measures=["parsed_rate"])
    shown = Shown(
        effect=effect,
        n_clusters=20,
        level=0.05,
        no_skill=None if beats == "yes" else remark("no_trivial_rival", level=0.05),
        losses=[lost] if worse == "yes" else [],
        better=better if prompted == "yes" else None,
        detectable=None,
    )
    for trained, expected in zip((True, False), rows[0][5:], strict=True):
        found, reasons = decide(shown, trained=trained)
        assert found == expected
        assert (lost in reasons) == (worse == "yes"), "a loss is said whatever the verdict"


def test_every_word_of_a_verdict_is_in_the_table_and_each_has_a_sign() -> None:
    words = {word for row in table() for word in row[5:]}
    assert words == set(get_args(Verdict)) - {"NOT EVALUABLE", "DRAFT"}
    assert set(report._TONES) == set(get_args(Verdict))


def effect(low: float, high: float, p: float, **changes: float | bool) -> Effect:
    settings = {"base": 0.5, "points": 10.0, "higher": True, "alpha": 0.05} | changes
    return effect_of(Interval(value=(low + high) / 2, low=low, high=high, n=100), p, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("low", "high", "p", "expected"),
    [
        (0.12, 0.3, 0.001, ("better", "matters")),
        (0.02, 0.3, 0.01, ("better", "not shown")),
        (0.02, 0.08, 0.01, ("better", "less than matters")),
        (-0.3, -0.12, 0.001, ("worse", "matters")),
        (-0.08, -0.02, 0.0003, ("worse", "less than matters")),
        (-0.05, 0.05, 0.9, ("not shown", "equivalent")),
        (-0.2, 0.3, 0.5, ("not shown", "not shown")),
        (0.02, 0.3, 0.03, ("better", "not shown")),
    ],
)
def test_direction_is_the_test_and_size_is_the_interval(
    low: float, high: float, p: float, expected: tuple[str, str]
) -> None:
    found = effect(low, high, p)
    assert (found.direction, found.size) == expected


def test_a_stricter_level_than_the_interval_has_the_word() -> None:
    found = effect(0.12, 0.3, 0.03, alpha=0.01)
    assert (found.direction, found.size) == ("not shown", "not shown")


@pytest.mark.parametrize("points", [30.0, 95.0, 100.0])
def test_no_margin_hides_a_proven_loss_or_calls_everything_equivalent(points: float) -> None:
    assert effect(-0.08, -0.02, 0.0003, points=points).direction == "worse"
    fall, rise = margins_of(points, 0.187)
    assert fall <= 0.0935 and rise <= 0.4065
    assert effect(-0.15, 0.2, 0.6, base=0.187, points=points).size == "not shown"


@pytest.mark.long
def test_a_true_gain_that_is_small_is_found_more_often_with_more_data() -> None:
    found, plan = [], make_plan(smallest_effect_points=30.0, draws=2, secondary=(), guardrails={})
    for clusters in (60, 240):
        better = 0
        for k in range(10):
            base, after = (
                arm(f"{x}{k}", r, clusters=clusters, draws=2) for x, r in (("b", 0.4), ("t", 0.52))
            )
            effect = make_claim(base, after, plan).effect
            better += effect is not None and effect.direction == "better"
        found.append(better)
    assert found[0] < found[1] and found[1] >= 9


BEFORE, AFTER = arm("base", 0.35), arm("trained", 0.65)


def always(rate: float) -> list[Episode]:
    """Return a player that has the same answer for everything, which is right for a share of the items."""
    return [e.model_copy(update={"success": int(e.item_id[5:]) < 40 * rate}) for e in BEFORE]


def test_better_than_the_base_and_not_than_a_trivial_player_is_no_skill() -> None:
    found = make_claim(BEFORE, AFTER, rivals={"null": always(0.8)})
    assert (
        found.verdict == "NO SKILL SHOWN" and found.effect is not None and found.effect.direction == "better"
    )
    assert (
        "not shown to beat null (\u2212" in found.reason
        and "It is not shown to differ from null" in found.sentence
    )


def test_every_trivial_player_has_to_be_beaten() -> None:
    plan = make_plan(rivals={"null": "trivial", "constant": "trivial"})
    rivals = {"null": never_right(BEFORE), "constant": always(0.8)}
    found = make_claim(BEFORE, AFTER, plan, rivals=rivals)
    assert found.verdict == "NO SKILL SHOWN" and "constant (" in found.reason
    assert "null (" not in found.reason


def test_scripted_players_and_the_base_used_otherwise_are_told_and_do_not_decide() -> None:
    plan = make_plan(rivals={"null": "trivial", "script": "scripted", "few_shot": "instead of training"})
    rivals = {"null": never_right(BEFORE), "script": always(1.0), "few_shot": always(0.1)}
    found = make_claim(BEFORE, AFTER, plan, rivals=rivals)
    assert found.verdict == "IMPROVED" and list(found.rivals) == ["null", "script", "few_shot"]
    assert "It beats null (+" in found.sentence and "(few_shot, +" in found.sentence
    assert "It is beaten by script (\u2212" in found.sentence


def test_a_gain_that_further_fine_tuning_brings_too_is_no_skill_shown() -> None:
    plan = make_plan(rivals={"null": "trivial", "more_sft": "trained otherwise"})
    for rate, verdict in ((0.8, "NO SKILL SHOWN"), (0.1, "IMPROVED")):
        rivals = {"null": never_right(BEFORE), "more_sft": always(rate)}
        found = make_claim(BEFORE, AFTER, plan, rivals=rivals)
        assert found.verdict == verdict and ("more_sft (" in found.reason) == (rate == 0.8)
    assert make_claim(BEFORE, AFTER, plan, rivals={"null": never_right(BEFORE)}).verdict == "NOT EVALUABLE"
    alone = make_plan(rivals={"more_sft": "trained otherwise"})
    found = make_claim(BEFORE, AFTER, alone, rivals={"more_sft": always(0.1)})
    assert codes(found.reasons) == ["no_trivial_rival"]


@pytest.mark.parametrize("plan", [make_plan(rivals={}), make_plan(rivals={"script": "scripted"})])
def test_a_plan_without_a_trivial_player_shows_no_skill(plan: object) -> None:
    found = make_claim(BEFORE, AFTER, plan, rivals={"script": never_right(BEFORE)})  # type: ignore[arg-type]
    assert found.verdict == "NO SKILL SHOWN" and codes(found.reasons) == ["no_trivial_rival"]


def test_a_rival_that_did_not_play_bars_and_a_use_of_the_base_that_did_not_is_said() -> None:
    plan = make_plan(rivals={"null": "trivial", "few_shot": "instead of training"})
    assert remark("rival_not_used", rival="few_shot") in make_claim(BEFORE, AFTER, plan).warnings
    absent = make_claim(BEFORE, AFTER, plan, rivals={})
    assert absent.verdict == "NOT EVALUABLE" and absent.reasons == (remark("rival_not_played", rival="null"),)
    torn = make_claim(BEFORE, AFTER, rivals={"null": never_right(BEFORE)[8:]})
    assert torn.verdict == "NOT EVALUABLE" and "the arms hold different items" in torn.sentence


def test_the_level_of_an_opening_decides_and_is_said() -> None:
    weak = arm("a little better", 0.55)
    first, later = make_claim(BEFORE, weak), make_claim(BEFORE, weak, level=1e-4)
    assert (first.verdict, later.verdict) == ("IMPROVED", "NO EVIDENCE")
    assert (first.level, later.level) == (0.05, 1e-4) and "at the level 0.0001 (" in later.sentence


def test_no_level_above_that_of_the_plan_is_taken() -> None:
    assert make_claim(BEFORE, AFTER, level=0.5).level == 0.05


def test_a_gain_by_ten_times_the_tokens_is_said() -> None:
    longer = [
        e.model_copy(
            update={"turns": tuple(t.model_copy(update={"n_tokens": 10 * t.n_tokens}) for t in e.turns)}
        )
        for e in AFTER
    ]
    (told,) = [each for each in make_claim(BEFORE, longer).warnings if each.code == "more_tokens"]
    assert "takes 10.0 times as many tokens" in str(told)


def test_a_gain_of_form_alone_is_said() -> None:
    garbled = arm("base", 0.65, parse_rate=0.4, clusters=60)
    mended = arm("mended", 0.65, parse_rate=1.0, clusters=60)
    assert "form_only" in codes(make_claim(garbled, mended).warnings)
    assert "form_only" not in codes(make_claim(BEFORE, AFTER).warnings)


def test_a_gain_that_the_base_has_without_chance_is_called_sharpening() -> None:
    plan = make_plan(rivals={"null": "trivial", "greedy": "instead of training"})
    greedy = [e for e in always(0.7) if e.draw == 0]
    found = make_claim(BEFORE, AFTER, plan, rivals={"null": never_right(BEFORE), "greedy": greedy})
    assert found.verdict == "IMPROVED" and "sharpening" in codes(found.warnings)


@pytest.mark.parametrize(("greedy_rate", "rings"), [(0.5, True), (0.34, False)], ids=["half", "less"])
def test_what_greedy_decoding_brings_of_a_gain_is_said_from_half_of_it_on(
    greedy_rate: float, rings: bool
) -> None:
    before, after = always(0.3), always(0.7)
    greedy = [e for e in always(greedy_rate) if e.draw == 0]
    plan = make_plan(rivals={"null": "trivial", "greedy": "instead of training"})
    found = make_claim(before, after, plan, rivals={"null": never_right(before), "greedy": greedy})
    told = [str(each) for each in found.warnings if "greedy decoding alone" in str(each)]
    half = "Base greedy 50.0 %, base sampled 30.0 %: of the gain of +40.0 points, greedy decoding alone"
    assert found.verdict == "IMPROVED" and len(told) == rings
    assert not rings or (told[0].startswith(half) and told[0].endswith("less randomness, no new skill."))


def test_a_loss_is_shown_at_the_level_of_the_plan_however_often_records_were_opened() -> None:
    found = make_claim(arm("base", 0.5, clusters=60), arm("worse", 0.3, clusters=60), level=1e-7)
    assert found.verdict == "REGRESSED"
    assert effect(-0.08, -0.02, 0.0003, alpha=1e-4, alpha_worse=0.05).direction == "worse"


def test_an_interval_without_zero_is_never_called_equivalent() -> None:
    found = effect(0.02, 0.08, 0.01, alpha=1e-4)
    assert (found.direction, found.size) == ("not shown", "not shown")


def test_where_less_is_better_the_margin_is_that_of_the_fall() -> None:
    found = effect(-0.35, -0.25, 1e-4, base=0.9, points=20.0, higher=False)
    assert (found.direction, found.size) == ("better", "matters")
    assert size_said(found, None, higher=False) == "The change exceeds the 20 points that matter."


def test_a_whole_gain_is_found_however_small_the_level() -> None:
    none, all_right = ([e.model_copy(update={"success": won}) for e in BEFORE] for won in (False, True))
    many = [arm(name, 0.5, clusters=60) for name in ("none", "all")]
    arms = [
        [e.model_copy(update={"success": won}) for e in one]
        for one, won in zip(many, (False, True), strict=True)
    ]
    assert make_claim(arms[0], arms[1], level=1e-8).verdict == "IMPROVED"
    assert make_claim(none, all_right, level=1e-8).verdict == "NO EVIDENCE", "20 clusters are too few for it"
