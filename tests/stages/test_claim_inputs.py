"""What stands beside the two arms of a claim is read and weighed; evidence that cannot be read leaves no older claim behind."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.config.claim import AcknowledgedAlarm, EvidenceSettings
from assay.core.errors import RecordError
from assay.core.records import ControlFacts, HealthSummary, RuleSummary, TrainFacts
from assay.core.storage.files import sha256_bytes
from assay.core.storage.json import read_record, write_json
from assay.dataset.audit_records import Contamination, Overlap
from assay.evidence.claim.claim import Claim
from assay.evidence.claim.plan import ClaimPlan
from assay.pipeline.project import Project
from assay.stages.render_evidence.claim_inputs import Arms, ClaimInputs, claim_inputs
from assay.stages.render_evidence.log_tables import log_table
from assay.statistics.power import PlannedPower
from assay.statistics.report import Report
from tests.house import ROOT
from tests.stages.test_bad_input import assay


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a copy of the committed project, with what its runs noted beside the results left out."""
    for name in ("configs", "data"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "evidence/results", tmp_path / "evidence/results")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    return Project.open(tmp_path)


def arms(project: Project) -> Arms:
    names = ("pre_eval", "post_eval", "pre_eval_greedy", "post_eval_greedy")
    one, two, three, four = (read_record(project.results(f"{name}.json"), Report, fix="") for name in names)
    return one, two, three, four


def read(project: Project, **changes: Any) -> ClaimInputs:
    plan = read_record(project.results("claim_plan.json"), ClaimPlan, fix="")
    facts = read_record(project.results("train.json"), TrainFacts, fix="")
    return claim_inputs(project, plan, facts.model_copy(update=changes), arms(project))


def kinds(found: ClaimInputs) -> list[str]:
    return [kind for kind, _ in found.blockers]


def edited(project: Project, name: str, **changes: Any) -> None:
    path = project.results(name)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def planned(project: Project, points: float | None, **changes: Any) -> None:
    base = arms(project)[0]
    settings = {
        "measure": "success_rate", "suite_digest": base.suite_digest, "policy_digest": base.policy_digest, "n_clusters": 9,
        "n_items": 9, "draws": 4, "base_rate": 0.2, "noise_points": 20.0, "alpha": 0.05, "power": 0.8,
        "assumed_spread_points": 20.0, "smallest_detectable_points": points, "by_spread": {},
    }  # fmt: skip
    write_json(project.results("plan_power.json"), PlannedPower.model_validate(settings | changes))


def test_nothing_is_held_against_the_committed_run(project: Project) -> None:
    found = read(project)
    assert not found.blockers and not found.notes
    assert found.planned_points is not None and found.random_arm is not None


@pytest.mark.parametrize("name", ["contamination.json", "plan_power.json", "health.jsonl", "control/control.json"])
def test_what_every_run_writes_has_to_be_there(project: Project, name: str) -> None:
    project.results(name).unlink()
    with pytest.raises(RecordError, match=re.escape(name)):
        read(project)


def test_contamination_and_an_edited_plan_bar_the_claim(project: Project) -> None:
    known = read_record(project.results("contamination.json"), Contamination, fix="")
    leak = Overlap(kind="prompt", splits=("heldout", "train"), count=2, first=("a",))
    near = Overlap(kind="ngram", splits=("heldout", "train"), count=5, first=("b",))
    write_json(project.results("contamination.json"), known.model_copy(update={"overlaps": (leak, near)}))
    found = read(project, claim_plan_sha256="0" * 64)
    assert kinds(found) == [
        "the plan of the claim was changed after training",
        "a leak between splits: prompts with the same words in common",
    ]
    assert any("13 words on end" in note for note in found.notes)


def test_a_check_of_other_records_is_no_check_of_these(project: Project) -> None:
    edited(project, "contamination.json", n_records={})
    assert kinds(read(project)) == ["contamination.json is about other records than fingerprint.json"]


def test_a_plan_and_its_digest_edited_together_are_not_what_the_settings_ask_for(project: Project) -> None:
    edited(project, "claim_plan.json", alpha=0.2)
    written = sha256_bytes(project.results("claim_plan.json").read_bytes())
    assert kinds(read(project, claim_plan_sha256=written)) == ["the plan of the claim is not what the settings ask for"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("pre_eval", "the adapter was trained on another base than the one measured before"),
        ("post_eval", "the policy measured after is not the one that was trained"),
        ("pre_eval_greedy", "another policy played greedily before"),
        ("post_eval_greedy", "another policy played greedily after"),
    ],
)
def test_each_arm_has_to_be_the_policy_it_is_said_to_be(project: Project, name: str, reason: str) -> None:
    edited(project, f"{name}.json", policy_digest="f" * 64)
    assert reason in kinds(read(project))


