"""How much a cluster that nobody saw may lose stands in the plan, in the claim and in its sentence."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from scipy import stats
from tests.tools.judged_files import as_csv

from assay.rollout.dataset.suite import Unseen
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.plan import PlannedSuite, plan_digest, usual_worst
from assay.verdict.judge.command import JudgeRequest, judge_files
from assay.verdict.judge.plan import plan_text, read_plan
from assay.verdict.judge.planning import PlanRequest
from assay.verdict.judge.planning import make_plan as plan_judgement
from conftest import make_claim, make_plan
from synthetic_episodes import arm


def test_a_plan_that_does_not_say_it_is_the_plan_it_was_before_plans_said_so() -> None:
    plan, said = make_plan(), make_plan(worst_cluster=50.0)
    assert plan.unseen == Unseen(0.0, 1.0) and said.unseen == Unseen(0.0, 0.5)
    assert plan_digest(plan) == plan_digest(make_plan(worst_cluster=100.0)) != plan_digest(said)
    suite = PlannedSuite(suite_digest="5" * 64, largest_cluster=3, worst_cluster=25.0)
    assert suite.unseen == Unseen(3.0, 0.25)


@pytest.mark.parametrize("clusters", [12, 40])
def test_a_claim_says_what_it_takes_for_granted_and_its_p_without_that(clusters: int) -> None:
    arms = arm("base", 0.35, clusters=clusters), arm("trained", 0.62, clusters=clusters)
    whole, half = make_claim(*arms), make_claim(*arms, make_plan(worst_cluster=50.0))
    assert whole.p_worst_case is None and "nobody saw" not in whole.sentence
    assert half.p is not None and half.p_worst_case == whole.p and half.p < (whole.p or 0.0)
    assert half.difference and whole.difference and (half.difference.low or 0) > (whole.difference.low or 0)
    assert "none of the scenarios that nobody saw loses more than 50 points" in half.sentence
    hangs = half.p <= 0.05 < half.p_worst_case
    assert hangs == any(each.code == "hangs_on_worst_cluster" for each in half.warnings)
    assert Claim.model_validate_json(half.model_dump_json()) == half


def test_a_verdict_that_hangs_on_the_assumption_is_warned_of() -> None:
    plan, base = make_plan(worst_cluster=25.0), arm("base", 0.3, clusters=14)
    found = [make_claim(base, arm("trained", rate, clusters=14), plan) for rate in (0.3, 0.45, 0.5, 0.95)]
    told = [any(each.code == "hangs_on_worst_cluster" for each in claim.warnings) for claim in found]
    assert told == [(c.p or 1.0) <= 0.05 < (c.p_worst_case or 0.0) for c in found]
    assert any(told) and not all(told)
    assert not told[-1], "so large a gain needs no assumption"


def test_without_a_setting_it_follows_from_the_draws_of_a_cluster() -> None:
    assert [usual_worst(draws) for draws in (1.0, 2.0, 3.9, 4.0, 16.0, 1e6)] == [100, 71, 51, 50, 25, 25]


def judged(folder: Path, items: int, clusters: int, draws: int, plan: Path | None = None) -> Claim:
    """Return the claim of made results: every third item is lost, two of three are won.

    The last draw of the first cluster's items differs from the others: draws that never do count as one.
    """
    paths = []
    for name, right in (("before", lambda k: k % 3 == 0), ("after", lambda k: k % 3 > 0)):
        rows = [
            {
                "item": f"q{k}",
                "draw": draw,
                "cluster": f"c{k % clusters}",
                "score": int(right(k) != (draw > 0 and draw == draws - 1 and k % clusters == 0)),
            }
            for k in range(items)
            for draw in range(draws)
        ]
        paths.append(as_csv(folder / f"{name}.csv", rows))
    return judge_files(*paths, JudgeRequest(plan=plan))[2].claim


def test_judge_takes_it_from_the_plan_and_else_from_the_results(tmp_path: Path) -> None:
    single = judged(tmp_path, 48, 48, 1)
    assert single.plan.worst_cluster == 100 and single.p_worst_case is None
    assert single.p == pytest.approx(stats.binomtest(32, 48).pvalue, rel=1e-9), "McNemar's exact test"
    assert judged(tmp_path, 48, 12, 1).plan.worst_cluster == 50
    assert judged(tmp_path, 48, 12, 4).plan.worst_cluster == 25
    path = tmp_path / "plan.yaml"
    plan = plan_judgement(PlanRequest(items="48", clusters=12, rate=0.4, draws=1, worst=80.0), None)
    path.write_text(plan_text(plan), encoding="utf-8")
    assert read_plan(path) == plan
    found = judged(tmp_path, 48, 12, 1, path)
    assert found.plan.worst_cluster == 80 and found.p_worst_case is not None
    usual = plan_judgement(PlanRequest(items="48", clusters=12, rate=0.4, draws=1), None)
    small, large = (each.power.smallest_detectable_points or math.inf for each in (usual, plan))
    assert usual.worst_cluster == 50 and small < large
    whole = plan_judgement(PlanRequest(items="48", rate=0.4, draws=1), None)
    assert whole.worst_cluster == 100 and "worst_cluster" not in plan_text(whole)
