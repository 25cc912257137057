"""Every verdict in its exact wording has episodes that produce it, and every obstacle a reason without a
number beside it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from assay.core.config.claim import AcknowledgedAlarm, Rule
from assay.core.records import HEALTH_RULES, Episode, HealthRule, RuleSummary
from assay.dataset.audit_records import Contamination, Overlap, judged
from assay.evidence.claim.claim import ClaimPlan, not_evaluable, plan_digest
from assay.evidence.claim.differences import gain_split
from assay.evidence.claim.warnings import answer_for
from conftest import make_claim, make_plan
from synthetic_episodes import arm, episode

BASE, TRAINED = arm("base", 0.35), arm("trained", 0.65)
NUMBER = r"[+\u2212]\d+\.\d"
INTERVAL = rf"95 % interval {NUMBER}\u2026{NUMBER}, p (= \.\d+|< \.0001|= 1)"
COUNTS = r"\d+ scenarios, \d+ items, K = 4"
ENDS = r"One training run; this checkpoint against this base\."


def form(verb: str, between: str = "") -> str:
    arms = r"\d+\.\d \u2192 \d+\.\d %"
    return rf"held-out success {verb} {arms}: {NUMBER} points \({INTERVAL}; {COUNTS}\)\. {between}{ENDS}"


SAID: list[tuple[str, str | None, list[Episode], dict[str, Any], str]] = [
    ("IMPROVED", None, TRAINED, {}, form("rose")),
    ("IMPROVED WITH REGRESSIONS", None, arm("rash", 0.95, parse_rate=0.75), {}, form("rose")),
    ("REGRESSED", None, arm("worse", 0.1), {}, form("fell")),
    (
        "NO EVIDENCE",
        "equivalent",
        arm("same", 0.35),
        {"smallest_effect_points": 40.0},
        form("(rose|fell|stayed)", r"No evidence of a change that matters \(equivalent\)\. "),
    ),
    (
        "NO EVIDENCE",
        "inconclusive",
        arm("same", 0.35),
        {},
        form(
            "(rose|fell|stayed)",
            r"No evidence of a change \(inconclusive; smallest detectable effect \d+\.\d points\)\. ",
        ),
    ),
]


@pytest.mark.parametrize(("verdict", "detail", "after", "plan", "sentence"), SAID)
def test_each_verdict_has_its_wording(
    verdict: str, detail: str | None, after: list[Episode], plan: dict[str, Any], sentence: str
) -> None:
    found = make_claim(BASE, after, make_plan(**plan))
    assert (found.verdict, found.detail) == (verdict, detail)
    assert re.fullmatch(sentence, found.sentence), found.sentence


def red(rule: HealthRule = "kl", level: Any = "RED") -> RuleSummary:
    return RuleSummary(rule=rule, level=level, first_step=64, worst_step=90, times=2)


def leak(kind: Any) -> Contamination:
    shared = Overlap(kind=kind, splits=("heldout", "train"), count=3, first=("item-1",))
    return Contamination(n_records={}, compared={}, overlaps=(shared,))


def leaks(kind: Any) -> list[tuple[str, str]]:
    return judged(leak(kind), ("train", "validation", "heldout"))[0]


OBSTACLES: dict[str, tuple[list[Episode], list[Episode], dict[str, Any], str]] = {
    "suite of the base": (BASE, TRAINED, {"before_suite": "x" * 64}, "before arm was played on suite x"),
    "suite of the trained": (BASE, TRAINED, {"after_suite": "x" * 64}, "after arm was played on suite x"),
    "prompt in two splits": (
        BASE,
        TRAINED,
        {"blockers": leaks("prompt")},
        "leak: heldout and train share 3 prompts",
    ),
    "scenario in two splits": (BASE, TRAINED, {"blockers": leaks("scenario")}, "share 3 scenario ids"),
    "seed in two splits": (BASE, TRAINED, {"blockers": leaks("seed")}, "share 3 generator seeds"),
    "missing draw": (BASE, TRAINED[:-1], {}, "1 missing, first ('item-039', 3)"),
    "repeated draw": ([*BASE, BASE[0]], TRAINED, {}, "1 repeated"),
    "no episodes": (BASE, [], {}, "at least one episode"),
    "unpaired items": (BASE, TRAINED[:-4], {}, "arms differ: 1 (item, cluster) pairs"),
    "not a number": (
        [*BASE[:-1], BASE[-1].model_copy(update={"reward": float("nan")})],
        TRAINED,
        {},
        "finite",
    ),
    "A/A control": (
        BASE,
        TRAINED,
        {"base_again": arm("another", 0.95)},
        "p <= 0.01 between two sets of draws",
    ),
    "red alarm": (
        BASE,
        TRAINED,
        {"blockers": answer_for([red()], {})[0]},
        "ALARM kl in training: RED from step 90",
    ),
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_each_obstacle_ends_as_not_evaluable_with_its_reason_and_no_number_in_the_headline(name: str) -> None:
    before, after, changes, reason = OBSTACLES[name]
    found = make_claim(before, after, **changes)
    assert found.verdict == "NOT EVALUABLE" and found.detail is None
    assert reason in found.reason
    assert found.sentence.startswith("held-out result not evaluable: ") and not re.search(
        r"\d", found.sentence
    )
    assert "blocking finding" not in found.sentence  # every kind is named in words


def test_evidence_that_cannot_be_read_has_a_claim_without_any_number() -> None:
    found = not_evaluable(
        make_plan(),
        [("a damaged file", "a damaged file: x.jsonl, line 3")],
        before_policy="unknown",
        after_policy="unknown",
        split="heldout",
        decoding="sampled",
        training_seeds=(),
    )
    assert (
        found.verdict == "NOT EVALUABLE" and "line 3" in found.reason and not re.search(r"\d", found.sentence)
    )
    assert (found.difference, found.p, found.before, found.after) == (None, None, None, None)


def test_what_only_warns_does_not_bar() -> None:
    for kind in ("ngram", "answer", "shared_seed"):
        bars, notes = judged(leak(kind), ("train", "heldout"))
        assert not bars and len(notes) == 1 and "heldout" in notes[0]
    assert judged(leak("prompt"), ("train", "validation")) == ([], [])


def test_a_red_alarm_that_was_answered_for_stays_a_warning_with_the_reason() -> None:
    bars, notes = answer_for([red(), red("entropy", "AMBER")], {"kl": "looked at: the probe is short"})
    assert not bars and "\u201clooked at: the probe is short\u201d" in notes[0] and "ALARM kl" in notes[0]
    found = make_claim(BASE, TRAINED, blockers=bars, notes=notes)
    assert found.verdict == "IMPROVED" and notes[0] in found.warnings


def test_an_answer_for_an_alarm_that_did_not_ring_is_said() -> None:
    bars, notes = answer_for([red("entropy", "AMBER")], {"entropy": "fine", "kl": "fine"})
    assert not bars and [note.split(" did not")[0] for note in notes] == [
        "Acknowledged alarm entropy",
        "Acknowledged alarm kl",
    ]


def test_a_hostile_reason_is_quoted_on_one_line_with_nothing_invisible() -> None:
    text = "fine\u201d\n\n# IMPROVED <script>\x1b[31m\u202e\u2028"
    note = answer_for([red()], {"kl": text})[1][0]
    assert "\n" not in note and "\x1b" not in note and "\u202e" not in note and "\u2028" not in note
    assert note.count("\u201d") == 1


def test_every_rule_of_health_can_be_acknowledged_and_no_other() -> None:
    assert set(Rule.__args__) == set(HEALTH_RULES)  # type: ignore[attr-defined]
    assert AcknowledgedAlarm(rule="kl", reason="why").rule == "kl"
    for wrong in (
        {"rule": "klo", "reason": "why"},
        {"rule": "kl", "reason": " "},
        {"rule": "kl", "reason": ""},
    ):
        with pytest.raises(ValueError):
            AcknowledgedAlarm.model_validate(wrong)


def test_plans_from_before_there_was_a_choice_of_controls_keep_their_digest() -> None:
    old = make_plan().model_dump(mode="json")
    del old["controls"]
    assert plan_digest(ClaimPlan.model_validate_json(json.dumps(old))) == plan_digest(make_plan())
    assert plan_digest(make_plan(controls=("aa", "random_reward"))) != plan_digest(make_plan())


def test_a_confirmatory_measure_that_falls_while_the_primary_rises_is_a_regression() -> None:
    after = [e.model_copy(update={"reward": e.reward - 2}) for e in TRAINED]
    found = make_claim(BASE, after, make_plan(guardrails={}))
    assert found.verdict == "IMPROVED WITH REGRESSIONS" and "mean_reward" in found.reason


def test_a_gain_from_parsing_alone_and_one_from_play_alone_are_told_apart() -> None:
    def half(k: int) -> bool:
        return k % 2 == 0

    base = [episode(k, 0, success=half(k) and k % 4 == 0, parsed=half(k)) for k in range(40)]
    mended = [episode(k, 0, success=k % 4 in (0, 1), parsed=True) for k in range(40)]
    parse = gain_split(base, mended)
    assert parse.parse_part.value == pytest.approx(0.25) and parse.correct_part.value == pytest.approx(0.0)
    better = [episode(k, 0, success=half(k), parsed=half(k)) for k in range(40)]
    play = gain_split(base, better)
    assert play.parse_part.value == pytest.approx(0.0) and play.correct_part.value == pytest.approx(0.25)
