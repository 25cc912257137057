"""What stands beside the two arms of a claim is read and weighed; evidence that cannot be read leaves no older claim behind."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.config.claim import AcknowledgedAlarm, EvidenceSettings
from assay.dataset.contamination import Contamination, Overlap
from assay.errors import RecordError
from assay.evaluation.planning import PlannedPower
from assay.evaluation.report import Report
from assay.evidence.claim import Claim
from assay.evidence.plan import ClaimPlan
from assay.records import ControlFacts, HealthSummary, RuleSummary, TrainFacts
from assay.stages.claim_inputs import ClaimInputs, claim_inputs
from assay.stages.opened import note_opening, openings
from assay.stages.project import Project
from assay.storage.json import read_record, write_json
from tests.house import ROOT
from tests.stages.test_bad_input import assay


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a copy of the committed project, with whatever its runs noted beside the results left out."""
    for name in ("configs", "data"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "evidence/results", tmp_path / "evidence/results")
    for name in ("contamination.json", "plan_power.json"):
        (tmp_path / "evidence/results" / name).unlink(missing_ok=True)
    shutil.rmtree(tmp_path / "evidence/results/control", ignore_errors=True)
    (tmp_path / "evidence/results/health.jsonl").touch()
    shutil.copy(ROOT / "params.yaml", tmp_path)
    return Project.open(tmp_path)


def arms(project: Project) -> tuple[Report, Report]:
    one, other = (read_record(project.results(f"{name}.json"), Report, fix="") for name in ("pre_eval", "post_eval"))
    return one, other


def read(project: Project, **changes: Any) -> ClaimInputs:
    plan = read_record(project.results("claim_plan.json"), ClaimPlan, fix="")
    facts = read_record(project.results("train.json"), TrainFacts, fix="")
    return claim_inputs(project, plan, facts.model_copy(update=changes), arms(project))


def planned(project: Project, points: float | None, **changes: Any) -> None:
    base = arms(project)[0]
    settings = {
        "measure": "success_rate", "suite_digest": base.suite_digest, "policy_digest": base.policy_digest, "n_clusters": 9,
        "n_items": 9, "draws": 4, "base_rate": 0.2, "noise_points": 20.0, "alpha": 0.05, "power": 0.8,
        "assumed_spread_points": 20.0, "smallest_detectable_points": points, "by_spread": {},
    }  # fmt: skip
    write_json(project.results("plan_power.json"), PlannedPower.model_validate(settings | changes))


def test_what_was_never_looked_at_is_said(project: Project) -> None:
    found = read(project)
    assert not found.blockers and found.planned_points is None and found.random_arm is None
    begin = ("Whether held-out work stands", "The smallest detectable effect was not", "How often the held-out suite")
    assert len(found.notes) == 3 and all(note.startswith(text) for note, text in zip(found.notes, begin, strict=True))


def test_contamination_and_an_edited_plan_bar_the_claim(project: Project) -> None:
    leak = Overlap(kind="prompt", splits=("heldout", "train"), count=2, first=("a",))
    near = Overlap(kind="ngram", splits=("heldout", "train"), count=5, first=("b",))
    write_json(project.results("contamination.json"), Contamination(n_records={}, compared={}, overlaps=(leak, near)))
    found = read(project, claim_plan_sha256="0" * 64)
    assert [kind for kind, _ in found.blockers] == [
        "the plan of the claim was changed after training",
        "a leak between splits: prompts with the same words in common",
    ]
    assert any("13 words on end" in note for note in found.notes)


def test_a_red_alarm_bars_until_it_is_acknowledged_and_the_plan_stays_as_it_was(project: Project) -> None:
    rule = RuleSummary(rule="kl", level="RED", first_step=3, worst_step=9, times=1)
    ill = HealthSummary(worst="RED", rules=(rule,), unmeasured=())
    barred = read(project, health=ill)
    assert [kind for kind, _ in barred.blockers] == ["a red alarm of the training is not acknowledged"]
    answered = EvidenceSettings(acknowledged_alarms=[AcknowledgedAlarm(rule="kl", reason="the probe is tiny")])
    calm = Project(project.root, project.params.model_copy(update={"evidence": answered}))
    free = read(calm, health=ill)
    assert not free.blockers and "\u201cthe probe is tiny\u201d" in free.notes[0]


