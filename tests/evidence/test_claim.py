"""A claim says what the episodes support under its plan, in one sentence, and nothing else; every obstacle
has a reason without a number beside it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from assay.core.config.settings import AcknowledgedAlarm
from assay.core.errors import EvidenceError
from assay.core.records import HEALTH_RULES, Episode, HealthRule, RuleSummary
from assay.core.seeds import rng
from assay.rollout.dataset.audit_records import Contamination, Overlap, judged, overlap_said
from assay.rollout.dataset.fingerprint import Fingerprint, SplitFingerprint
from assay.rollout.dataset.suite import Suite
from assay.rollout.tasks.protocol import Item
from assay.verdict.evidence.claim.aa_test import aa_control
from assay.verdict.evidence.claim.claim import Claim, ClaimPlan, Compared, not_evaluable, plan_digest
from assay.verdict.evidence.claim.differences import gain_split, success_changes
from assay.verdict.evidence.claim.plan import largest_cluster
from assay.verdict.evidence.claim.warnings import answer_for
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.evidence.words.sentences import controls_said
from conftest import codes, make_claim, make_plan
from synthetic_episodes import SUITE, arm, episode


def test_a_claim_survives_json(claim: Claim) -> None:
    assert Claim.model_validate_json(claim.model_dump_json()) == claim


def test_episode_order_does_not_matter(before: list[Episode], after: list[Episode], claim: Claim) -> None:
    assert make_claim(before[::-1], after[::-1]) == claim


def test_the_cross_check_lies_within_the_interval_that_assumes_nothing(claim: Claim) -> None:
    assert claim.cross_check is not None and claim.difference is not None
    found, check = claim.difference, claim.cross_check
    assert None not in (found.low, found.high, check.low, check.high)
    assert found.low <= check.low < check.high <= found.high  # type: ignore[operator]


def test_when_lower_is_better_a_fall_improves(before: list[Episode], after: list[Episode]) -> None:
    always = [each.model_copy(update={"success": True}) for each in before]
    plan = make_plan(direction="lower", guardrails={})
    assert make_claim(after, before, plan, rivals={"null": always}).verdict == "IMPROVED"


def test_a_stratum_that_falls_is_a_warning_since_strata_are_exploratory() -> None:
    base, good, bad = (
        arm(name, rate, clusters=60) for name, rate in (("base", 0.4), ("good", 1.1), ("bad", 0.0))
    )
    after = [b if b.cluster < "scenario-016" else g for g, b in zip(good, bad, strict=True)]
    arms = [
        [
            e.model_copy(update={"strata": {"tier": "few" if e.cluster < "scenario-016" else "most"}})
            for e in one
        ]
        for one in (base, after)
    ]
    found = make_claim(arms[0], arms[1])
    assert found.verdict == "IMPROVED"
    assert remark("strata_worse", level=0.05, strata=["tier=few"]) in found.warnings


def test_notes_from_elsewhere_are_warnings_whatever_the_verdict(
    before: list[Episode], after: list[Episode]
) -> None:
    notes = remark("untrained"), remark("other_tokenizer")
    plain, noted = make_claim(before, after), make_claim(before, after, notes=notes)
    assert noted.warnings == (*plain.warnings, *notes)
    assert noted.model_copy(update={"warnings": plain.warnings}) == plain
    barred = make_claim(before, after, suites=(SUITE, "x" * 64), notes=notes)
    assert barred.verdict == "NOT EVALUABLE" and barred.warnings == notes


def test_a_draft_has_numbers_and_no_verdict_effect_or_p_and_says_what_would_bar_a_claim(
    before: list[Episode], after: list[Episode]
) -> None:
    asked = {"split": "validation", "stops": [remark("other_alarms")], "notes": (remark("untrained"),)}
    found, claimed = make_claim(before, after, **asked), make_claim(before, after)
    assert (found.verdict, found.effect, found.p) == ("DRAFT", None, None)
    assert found.difference == claimed.difference and claimed.verdict == "IMPROVED"
    assert found.warnings == (remark("would_bar", found=remark("other_alarms")), remark("untrained"))
    assert "No verdict" in found.sentence and not re.search(r"\bp [=<]|IMPROVED|rose|matter", found.sentence)
    assert controls_said(found) == ""


def test_under_six_clusters_a_claim_is_descriptive_only() -> None:
    found = make_claim(arm("base", 0.3, clusters=5), arm("trained", 0.9, clusters=5))
    assert (found.verdict, found.p, codes(found.reasons)) == ("NO EVIDENCE", None, ["too_few_clusters"])


def test_six_to_nine_clusters_give_a_warning() -> None:
    found = make_claim(arm("base", 0.3, clusters=8), arm("trained", 0.9, clusters=8))
    assert remark("few_clusters", n=8, clusters="scenarios") in found.warnings


def test_having_seen_no_change_in_few_clusters_excludes_little() -> None:
    base = arm("base", 0.0, clusters=8, parse_rate=1.0)
    nothing = [e.model_copy(update={"success": False}) for e in base]
    found = make_claim(nothing, nothing)
    assert found.difference is not None and found.difference.low is not None
    assert found.difference.low == pytest.approx(0.025 ** (1 / 8) - 1, abs=0.02)
    assert found.effect is not None and found.effect.size == "not shown"


def test_one_of_a_kind_is_said_in_the_singular() -> None:
    found = make_claim(
        arm("base", 0.3, clusters=1, items_per_cluster=1), arm("t", 0.9, clusters=1, items_per_cluster=1)
    )
    assert "1 scenario, 1 item, K = 4" in found.sentence
    assert (
        str(found.warnings[0])
        == "Descriptive only: 1 scenario; with clusters of these sizes a test needs 6 or more."
        and "1 cluster;" in found.reason
    )


def test_the_parts_of_the_gain_add_up(before: list[Episode], after: list[Episode], claim: Claim) -> None:
    split = gain_split(before, after)
    assert split.parse_part.value is not None and split.correct_part.value is not None
    assert claim.difference is not None
    assert split.parse_part.value + split.correct_part.value == pytest.approx(claim.difference.value)


def test_items_are_counted_as_better_worse_and_same() -> None:
    first = [episode(k, 0, success=k == 0) for k in range(3)]
    second = [episode(k, 0, success=k == 1) for k in range(3)]
    assert success_changes(first, second) == {"better": 1, "worse": 1, "same": 1}


def test_base_against_base_finds_no_evidence(before: list[Episode], claim: Claim) -> None:
    assert claim.control is not None and claim.control.verdict == "NO EVIDENCE"
    found = make_claim(before, arm("trained", 0.65), base_again=arm("other draws", 0.35, first_draw=4))
    assert found.control is not None and found.control.kind == "second base run" and found.control.passed


def test_a_control_on_the_same_draws_is_not_a_control(before: list[Episode]) -> None:
    settings = {"measure": "success_rate", "draws": 4, "rng": rng(0)}
    assert aa_control(before, before, **settings).verdict == "NOT RUN"


def test_a_single_draw_cannot_be_its_own_control() -> None:
    found = make_claim(arm("base", 0.3, draws=1), arm("trained", 0.8, draws=1), make_plan(draws=1))
    assert found.control is not None and found.control.passed is None
    assert "control_not_run" in codes(found.warnings)


@pytest.mark.long
def test_false_positives_of_the_whole_claim_stay_near_their_level() -> None:
    plan, wrong = make_plan(secondary=(), guardrails={}), 0
    base = {
        (k, x): arm(f"{x}{k}", 0.3, clusters=12, items_per_cluster=1, draws=4)
        for k in range(80)
        for x in "ab"
    }
    for k in range(80):
        found = make_claim(
            base[k, "a"], base[k, "b"], plan, base_again=arm(f"c{k}", 0.3, clusters=12, items_per_cluster=1)
        )
        wrong += found.p is not None and found.p <= 0.05
    assert wrong <= 10


def test_secondary_metrics_are_corrected_together(claim: Claim) -> None:
    assert set(claim.secondary) == {"mean_reward", "mass_correct_rate"}
    for found in claim.secondary.values():
        assert found.p is not None and found.p_holm is not None and found.p_holm >= found.p


def test_any_change_of_the_plan_changes_its_digest() -> None:
    assert plan_digest(make_plan()) == plan_digest(make_plan())
    assert plan_digest(make_plan()) != plan_digest(make_plan(smallest_effect_points=3.5))


def test_a_primary_metric_that_is_not_a_rate_is_refused(before: list[Episode], after: list[Episode]) -> None:
    with pytest.raises(EvidenceError, match="rate"):
        make_claim(before, after, make_plan(primary="mean_reward"))


BASE, TRAINED = arm("base", 0.35), arm("trained", 0.65)


def red(rule: HealthRule = "kl", level: Any = "RED") -> RuleSummary:
    return RuleSummary(rule=rule, level=level, first_step=64, worst_step=90, times=2)


def leak(kind: Any) -> Contamination:
    shared = Overlap(kind=kind, splits=("heldout", "train"), count=3, first=("item-1",))
    return Contamination(n_records={}, compared={}, overlaps=(shared,))


def leaks(kind: Any) -> list[Remark]:
    bars, _ = judged(leak(kind), ("train", "validation", "heldout"))
    return [remark("leak", overlap=each) for each in bars]


OBSTACLES: dict[str, tuple[list[Episode], list[Episode], dict[str, Any], str]] = {
    "suite of the base": (BASE, TRAINED, {"suites": ("x" * 64, SUITE)}, "before arm was played on suite x"),
    "suite of the trained": (BASE, TRAINED, {"suites": (SUITE, "x" * 64)}, "after arm was played on suite x"),
    "prompt in two splits": (
        BASE,
        TRAINED,
        {"stops": leaks("prompt")},
        "leak: heldout and train share 3 prompts",
    ),
    "scenario in two splits": (BASE, TRAINED, {"stops": leaks("scenario")}, "share 3 scenario ids"),
    "seed in two splits": (BASE, TRAINED, {"stops": leaks("seed")}, "share 3 generator seeds"),
    "missing draw": (BASE, TRAINED[:-1], {}, "1 missing, first ('item-039', 3)"),
    "repeated draw": ([*BASE, BASE[0]], TRAINED, {}, "1 repeated"),
    "no episodes": (BASE, [], {}, "at least one episode"),
    "unpaired items": (BASE, TRAINED[:-4], {}, "the arms differ: 1 item only in one of before and after"),
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
        {"stops": answer_for([red()], {})[0]},
        "ALARM kl in training: RED from step 90",
    ),
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_each_obstacle_ends_as_not_evaluable_with_its_reason_and_no_number_in_the_headline(name: str) -> None:
    before, after, changes, reason = OBSTACLES[name]
    found = make_claim(before, after, **changes)
    assert found.verdict == "NOT EVALUABLE" and found.effect is None
    assert reason in found.reason and (
        found.difference is None or "base_again" in changes or "stops" in changes
    )
    assert found.sentence.startswith("held-out result not evaluable: ") and not re.search(
        r"\d", found.sentence
    )


def test_evidence_that_cannot_be_read_has_a_claim_without_any_number() -> None:
    found = not_evaluable(
        make_plan(),
        [remark("unreadable", where="x.jsonl, line 3", expected="a record", found="9")],
        policies=("unknown", "unknown"),
        compared=Compared("heldout", "sampled"),
    )
    assert (
        found.verdict == "NOT EVALUABLE" and "line 3" in found.reason and not re.search(r"\d", found.sentence)
    )
    assert (found.difference, found.p, found.before, found.after) == (None, None, None, None)


def test_what_only_warns_does_not_bar() -> None:
    for kind in ("ngram", "answer", "shared_seed"):
        bars, notes = judged(leak(kind), ("train", "heldout"))
        assert not bars and len(notes) == 1 and "heldout" in overlap_said(notes[0])
    assert judged(leak("prompt"), ("train", "validation")) == ([], [])


def test_a_red_alarm_that_was_answered_for_stays_a_warning_with_the_reason() -> None:
    bars, notes = answer_for([red(), red("entropy", "AMBER")], {"kl": "looked at: the probe is short"})
    said = str(notes[0])
    assert not bars and "\u201clooked at: the probe is short\u201d" in said and "ALARM kl" in said
    found = make_claim(BASE, TRAINED, stops=bars, notes=notes)
    assert found.verdict == "IMPROVED" and notes[0] in found.warnings


def test_an_answer_for_an_alarm_that_did_not_ring_is_said() -> None:
    bars, notes = answer_for([red("entropy", "AMBER")], {"entropy": "fine", "kl": "fine"})
    idle = [remark("alarm_did_not_ring", rule=rule, reason="fine") for rule in ("entropy", "kl")]
    assert not bars and notes == idle


def test_a_hostile_reason_is_quoted_on_one_line_with_nothing_invisible() -> None:
    text = "fine\u201d\n\n# IMPROVED <script>\x1b[31m\u202e\u2028"
    note = str(answer_for([red()], {"kl": text})[1][0])
    assert "\n" not in note and "\x1b" not in note and "\u202e" not in note and "\u2028" not in note
    assert note.count("\u201d") == 1


def test_every_rule_of_health_can_be_acknowledged_and_no_other() -> None:
    for rule in HEALTH_RULES:
        assert AcknowledgedAlarm(rule=rule, reason="seen, and harmless").rule == rule
    for wrong in (
        {"rule": "klo", "reason": "seen, and harmless"},
        {"rule": "kl", "reason": "x"},
        {"rule": "kl", "reason": "fine    \n   "},
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


@pytest.mark.parametrize("bounds", [None, (0.0, 0.1)])
def test_rewards_without_bounds_that_hold_are_not_tested_and_that_is_said(
    bounds: tuple[float, float] | None,
) -> None:
    found = make_claim(BASE, TRAINED, make_plan(reward_range=bounds))
    assert found.secondary["mean_reward"].p is None and found.secondary["mass_correct_rate"].p is not None
    assert remark("not_tested", measures=["mean_reward"]) in found.warnings


def test_wider_bounds_of_rewards_make_wider_intervals() -> None:
    narrow, wide = (
        make_claim(BASE, TRAINED, make_plan(reward_range=bounds)).secondary["mean_reward"].difference
        for bounds in ((-2.0, 2.0), (-20.0, 20.0))
    )
    assert wide.low is not None and narrow.low is not None and wide.low < narrow.low < narrow.value  # type: ignore[operator]


def test_a_confirmatory_measure_that_falls_while_the_primary_rises_is_a_regression() -> None:
    after = [e.model_copy(update={"reward": e.reward - 2}) for e in TRAINED]
    found = make_claim(BASE, after, make_plan(guardrails={}, reward_range=(-3.0, 2.0)))
    assert found.verdict == "IMPROVED WITH REGRESSIONS" and "mean_reward" in found.reason


def test_a_gain_from_parsing_alone_and_one_from_play_alone_are_told_apart() -> None:
    def half(k: int) -> bool:
        return k % 2 == 0

    base = [episode(k, 0, success=half(k) and k % 4 == 0, parsed=half(k)) for k in range(40)]
    mended = [episode(k, 0, success=k % 4 in (0, 1), parsed=True) for k in range(40)]
    parse = gain_split(base, mended)
    assert parse.parse_part.value == pytest.approx(0.25) and parse.correct_part.value == pytest.approx(0.0)
    assert parse.parsed_before == 0.5 and parse.parsed_after == 1.0
    better = [episode(k, 0, success=half(k), parsed=half(k)) for k in range(40)]
    play = gain_split(base, better)
    assert play.parse_part.value == pytest.approx(0.0) and play.correct_part.value == pytest.approx(0.25)


def test_clusters_larger_than_any_drawn_are_held_possible_where_the_plan_knows_of_them() -> None:
    """Twenty small scenarios that gain are no evidence where others hold thirty times as many items."""
    base, good = arm("base", 0.1, clusters=20), arm("good", 0.95, clusters=20)
    usual = make_claim(base, good, make_plan(largest_cluster=2))
    assert usual.verdict == "IMPROVED"
    found = make_claim(base, good, make_plan(largest_cluster=60))
    assert found.verdict == "NO EVIDENCE" and found.p is None
    assert (
        found.reason == "descriptive only: 20 clusters; with clusters of these sizes a test needs 113 or more"
    )
    assert found.warnings[0].values["needed"] == 113


def test_one_cluster_that_outweighs_the_others_lets_nothing_be_shown() -> None:
    homes = [*range(12), *[12] * 24]
    arms = [
        [
            episode(item, draw, success=right, cluster=home)
            for item, home in enumerate(homes)
            for draw in range(4)
        ]
        for right in (False, True)
    ]
    found = make_claim(*arms, make_plan(guardrails={}, secondary=()))
    assert (found.verdict, found.p) == ("NO EVIDENCE", None)
    assert found.reason.startswith(
        "descriptive only: 13 clusters; with clusters of these sizes a test needs "
    )


def split_of(largest: int | None, usual: float | None) -> SplitFingerprint:
    found: dict[str, Any] = {
        "file_sha256": "",
        "records_sha256": "",
        "n_records": 1,
        "strata": {},
        "dropped": [],
    }
    return SplitFingerprint(**found, largest_cluster=largest, usual_cluster=usual)


@pytest.mark.parametrize(
    ("splits", "expected"),
    [
        ({"heldout": (2, 2.0), "train": (8, 8.0)}, 2),  # larger clusters since the file is longer
        (
            {"heldout": (2, 2.0), "train": (80, 8.0)},
            20,
        ),  # one of ten times the usual: so could have been drawn
        (
            {"heldout": (30, 2.0), "train": (1, 1.0)},
            30,
        ),  # of the held-out file, whatever the suite took of it
        ({"heldout": (2, 2.0), "train": (2, 2.0), "traps": (99, 1.0)}, 2),  # no split of the claim
        ({"heldout": (2, 2.0), "train": (None, None)}, None),  # a fingerprint of before
    ],
)
def test_the_plan_knows_the_largest_cluster_that_a_suite_could_have_held(
    splits: dict[str, tuple[int | None, float | None]], expected: int | None
) -> None:
    items = tuple(Item(f"{k}", f"c{k // 2}", {}, None, None) for k in range(20))
    suite = Suite("heldout", items, 2, 0)
    data = Fingerprint.model_construct(splits={name: split_of(*each) for name, each in splits.items()})
    assert largest_cluster(suite, data, ("train", "validation")) == expected
