"""A claim says what the episodes support under its plan, in one sentence, and nothing else."""

from __future__ import annotations

import re

import pytest

from assay.core.errors import EvidenceError
from assay.core.records import Episode
from assay.core.seeds import rng
from assay.evidence.claim.aa_test import aa_control
from assay.evidence.claim.claim import Claim, plan_digest
from assay.evidence.claim.differences import gain_split, success_changes
from conftest import make_claim, make_plan
from synthetic_episodes import arm, episode


def test_a_clear_gain_is_improved_and_the_sentence_has_its_form(claim: Claim) -> None:
    assert claim.verdict == "IMPROVED"
    form = (
        r"held-out success rose \d+\.\d \u2192 \d+\.\d %: \+\d+\.\d points \(95 % interval"
        r" \+\d+\.\d\u2026\+\d+\.\d, "
        r"p (= |< )\.\d+; 20 scenarios, 40 items, K = 4\)\. One training run; this checkpoint against this"
        r" base\."
    )
    assert re.fullmatch(form, claim.sentence)


def test_a_claim_survives_json(claim: Claim) -> None:
    assert Claim.model_validate_json(claim.model_dump_json()) == claim


def test_episode_order_does_not_matter(before: list[Episode], after: list[Episode], claim: Claim) -> None:
    assert make_claim(before[::-1], after[::-1]) == claim


def test_the_cross_check_agrees_with_the_interval(claim: Claim) -> None:
    assert claim.cross_check is not None and claim.difference is not None
    assert claim.cross_check.low == pytest.approx(claim.difference.low, abs=0.05)


def test_a_clear_loss_is_regressed(before: list[Episode], after: list[Episode]) -> None:
    found = make_claim(after, before)
    assert found.verdict == "REGRESSED" and " fell " in found.sentence


def test_when_lower_is_better_a_fall_improves(before: list[Episode], after: list[Episode]) -> None:
    assert make_claim(after, before, make_plan(direction="lower", guardrails={})).verdict == "IMPROVED"


def test_equal_policies_give_no_evidence_with_the_detectable_effect(before: list[Episode]) -> None:
    found = make_claim(before, arm("again", 0.35))
    assert (found.verdict, found.detail) == ("NO EVIDENCE", "inconclusive")
    assert "smallest detectable effect" in found.sentence


def test_a_change_too_small_to_matter_is_equivalent(before: list[Episode]) -> None:
    found = make_claim(before, arm("again", 0.35), make_plan(smallest_effect_points=40.0))
    assert found.detail == "equivalent"


def test_a_gain_that_breaks_parsing_is_improved_with_regressions(before: list[Episode]) -> None:
    found = make_claim(before, arm("rash", 0.95, parse_rate=0.75))
    assert found.verdict == "IMPROVED WITH REGRESSIONS"
    assert "parsed_rate" in found.reason


def test_a_stratum_that_falls_is_a_warning_since_strata_are_exploratory() -> None:
    base, good, bad = (
        arm(name, rate, clusters=30) for name, rate in (("base", 0.4), ("good", 1.1), ("bad", 0.0))
    )
    after = [b if b.cluster < "scenario-008" else g for g, b in zip(good, bad, strict=True)]
    arms = [
        [
            e.model_copy(update={"strata": {"tier": "few" if e.cluster < "scenario-008" else "most"}})
            for e in one
        ]
        for one in (base, after)
    ]
    found = make_claim(arms[0], arms[1])
    assert found.verdict == "IMPROVED"
    assert "Got worse within strata, which is exploratory (Holm p <= 0.05): tier=few." in found.warnings


@pytest.mark.parametrize("suites", [("x" * 64, "5" * 64), ("5" * 64, "x" * 64)])
def test_another_suite_is_not_evaluable(
    before: list[Episode], after: list[Episode], suites: tuple[str, str]
) -> None:
    found = make_claim(before, after, before_suite=suites[0], after_suite=suites[1])
    assert found.verdict == "NOT EVALUABLE" and found.difference is None
    assert not re.search(r"\d", found.sentence)


def test_missing_draws_are_not_evaluable_and_give_no_number(
    before: list[Episode], after: list[Episode]
) -> None:
    found = make_claim(before, after[:-1])
    assert found.verdict == "NOT EVALUABLE" and "missing" in found.reason
    assert not re.search(r"\d", found.sentence)


def test_unpaired_items_are_not_evaluable(before: list[Episode], after: list[Episode]) -> None:
    assert make_claim(before, after[:-8]).verdict == "NOT EVALUABLE"