@pytest.mark.parametrize(
    ("points", "said"), [(12.5, "only gains from 12.5 points on"), (None, "no possible gain"), (4.0, None)]
)
def test_a_plan_that_could_not_show_the_smallest_effect_is_a_warning(
    project: Project, points: float | None, said: str | None
) -> None:
    planned(project, points)
    found = read(project)
    assert found.planned_points == points
    assert any(note.startswith("Before training") for note in found.notes) == (said is not None)
    assert said is None or any(said in note for note in found.notes)


def test_a_plan_for_another_suite_is_not_shown(project: Project) -> None:
    planned(project, 4.0, suite_digest="other")
    found = read(project)
    assert found.planned_points is None and any("another suite or base" in note for note in found.notes)


def test_every_opening_is_noted_and_more_than_two_policies_are_a_warning(project: Project) -> None:
    base, trained = arms(project)
    note_opening(project, "pre_eval", base.suite_digest, base.policy_digest)
    note_opening(project, "control", base.suite_digest, "random rewards")
    note_opening(project, "post_eval", base.suite_digest, trained.policy_digest)
    note_opening(project, "post_eval", base.suite_digest, trained.policy_digest)
    note_opening(project, "post_eval", "another suite", "another policy")
    noted = openings(project)
    assert noted is not None and [each.times for each in noted] == [1, 1, 2, 1]
    assert not any("opened" in note for note in read(project).notes)
    note_opening(project, "post_eval", base.suite_digest, "an earlier checkpoint")
    assert any("opened for 3 policies" in note for note in read(project).notes)


def test_the_random_reward_arm_is_read_where_one_was_asked_for(project: Project) -> None:
    folder = project.results("control")
    write_json(folder / "control.json", ControlFacts(asked=False))
    assert read(project).random_arm is None
    write_json(folder / "control.json", ControlFacts(asked=True))
    with pytest.raises(RecordError, match=r"post_eval\.jsonl"):
        read(project)
    shutil.copy(project.results("post_eval.jsonl"), folder)
    found = read(project).random_arm
    assert found is not None and len(found) == arms(project)[1].n_episodes


def cut_the_last_line(results: Path) -> None:
    path = results / "post_eval.jsonl"
    path.write_text(path.read_text()[:-40])


def put_in_nonsense(results: Path) -> None:
    path = results / "pre_eval.jsonl"
    lines = path.read_text().split("\n")
    lines[2] = '{"item_id": NaN}<script>alert(1)</script>'
    path.write_text("\n".join(lines))


def lose_a_file(results: Path) -> None:
    (results / "post_eval.jsonl").unlink()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (cut_the_last_line, r"results/post_eval\.jsonl, line \d+"),
        (put_in_nonsense, r"results/pre_eval\.jsonl, line 3"),
        (lose_a_file, r"results/post_eval\.jsonl: expected a readable file"),
    ],
)
def test_damaged_episodes_end_as_not_evaluable_and_as_an_error(
    project: Project, damage: Callable[[Path], None], reason: str
) -> None:
    results = project.results("")
    assert json.loads((results / "claim.json").read_text())["verdict"] == "IMPROVED"
    damage(results)
    done = assay(project.root, "render-evidence")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    claim = read_record(results / "claim.json", Claim, fix="")
    assert claim.verdict == "NOT EVALUABLE" and re.search(reason, claim.reason)
    assert not re.search(r"\d", claim.sentence) and claim.difference is None
    assert str(project.root) not in (results / "claim.json").read_text()
    page = (results / "report.html").read_text()
    assert "NOT EVALUABLE" in page and "IMPROVED" not in page and "<script" not in page
    left = {path.name for path in results.iterdir()}
    assert not left & {"figures", "before_after_metrics.json", "sample_trajectories.md"}
    assert json.loads((results / "metrics.json").read_text()) == {"p": None, "verdict": "NOT EVALUABLE"}


def test_without_a_plan_that_can_be_read_no_claim_is_left_at_all(project: Project) -> None:
    project.results("claim_plan.json").write_text("{}")
    done = assay(project.root, "render-evidence")
    assert done.returncode == 1 and "claim_plan.json" in done.stderr
    assert not project.results("claim.json").exists() and not project.results("report.html").exists()
