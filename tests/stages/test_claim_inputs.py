"""What stands beside the two arms of a claim is read and weighed; evidence that cannot be read leaves no
older claim behind."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.checks.doctor import preflight
from assay.core.config.settings import AcknowledgedAlarm, EvidenceSettings
from assay.core.errors import AssayError, RecordError
from assay.core.records import ControlFacts, HealthSummary, RuleSummary, TrainFacts
from assay.core.storage.files import sha256_bytes
from assay.core.storage.json import read_record, write_json
from assay.pipeline.project import Project
from assay.rollout.dataset.audit_records import Contamination, Overlap
from assay.stages import render_evidence
from assay.stages.render_evidence import render
from assay.stages.render_evidence.arms import Arm, ArmReader, checkpoint_frame, log_table
from assay.stages.render_evidence.claim_inputs import Arms, ClaimInputs, claim_inputs
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.plan import ClaimPlan
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.statistics.power import PlannedPower
from tests.calling import called
from tests.house import ROOT
from tests.verification.made_run import made_run

# What follows from a suite and the bytes of a file follows from the same bytes in every copy.
KNOWN: dict[tuple[str, ...], Any] = {}


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
    one, two, three, four = (ArmReader(project, KNOWN).arm(name) for name in names)
    return one, two, three, four


def plan_of(project: Project) -> ClaimPlan:
    return read_record(project.results("claim_plan.json"), ClaimPlan, fix="")


def facts_of(project: Project) -> TrainFacts:
    return read_record(project.results("train.json"), TrainFacts, fix="")


def read(project: Project, **changes: Any) -> ClaimInputs:
    return claim_inputs(
        ArmReader(project, KNOWN),
        plan_of(project),
        facts_of(project).model_copy(update=changes),
        arms(project),
    )


def codes(found: ClaimInputs) -> list[str]:
    return [each.code for each in found.blockers]


def edited(project: Project, name: str, lines: slice = slice(None), **changes: Any) -> None:
    """Change a record, or lines of a file of records."""
    path = project.results(name)
    records = path.read_text().splitlines() if name.endswith(".jsonl") else [path.read_text()]
    records[lines] = [json.dumps(json.loads(record) | changes) for record in records[lines]]
    path.write_text("".join(f"{record}\n" for record in records))


def test_nothing_is_held_against_the_committed_run(project: Project) -> None:
    found = read(project)
    assert not found.blockers
    # But for how it was measured; and had earlier versions or machines seen these records, for that.
    known = {"cooler", "tries_before", "rolled_before", "ledger_restored", "ledger_put_back"}
    assert {each.code for each in found.notes} <= known
    points = found.planned.smallest_detectable_points
    assert points is not None and points < plan_of(project).smallest_effect_points
    assert found.random_arm is not None


@pytest.mark.parametrize(
    "name",
    [
        "contamination.json",
        "health.jsonl",
        "control.json",
        "control_eval.jsonl",
        "base_again.jsonl",
        "openings.json",
    ],
)
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
    assert found.blockers == [remark("plan_changed"), remark("leak", overlap=leak)]
    assert remark("contamination", overlap=near) in found.notes


def test_a_check_of_other_records_is_no_check_of_these(project: Project) -> None:
    edited(project, "contamination.json", n_records={})
    assert codes(read(project)) == ["other_records"]


def test_a_plan_and_its_digest_edited_together_are_not_what_the_settings_ask_for(project: Project) -> None:
    edited(project, "claim_plan.json", alpha=0.2)
    written = sha256_bytes(project.results("claim_plan.json").read_bytes())
    assert codes(read(project, claim_plan_sha256=written)) == ["plan_not_asked"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("pre_eval", "other_base_measured"),
        ("post_eval", "other_policy_measured"),
        ("pre_eval_greedy", "other_greedy_before"),
        ("post_eval_greedy", "other_greedy_after"),
    ],
)
def test_each_arm_has_to_be_the_policy_it_is_said_to_be(project: Project, name: str, reason: str) -> None:
    edited(project, f"{name}.jsonl", policy="f" * 64)
    assert reason in codes(read(project))


@pytest.mark.parametrize(("policy", "found"), [("f" * 64, "2 of them"), (None, "episodes without one")])
def test_an_arm_that_several_policies_played_or_nobody_knows_who_is_no_arm(
    project: Project, policy: str | None, found: str
) -> None:
    edited(project, "post_eval.jsonl", slice(3, 4), policy=policy)
    with pytest.raises(RecordError, match=rf"episodes of one policy, found {found}"):
        ArmReader(project).arm("post_eval")


def test_alarms_are_those_of_the_log(project: Project) -> None:
    lines = project.results("health.jsonl").read_text()
    project.results("health.jsonl").write_text(lines.replace('"GREEN"', '"RED"'))
    assert codes(read(project)) == ["other_alarms"]
    project.results("health.jsonl").write_text("")
    assert codes(read(project)) == ["other_alarms"]


def test_a_red_alarm_bars_until_it_is_acknowledged_and_the_plan_stays_as_it_was(project: Project) -> None:
    rule = RuleSummary(rule="kl", level="RED", first_step=3, worst_step=9, times=1)
    ill = HealthSummary(worst="RED", rules=(rule,), unmeasured=())
    assert "alarm_unanswered" in codes(read(project, health=ill))
    answered = EvidenceSettings(
        acknowledged_alarms=[AcknowledgedAlarm(rule="kl", reason="the probe is tiny")]
    )
    calm = Project(project.root, project.params.model_copy(update={"evidence": answered}))
    free = read(calm, health=ill)
    assert "alarm_unanswered" not in codes(free)
    assert free.notes[0] == remark("alarm_acknowledged", alarm=rule, reason="the probe is tiny")


def test_a_plan_that_could_not_show_the_smallest_effect_is_a_warning(project: Project) -> None:
    plan, facts, whole = plan_of(project), facts_of(project), arms(project)

    def told(smallest: float, base: Arm) -> tuple[float | None, list[str]]:
        wanted = plan.model_copy(update={"smallest_effect_points": smallest})
        found = claim_inputs(ArmReader(project), wanted, facts, (base, *whole[1:]))
        return found.planned.smallest_detectable_points, [
            str(note) for note in found.notes if note.code == "planned_exceeds"
        ]

    def of_the_first(n: int) -> Arm:
        first = sorted({episode.cluster for episode in whole[0][1]})[:n]
        return whole[0][0], [each for each in whole[0][1] if each.cluster in first]

    some = of_the_first(24)  # enough for some gain to be found, and found in a fraction of the work
    points, notes = told(99.0, some)
    assert points is not None and plan.smallest_effect_points < points < 99.0 and notes == []
    assert told(points, some) == (points, [])
    _, (note,) = told(points - 0.01, some)
    assert f"only gains of {points:.1f} points or more" in note
    points, (note,) = told(99.0, of_the_first(3))
    assert points is None and "no possible gain" in note


def test_the_power_of_the_plan_follows_from_the_base_that_was_measured_and_from_no_file(
    project: Project,
) -> None:
    written, (base, _) = project.results("plan_power.json"), arms(project)[0]
    found = read(project).planned
    assert read_record(written, PlannedPower, fix="") == found
    assert (found.suite_digest, found.policy_digest, found.draws) == (
        base.suite_digest,
        base.policy_digest,
        base.draws,
    )
    edited(project, "plan_power.json", smallest_detectable_points=0.1, suite_digest="other")
    assert read(project).planned == found
    written.unlink()
    assert read(project).planned == found


def test_the_power_that_the_claim_tells_is_said_once_the_base_was_measured(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, complained = list[str](), list[str]()
    monkeypatch.setattr(preflight, "say", said.append)
    monkeypatch.setattr(preflight, "complain", complained.append)
    points = read(project).planned.smallest_detectable_points
    preflight.report_power(project)
    assert said[0].startswith(f"plan: smallest detectable effect {points:.1f} points") and not complained
    claim = project.params.claim.model_copy(update={"smallest_effect_points": 1.0})
    preflight.report_power(Project(project.root, project.params.model_copy(update={"claim": claim})))
    assert "EXCEEDS the smallest effect that matters, 1 points" in complained[0] and len(said) == 1
    project.results("pre_eval.jsonl").unlink()
    preflight.report_power(project)
    assert (len(said), len(complained)) == (1, 1)  # nothing is known, so nothing is said


def test_the_random_reward_arm_is_read_where_one_was_asked_for(project: Project) -> None:
    found = read(project).random_arm
    assert found is not None and len(found[1]) == arms(project)[1][0].n_episodes
    write_json(project.results("control.json"), ControlFacts(asked=False))
    assert read(project).random_arm is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"seed": 99}, "control_of_other_training"),
        ({"steps": 7}, "control_of_other_training"),
        ({"base_digest": None}, "control_of_other_training"),
        ({"policy_digest": "e" * 64}, "control_of_other_policy"),
        ({"stopped": "step 3"}, "control_stopped"),
    ],
)
def test_a_control_of_something_else_bars_the_claim(
    project: Project, changes: dict[str, Any], reason: str
) -> None:
    edited(project, "control.json", **changes)
    assert set(codes(read(project))) == {reason}


def test_the_base_itself_is_no_random_reward_arm(project: Project) -> None:
    shutil.copy(project.results("pre_eval.jsonl"), project.results("control_eval.jsonl"))
    edited(project, "control.json", policy_digest=arms(project)[0][0].policy_digest, chosen_step=0)
    assert codes(read(project)) == ["control_is_base", "control_of_other_step"]
    edited(project, "control.json", policy_digest="e" * 64)
    assert codes(read(project)) == ["control_of_other_policy", "control_of_other_step"]


@pytest.mark.parametrize(
    ("health", "said"),
    [
        (None, remark("control_unwatched")),
        (
            HealthSummary(
                worst="RED",
                rules=(RuleSummary(rule="entropy", level="RED", first_step=3, worst_step=5, times=1),),
                unmeasured=(),
            ),
            remark("control_red", rules=["entropy from step 5"]),
        ),
    ],
)
def test_alarms_of_the_control_are_named_by_their_rules(
    project: Project, health: HealthSummary | None, said: Remark
) -> None:
    facts = read_record(project.results("control.json"), ControlFacts, fix="")
    write_json(project.results("control.json"), facts.model_copy(update={"health": health}))
    assert said in read(project).notes


def test_another_policy_may_not_play_the_base_a_second_time(project: Project) -> None:
    edited(project, "base_again.jsonl", policy="e" * 64)
    assert codes(read(project)) == ["other_base_again"]


def test_random_rewards_taught_the_tiny_policy_little(project: Project) -> None:
    claim = read_record(project.results("claim.json"), Claim, fix="")
    assert claim.random_reward is not None
    assert claim.random_reward.size in ("equivalent", "less than matters")
    assert claim.random_reward.trained_is_ahead


@pytest.mark.parametrize(
    "name", ["training_log.csv", "reward_components.csv", "checkpoint_evals.csv", "validation_scores.csv"]
)
@pytest.mark.parametrize("cell", ["oops", "nan", "inf", "1e308", '"'])
def test_a_bad_cell_of_a_log_fails_its_reader(project: Project, name: str, cell: str) -> None:
    lines = project.results(name).read_text().split("\n")
    fields = lines[3].split(",")
    # Ids stand before it
    at = lines[0].split(",").index("mean_reward") if name == "validation_scores.csv" else 2
    lines[3] = ",".join([*fields[:at], cell, *fields[at + 1 :]])
    project.results(name).write_text("\n".join(lines))
    with pytest.raises(RecordError, match=re.escape(name)):
        if name == "validation_scores.csv":
            checkpoint_frame(project, facts_of(project))
        else:
            log_table(project, name, "step")


@pytest.mark.parametrize(
    ("times", "found"), [(0, "0 rows repeated, 1 missing"), (2, "1 rows repeated, 0 missing")]
)
def test_a_validation_that_lacks_or_repeats_a_row_is_refused(
    project: Project, times: int, found: str
) -> None:
    path = project.results("validation_scores.csv")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:5], *lines[5:6] * times, *lines[6:]]))
    with pytest.raises(RecordError, match=f"each of the 384 plays once in every validation, found {found}"):
        checkpoint_frame(project, facts_of(project))


def test_a_log_that_is_cut_or_repeats_a_row_fails_its_reader(project: Project) -> None:
    path = project.results("training_log.csv")
    whole = path.read_text()
    for broken in (
        whole[:-9],
        whole[: len(whole) * 2 // 3],
        whole + whole.split("\n")[-2] + "\n",
        "",
        "step\n",
    ):
        path.write_text(broken)
        with pytest.raises(RecordError, match=r"training_log\.csv"):
            log_table(project, "training_log.csv", "step")


def test_an_episode_without_its_reward_is_refused_and_leaves_no_older_claim(project: Project) -> None:
    path = project.results("post_eval.jsonl")
    first, *others = path.read_text().splitlines(keepends=True)
    episode = json.loads(first)
    del episode["reward"]
    path.write_text("".join([f"{json.dumps(episode)}\n", *others]))
    with pytest.raises(AssayError) as refused:
        render_evidence.run(project)
    assert refused.value.exit_code == 1
    assert read_record(project.results("claim.json"), Claim, fix="").verdict == "NOT EVALUABLE"


def test_clocks_that_cannot_be_read_take_no_claim_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complained = list[str]()
    monkeypatch.setattr(render, "complain", complained.append)
    # Figures show no clocks, and to draw them is most of the work of rendering.
    monkeypatch.setattr(render, "render", lambda figure, finding: {"png": b"", "svg": b"<svg/>"})
    project = made_run(tmp_path / "run")
    before = project.results("claim.json").read_bytes()
    clocks = project.observed("training_clock.csv")
    clocks.parent.mkdir(parents=True, exist_ok=True)
    clocks.write_text("step,reward_s\n1,oops\n")
    render_evidence.run(project)
    assert len(complained) == 1 and "training_clock.csv cannot be summed up" in complained[0]
    assert project.results("claim.json").read_bytes() == before


def cut_the_last_line(project: Project) -> None:
    path = project.results("post_eval.jsonl")
    path.write_text(path.read_text()[:-40])


def put_in_nonsense(project: Project) -> None:
    path = project.results("pre_eval.jsonl")
    lines = path.read_text().split("\n")
    lines[2] = '{"item_id": NaN}<script>alert(1)</script>'
    path.write_text("\n".join(lines))


def lose_an_episode(project: Project) -> None:
    path = project.results("post_eval_greedy.jsonl")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))


def lose_a_file(project: Project) -> None:
    project.results("post_eval.jsonl").unlink()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (cut_the_last_line, r"results/post_eval/post_eval\.jsonl, line \d+"),
        (put_in_nonsense, r"results/pre_eval/pre_eval\.jsonl, line 3"),
        (
            lose_an_episode,
            r"post_eval_greedy\.jsonl: expected the 512 plays of the suite, found 511 episodes",
        ),
        (lose_a_file, r"results/post_eval/post_eval\.jsonl: expected a readable file"),
    ],
)
def test_damaged_episodes_end_as_not_evaluable_and_as_an_error(
    project: Project, damage: Callable[[Project], None], reason: str
) -> None:
    assert json.loads(project.results("claim.json").read_text())["verdict"] == "IMPROVED"
    damage(project)
    with pytest.raises(AssayError) as refused:
        render_evidence.run(project)
    assert refused.value.exit_code == 1
    claim = read_record(project.results("claim.json"), Claim, fix="")
    assert claim.verdict == "NOT EVALUABLE" and re.search(reason, claim.reason)
    assert not re.search(r"\d", claim.sentence) and claim.difference is None
    assert str(project.root) not in project.results("claim.json").read_text()
    page = project.results("report.html").read_text()
    assert "NOT EVALUABLE" in page and "IMPROVED" not in page and "<script" not in page
    left = {path.name for path in project.results("claim.json").parent.iterdir()}
    assert left == {"claim.json", "metrics.json", "report.html", "summary.md"}
    assert json.loads(project.results("metrics.json").read_text()) == {"p": None, "verdict": "NOT EVALUABLE"}


def test_without_a_plan_that_can_be_read_no_claim_is_left_at_all(project: Project) -> None:
    project.results("claim_plan.json").write_text("{}")
    done = called(project.root, "render-evidence")
    assert done.returncode == 1 and "claim_plan.json" in done.stderr
    assert not project.results("claim.json").exists() and not project.results("report.html").exists()