def test_alarms_are_those_of_the_log(project: Project) -> None:
    lines = project.results("health.jsonl").read_text()
    project.results("health.jsonl").write_text(lines.replace('"AMBER"', '"RED"'))
    assert kinds(read(project)) == ["health.jsonl does not tell the alarms that train.json sums up"]
    project.results("health.jsonl").write_text("")
    assert kinds(read(project)) == ["health.jsonl does not tell the alarms that train.json sums up"]


def test_a_red_alarm_bars_until_it_is_acknowledged_and_the_plan_stays_as_it_was(project: Project) -> None:
    rule = RuleSummary(rule="kl", level="RED", first_step=3, worst_step=9, times=1)
    ill = HealthSummary(worst="RED", rules=(rule,), unmeasured=())
    unanswered = "a red alarm of the training is not acknowledged"
    assert unanswered in kinds(read(project, health=ill))
    answered = EvidenceSettings(acknowledged_alarms=[AcknowledgedAlarm(rule="kl", reason="the probe is tiny")])
    calm = Project(project.root, project.params.model_copy(update={"evidence": answered}))
    free = read(calm, health=ill)
    assert unanswered not in kinds(free) and "\u201cthe probe is tiny\u201d" in free.notes[0]


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


def test_the_random_reward_arm_is_read_where_one_was_asked_for(project: Project) -> None:
    found = read(project).random_arm
    assert found is not None and len(found[1]) == arms(project)[1].n_episodes
    write_json(project.results("control.json"), ControlFacts(asked=False))
    assert read(project).random_arm is None


OTHER = "the random-reward arm is not the control of this training"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"seed": 99}, OTHER),
        ({"steps": 7}, OTHER),
        ({"base_digest": None}, OTHER),
        ({"policy_digest": "e" * 64}, OTHER),
        ({"stopped": "step 3"}, "the random-reward training ended before its last step"),
    ],
)
def test_a_control_of_something_else_bars_the_claim(project: Project, changes: dict[str, Any], reason: str) -> None:
    edited(project, "control/control.json", **changes)
    assert kinds(read(project)) == [reason]


def test_the_base_itself_is_no_random_reward_arm(project: Project) -> None:
    for name in ("json", "jsonl"):
        shutil.copy(project.results(f"pre_eval.{name}"), project.results(f"control/post_eval.{name}"))
    edited(project, "control/control.json", policy_digest=arms(project)[0].policy_digest, chosen_step=0)
    found = read(project)
    assert kinds(found) == [OTHER] and any("chose step 0" in note for note in found.notes)


def test_random_rewards_taught_the_tiny_policy_nothing(project: Project) -> None:
    claim = read_record(project.results("claim.json"), Claim, fix="")
    assert claim.random_reward is not None
    assert claim.random_reward.verdict == "NO EVIDENCE" and claim.random_reward.trained_is_ahead


@pytest.mark.parametrize("name", ["training_log.csv", "reward_components.csv", "checkpoint_evals.csv"])
@pytest.mark.parametrize("cell", ["oops", "nan", "inf", "1e308", '"'])
def test_a_bad_cell_of_a_log_fails_its_reader(project: Project, name: str, cell: str) -> None:
    lines = project.results(name).read_text().split("\n")
    fields = lines[3].split(",")
    lines[3] = ",".join([*fields[:2], cell, *fields[3:]])
    project.results(name).write_text("\n".join(lines))
    with pytest.raises(RecordError, match=re.escape(name)):
        log_table(project, name, "step")


def test_a_log_that_is_cut_or_repeats_a_row_fails_its_reader(project: Project) -> None:
    path = project.results("training_log.csv")
    whole = path.read_text()
    for broken in (whole[:-9], whole[: len(whole) * 2 // 3], whole + whole.split("\n")[-2] + "\n", "", "step\n"):
        path.write_text(broken)
        with pytest.raises(RecordError, match=r"training_log\.csv"):
            log_table(project, "training_log.csv", "step")


def test_a_report_without_its_measures_is_refused_and_leaves_no_older_claim(project: Project) -> None:
    report = json.loads(project.results("post_eval.json").read_text())
    del report["measures"]["mean_reward"]
    project.results("post_eval.json").write_text(json.dumps(report))
    done = assay(project.root, "render-evidence")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert read_record(project.results("claim.json"), Claim, fix="").verdict == "NOT EVALUABLE"


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