def test_a_known_blocker_is_not_evaluable(before: list[Episode], after: list[Episode]) -> None:
    found = make_claim(before, after, blockers=["3 prompts leak between splits"])
    assert found.verdict == "NOT EVALUABLE" and "leak" in found.reason
    assert not re.search(r"\d", found.sentence)


def test_notes_from_elsewhere_are_warnings_whatever_the_verdict(
    before: list[Episode], after: list[Episode]
) -> None:
    plain, noted = make_claim(before, after), make_claim(before, after, notes=("an alarm", "a cut"))
    assert noted.warnings == (*plain.warnings, "an alarm", "a cut")
    assert noted.model_copy(update={"warnings": plain.warnings}) == plain
    barred = make_claim(before, after, after_suite="x" * 64, notes=("an alarm",))
    assert barred.verdict == "NOT EVALUABLE" and barred.warnings == ("an alarm",)


def test_under_six_clusters_a_claim_is_descriptive_only() -> None:
    found = make_claim(arm("base", 0.3, clusters=5), arm("trained", 0.9, clusters=5))
    assert (found.verdict, found.detail, found.p) == ("NO EVIDENCE", "descriptive only", None)


def test_six_to_nine_clusters_give_a_warning() -> None:
    found = make_claim(arm("base", 0.3, clusters=8), arm("trained", 0.9, clusters=8))
    assert any("Only 8 scenarios" in text for text in found.warnings)


def test_no_wide_interval_is_warned_of_where_there_is_none() -> None:
    base = arm("base", 0.0, clusters=8, parse_rate=1.0)
    nothing = [e.model_copy(update={"success": False}) for e in base]
    found = make_claim(nothing, nothing)
    assert found.difference is not None and found.difference.low is None
    assert not any("the interval is wide" in text for text in found.warnings)
    assert "All 8 scenarios changed by the same amount: the data hold no interval." in found.warnings


def test_one_of_a_kind_is_said_in_the_singular() -> None:
    found = make_claim(
        arm("base", 0.3, clusters=1, items_per_cluster=1), arm("t", 0.9, clusters=1, items_per_cluster=1)
    )
    assert "1 scenario, 1 item, K = 4" in found.sentence
    assert "Descriptive only: 1 scenario." in found.warnings and "1 cluster," in found.reason


def test_the_parts_of_the_gain_add_up(before: list[Episode], after: list[Episode], claim: Claim) -> None:
    split = gain_split(before, after)
    assert split.parse_part.value is not None and split.correct_part.value is not None
    assert claim.difference is not None
    assert split.parse_part.value + split.correct_part.value == pytest.approx(claim.difference.value)


def test_a_gain_from_syntax_alone_is_a_parse_part() -> None:
    broken = [episode(k, 0, success=False, parsed=k % 2 == 0) for k in range(12)]
    mended = [episode(k, 0, success=k % 2 == 1) for k in range(12)]
    split = gain_split(broken, [episode(k, 0, success=False) for k in range(12)])
    assert split.parse_part.value == split.correct_part.value == 0
    assert gain_split(broken, mended).parsed_before == 0.5


def test_items_are_counted_as_better_worse_and_same() -> None:
    first = [episode(k, 0, success=k == 0) for k in range(3)]
    second = [episode(k, 0, success=k == 1) for k in range(3)]
    assert success_changes(first, second) == {"better": 1, "worse": 1, "same": 1}


def test_base_against_base_finds_no_evidence(before: list[Episode], claim: Claim) -> None:
    assert claim.control is not None and claim.control.verdict == "NO EVIDENCE"
    found = make_claim(before, arm("trained", 0.65), base_again=arm("other draws", 0.35, first_draw=4))
    assert found.control is not None and found.control.kind == "second base run" and found.control.passed


def test_a_control_that_finds_a_difference_blocks_the_claim(
    before: list[Episode], after: list[Episode]
) -> None:
    found = make_claim(before, after, base_again=arm("not the base", 0.95))
    assert found.verdict == "NOT EVALUABLE" and "control" in found.sentence
    assert not re.search(r"\d", found.sentence)


def test_a_control_on_the_same_draws_is_not_a_control(before: list[Episode]) -> None:
    settings = {"measure": "success_rate", "draws": 4, "rng": rng(0)}
    assert aa_control(before, before, **settings).verdict == "NOT RUN"


def test_a_single_draw_cannot_be_its_own_control() -> None:
    found = make_claim(arm("base", 0.3, draws=1), arm("trained", 0.8, draws=1), make_plan(draws=1))
    assert found.control is not None and found.control.passed is None
    assert any("No A/A control" in text for text in found.warnings)


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
