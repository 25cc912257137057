"""Checks and limits that a reader meets: what bars a claim is no tick, and weak bases and other trials are
said."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from assay.core.records import Episode, HealthSummary, RuleSummary
from assay.rollout.tasks.protocol import Task
from assay.stages.render_evidence.claim_inputs import OTHER_PLAN, OTHER_POLICY
from assay.stages.render_evidence.integrity import integrity
from assay.stages.render_evidence.limits import limits
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.page.shell import Tick
from assay.verdict.evidence.words.remarks import Remark, remark
from conftest import make_claim, make_report
from made_pages import FACTS
from synthetic_episodes import SUITE

TASK = cast(Task, SimpleNamespace(cluster_name="scenarios", ceiling="oracle"))


def ticks(claim: Claim, *blockers: Remark, facts: Any = FACTS, **more: Any) -> dict[str, Tick]:
    settings: dict[str, Any] = {"graded": {"pre_eval": 160, "post_eval": 160}, "misgraded": []}
    return {each.name: each for each in integrity(claim, facts, None, blockers=blockers, **(settings | more))}


def test_every_check_that_was_made_and_held_is_a_tick_and_the_others_say_that_they_were_not(
    claim: Claim,
) -> None:
    found = ticks(claim)
    for name in ("Graded again", "Same suite", "Plan before training", "Same policies"):
        assert found[name].held is True, name
    assert found["Contamination"].held is None and found["Random rewards"].held is None
    assert found["A/A"].held is (None if claim.control is None else claim.control.passed)
    assert "320 stored episodes, in 2 files," in found["Graded again"].said


@pytest.mark.parametrize(
    ("code", "name"),
    [
        *((code, "Plan before training") for code in OTHER_PLAN),
        *((code, "Same policies") for code in OTHER_POLICY),
        ("other_records", "Contamination"),
        ("other_alarms", "Alarms of the training"),
        ("openings_lost", "Openings"),
    ],
)
def test_what_bars_a_claim_takes_the_tick_of_its_check(claim: Claim, code: str, name: str) -> None:
    shared = SimpleNamespace(compared={})
    rows = integrity(claim, FACTS, cast(Any, shared), blockers=[remark(code)], graded={}, misgraded=[])
    assert [row.name for row in rows if row.held is False] == [name]


def test_what_bars_a_claim_and_belongs_to_no_check_has_a_line_of_its_own(claim: Claim) -> None:
    found = ticks(claim, remark("log_not_whole"), misgraded=[])
    assert found["Found"].held is False and found["Found"].said == str(remark("log_not_whole"))
    bad = "post_eval: 3 episodes graded otherwise when graded again"
    found = ticks(claim, remark("misgraded", found=bad), misgraded=[bad])
    assert found["Graded again"].held is False and "Found" not in found


def test_a_red_alarm_is_never_a_tick_whoever_answered_for_it(claim: Claim) -> None:
    rule = RuleSummary(rule="kl", level="RED", first_step=3, worst_step=9, times=1)
    health = HealthSummary(worst="RED", rules=(rule,), unmeasured=())
    found = ticks(claim, facts=FACTS.model_copy(update={"health": health}))
    assert (
        found["Alarms of the training"].held is False and "RED: kl." in found["Alarms of the training"].said
    )


def test_an_unpaired_claim_has_no_tick_for_its_suite(before: list[Episode], after: list[Episode]) -> None:
    assert ticks(make_claim(before, after, suites=(SUITE, "x" * 64)))["Same suite"].held is False


def test_limits_name_a_weak_base_and_who_plays_better_than_the_trained_policy(
    before: list[Episode], after: list[Episode], claim: Claim
) -> None:
    first, second = make_report(before), make_report(after)
    said = " ".join(limits(TASK, claim, first, second, {"clever": second, "oracle": second}))
    rate = f"{100 * (second.measures['success_rate'].value or 0):.1f}"
    assert (
        f"less than scripted players that learned nothing: clever {rate} %" in said and "oracle" not in said
    )
    for word in (
        "One base, one training run, one held-out suite",
        "Random-reward arm",
        "Openings:",
        "Trials",
    ):
        assert word in said
    strong = " ".join(limits(TASK, claim, second, first, {"clever": second}))
    assert "Scripted players above the trained policy's" in strong
    barred = make_claim(before, after, suites=(SUITE, "x" * 64))
    assert "% success" not in " ".join(limits(TASK, barred, first, second, {"clever": second}))
