"""`assay runs sweep` plays checkpoints exactly as the training did, keeps what is finished, and never touches
a claim."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.cli.tools.sweep import command as tool
from assay.cli.tools.sweep.sources import SweepRequest, open_source, settings_notes
from assay.core.config.reading import parse_params
from assay.core.errors import AssayError, Interrupted
from assay.core.records import TrainFacts
from assay.core.storage.json import read_record
from assay.pipeline.heldout_ledger import HeldoutOpening, openings, policies_that_saw
from assay.pipeline.project import Project
from assay.rollout.evaluation import measure as measuring
from assay.stages import fingerprint, pre_eval, train
from assay.stages.render_evidence.arms import checkpoint_frame
from assay.training import trainer
from assay.training.checkpoints import of_run as run_checkpoints
from assay.training.checkpoints.of_run import RunFacts
from tests.house import ROOT
from tests.own_data import keep_first
from tests.training.healthy_setup import composed, spoken

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"
)

FEW = {"steps": 4, "items_per_step": 2, "group_size": 4, "micro_batch_size": 8, "kl_probe_episodes": 4}
CHANGES: dict[str, dict[str, Any]] = {
    "train": FEW,
    "validation": {"items": 8, "draws": 2, "interval": 2},
    "evaluation": {"open": True, "items": 6, "draws": 2},
    "checkpoint": {"every": 1, "keep": 1000},
    "health": {"preflight": False},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a base that hardly speaks, trained for four steps with all checkpoints kept, and swept
    once: what was played then is kept."""
    root = tmp_path_factory.mktemp("trained")
    shutil.copytree(ROOT / "data/collider", root / "data/collider")
    keep_first(root / "data/collider", 64)  # each look at the run reads them
    values = json.loads(json.dumps(composed("tiny_smoke", "collider")))
    for section, changed in CHANGES.items():
        values[section] |= changed
    (root / "params.yaml").write_text(json.dumps(values))
    project = Project(root, parse_params(values))
    fingerprint.run(project)
    base = spoken(project)
    base.model.save_pretrained(root / "models/base")
    base.tokenizer.save_pretrained(root / "models/base")
    pre_eval.run(project)
    train.run(project)
    tool.run(root, SweepRequest(path=root, out=root / "out"))
    shutil.rmtree(root / "out")
    return root


@pytest.fixture
def root(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it that a test may break."""
    monkeypatch.delenv("DVC_ROOT", raising=False)
    copy = tmp_path / "project"
    shutil.copytree(trained, copy)
    return copy


@pytest.fixture(autouse=True)
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a person is told."""
    lines: list[str] = []
    monkeypatch.setattr(tool, "say", lines.append)
    monkeypatch.setattr(tool, "complain", lines.append)
    return lines


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many episodes were really played, call by call."""
    counts: list[int] = []
    real = measuring.play

    def counted(policy: Any, task: Any, plays: Any, *more: Any, **named: Any) -> Any:
        counts.append(len(plays))
        return real(policy, task, plays, *more, **named)

    monkeypatch.setattr(measuring, "play", counted)
    yield counts


def noted_in(project: Project) -> tuple[HeldoutOpening, ...]:
    ledger = openings(project.root)
    return () if ledger is None else ledger.openings


def run_folder(root: Path) -> Path:
    return next(path.parent for path in (root / ".scratch/train").glob("*/key.json"))


def swept(
    root: Path, path: Path | None = None, *, drawn: bool = False, **more: Any
) -> tuple[list[dict[str, str]], dict[str, Any], Path]:
    """Sweep and return the rows of the table, the record, and where they lie; the figure is drawn where a
    test looks at it, since that is most of the work where all was played before."""
    out = root / "out"
    shutil.rmtree(out, ignore_errors=True)
    with pytest.MonkeyPatch.context() as patched:
        if not drawn:
            patched.setattr(tool, "render", lambda figure: {"png": b"", "svg": b""})
        tool.run(root, SweepRequest(path=root if path is None else path, out=out, **more))
    with (out / "sweep.csv").open() as stream:
        return list(csv.DictReader(stream)), json.loads((out / "sweep.json").read_text()), out


def refused(root: Path, path: Path | None = None, **more: Any) -> str:
    with pytest.raises(AssayError) as caught:
        swept(root, path, **more)
    assert not (root / "out").exists()
    return str(caught.value)


def test_rows_of_validated_steps_are_those_of_the_training_to_the_last_digit(root: Path) -> None:
    rows, record, _ = swept(root)
    assert [row["step"] for row in rows] == ["0", "1", "2", "3", "4"]
    with (root / "evidence/results/train/checkpoint_evals.csv").open() as stream:
        own = list(csv.DictReader(stream))
    assert [row["step"] for row in own] == ["0", "2", "4"]
    by_step = {row["step"]: row for row in rows}
    assert [{name: by_step[row["step"]][name] for name in row} for row in own] == own
    assert [name for name in rows[0] if name in own[0]] == list(own[0])
    project = Project.open(root)
    facts = read_record(project.results("train.json"), TrainFacts, fix="")
    for shown in checkpoint_frame(project, facts).to_dict("records"):  # with the intervals of the report
        row = by_step[str(shown["step"])]
        seen = {name: float(row[name] or "nan") for name in shown}
        assert seen == pytest.approx(shown, rel=0, abs=0, nan_ok=True)
        assert any(name.endswith("_low") for name in shown)
    assert record["split"] == "validation" and record["chosen_by"] == "chosen by the training"


def test_the_policy_of_the_chosen_step_is_the_one_that_was_published(root: Path) -> None:
    facts = json.loads((root / "evidence/results/train/train.json").read_text())
    _, record, _ = swept(root)
    assert record["chosen_step"] == facts["chosen_step"]
    found = {each["step"]: each["policy_digest"] for each in record["checkpoints"]}
    assert facts["chosen_step"] > 0, "another seed for the base: a run that chose its base shows nothing here"
    assert found[facts["chosen_step"]] == facts["policy_digest"]
    assert found[0] == facts["base_digest"] and len(set(found.values())) == 5


def test_differences_are_paired_with_step_0_and_corrected_for_the_number_of_checkpoints(root: Path) -> None:
    rows, record, _ = swept(root)
    assert rows[0]["mean_reward_difference"] == "" and record["checkpoints"][0]["against_base"] == {}
    for row in rows[1:]:
        gap = float(row["mean_reward"]) - float(rows[0]["mean_reward"])
        assert float(row["mean_reward_difference"]) == pytest.approx(gap, abs=1e-9)
        assert float(row["mean_reward_difference_p_holm"]) >= float(row["mean_reward_difference_p"])
    smallest = min(float(row["mean_reward_difference_p"]) for row in rows[1:])
    corrected = min(float(row["mean_reward_difference_p_holm"]) for row in rows[1:])
    assert corrected == pytest.approx(min(1.0, 4 * smallest))


def test_nothing_of_the_project_changes_but_scratch(root: Path) -> None:
    def state() -> dict[str, bytes]:
        files = (path for path in root.rglob("*") if path.is_file() and ".scratch" not in path.parts)
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}

    before = state()
    tool.run(root, SweepRequest(path=root))
    assert state() == before
    (out,) = (root / ".scratch/sweep").glob("*-validation-*")
    kinds = ("csv", "md", "json", "png", "svg")
    assert {path.name for path in out.iterdir()} == {f"sweep.{kind}" for kind in kinds}


def test_a_second_sweep_plays_nothing_again_and_gives_equal_bytes(root: Path, played: list[int]) -> None:
    shutil.rmtree(root / ".scratch/sweep")
    _, _, out = swept(root, drawn=True)
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    assert sum(played) == 5 * (16 + 8)
    played.clear()
    _, _, out = swept(root, drawn=True)
    assert played == [] and {path.name: path.read_bytes() for path in out.iterdir()} == first


def test_an_interrupted_sweep_says_how_to_go_on_and_keeps_what_had_ended(
    root: Path, played: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _, _ = swept(root)
    shutil.rmtree(root / ".scratch/sweep")
    played.clear()
    real = measuring.play

    def stopped(*arguments: Any, **named: Any) -> Any:
        if len(played) == 5:  # base, step 1, and the sampled half of step 2
            raise KeyboardInterrupt
        return real(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(measuring, "play", stopped)
        with pytest.raises(Interrupted, match="after 64 of 120 episodes, which is saved") as caught:
            swept(root)
    assert caught.value.exit_code == 130
    assert not (root / ".scratch/sweep/adapters").exists()
    played.clear()
    rows, _, _ = swept(root)
    assert rows == whole and sum(played) == 120 - 64


def test_held_out_work_is_opened_in_the_log_before_it_is_played_and_marked_everywhere(
    root: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, noted = measuring.play, []

    def looked(policy: Any, *arguments: Any, **named: Any) -> Any:
        noted.append(any(o.stage == "sweep" and o.policy_digest == policy.digest for o in noted_in(project)))
        return real(policy, *arguments, **named)

    project = Project.open(root)
    before = project.results("post_eval.jsonl").exists()
    monkeypatch.setattr(measuring, "play", looked)
    rows, record, out = swept(root, drawn=True, heldout=True)
    assert len(noted) == 10 and all(noted)
    assert {row["suite"] for row in rows} == {"held-out, exploratory: no claim"}
    assert "held-out, exploratory: no claim" in (out / "sweep.md").read_text()
    assert "held-out, exploratory: no claim" in (out / "sweep.svg").read_text()
    assert any(line.startswith("WARNING: this opens the held-out suite for 5 policies") for line in said)
    assert record["suite_digest"] == project.inputs("heldout").heldout.digest
    assert before == project.results("post_eval.jsonl").exists()


def test_a_part_of_the_held_out_suite_counts_as_an_opening_of_its_records_in_the_whole(root: Path) -> None:
    _, record, _ = swept(root, heldout=True, items=3, draws=1)
    project = Project.open(root)
    whole, ledger = project.inputs("heldout").heldout, openings(project.root)
    assert ledger is not None and record["n_items"] == 3 and record["suite_digest"] != whole.digest
    seen = policies_that_saw(ledger, whole.contents)
    swept_by = [found for found in seen.values() if "sweep" in found.stages]
    assert len(swept_by) == 5 and all(found.n_records >= 3 for found in swept_by)


def test_without_the_flag_no_opening_is_logged(root: Path) -> None:
    project = Project.open(root)
    before = openings(project.root)
    swept(root)
    assert openings(project.root) == before


def test_the_best_of_a_held_out_table_is_not_pointed_at_where_nobody_chose(root: Path) -> None:
    (root / "evidence/results/train/train.json").unlink()
    _, heldout, _ = swept(root, run_folder(root), heldout=True, items=3)
    _, validation, _ = swept(root, run_folder(root))
    assert heldout["chosen_step"] is None
    rewards = [each["row"]["mean_reward"] for each in validation["checkpoints"]]
    assert validation["chosen_step"] == rewards.index(max(rewards))
    assert validation["chosen_by"] == "the highest mean reward of this table"


def test_draws_and_items_change_the_suite_and_say_so(root: Path) -> None:
    rows, record, _ = swept(root, items=5, draws=3)
    assert {row["episodes"] for row in rows} == {"15"} and (record["n_items"], record["draws"]) == (5, 3)
    assert "at most the" in refused(root, items=100_000)


def test_the_chosen_adapter_is_swept_where_its_checkpoint_is_gone(root: Path) -> None:
    whole, record, _ = swept(root)
    chosen = record["chosen_step"]
    shutil.rmtree(run_folder(root) / f"step-{chosen:06d}")
    rows, _, _ = swept(root)
    by_step = {row["step"]: row for row in rows}
    assert by_step[str(chosen)].pop("checkpoint") == "models/adapter"
    expected = {row["step"]: row for row in whole}[str(chosen)]
    assert by_step[str(chosen)] == {name: value for name, value in expected.items() if name != "checkpoint"}
    shutil.rmtree(root / ".scratch/train")
    alone, _, _ = swept(root)
    assert [row["checkpoint"] for row in alone] == ["base", "models/adapter"]


def test_a_damaged_checkpoint_is_refused_by_name_or_left_out_with_a_count(
    root: Path, said: list[str]
) -> None:
    file = run_folder(root) / "step-000003/optimizer.pt"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    text = refused(root)
    assert "1 damaged: step-000003: optimizer.pt is not what was written" in text and "--skip-damaged" in text
    rows, record, out = swept(root, skip_damaged=True)
    assert [row["step"] for row in rows] == ["0", "1", "2", "4"]
    assert record["left_out"] == ["step-000003: optimizer.pt is not what was written"]
    assert "Left out: 1 checkpoint." in (out / "sweep.md").read_text() and "left out, damaged: 1" in said


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"task": {"max_turns": 3}}, "task.max_turns: 3 here, 10 there"),
        ({"generation": {"temperature": 0.8}}, "generation.temperature: 0.8 here"),
        ({"validation": {"items": 7}}, "validation.items: 7 here, 8 there"),
    ],
)
def test_settings_under_which_the_numbers_would_mean_something_else_are_refused(
    root: Path, change: dict[str, dict[str, Any]], told: str
) -> None:
    values = json.loads((root / "params.yaml").read_text())
    for section, changed in change.items():
        values[section] |= changed
    (root / "params.yaml").write_text(json.dumps(values))
    assert told in refused(root)


def test_a_setting_that_decides_no_episode_is_no_matter(root: Path) -> None:
    values = json.loads((root / "params.yaml").read_text())
    values["train"]["learning_rate"] = 0.5
    (root / "params.yaml").write_text(json.dumps(values))
    rows, _, _ = swept(root)
    assert len(rows) == 5


def test_what_may_move_last_digits_is_said(root: Path) -> None:
    project, source = open_source(root, root)
    assert source.facts is not None and settings_notes(project, source, SweepRequest(path=root)) == []
    source.facts = RunFacts(
        source.facts.digest, dict(source.facts.parts) | {"packages.torch": "0.1", "packages.dvc": "0.1"}
    )
    (note,) = settings_notes(project, source, SweepRequest(path=root))
    assert "torch: " in note and "0.1 there" in note and "may differ" in note


def test_a_changed_validation_file_is_refused(root: Path) -> None:
    file = root / "data/collider/validation.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    assert "validation.jsonl" in refused(root)


def test_another_base_is_refused(root: Path) -> None:
    config = root / "models/base/generation_config.json"
    config.write_text(json.dumps({"temperature": 0.5, "do_sample": True}))
    assert "models/base: other content" in refused(root)
    shutil.rmtree(root / "models/base")
    assert "the base of the project, found nothing" in refused(root)


def test_a_run_of_another_task_is_refused_by_its_name(root: Path) -> None:
    run = run_folder(root)
    shutil.copytree(ROOT / "data/structured", root / "data/structured")
    (root / "params.yaml").write_text(json.dumps(composed("tiny_smoke", "structured")))
    assert 'task.name: "structured" here, "collider" there' in refused(root, run)


def test_a_run_folder_whose_key_was_edited_is_refused(root: Path) -> None:
    key = run_folder(root) / "key.json"
    told = json.loads(key.read_text())
    told["parts"]["params.train.lora.alpha"] = "64"
    key.write_text(json.dumps(told))
    assert "the key of a run as it was written" in refused(root)


@pytest.mark.parametrize(
    ("name", "told"),
    [("nothing", "nothing there"), ("data", "checkpoints, found none"), ("params.yaml", "a file")],
)
def test_a_folder_without_checkpoints_is_refused_with_what_would_do(root: Path, name: str, told: str) -> None:
    text = refused(root, root / name)
    assert told in text and "Fix:" in text


def test_a_project_that_was_never_trained_and_a_single_checkpoint_are_refused(root: Path) -> None:
    assert "assay runs sweep" in refused(root, run_folder(root) / "step-000002")
    shutil.rmtree(root / ".scratch/train")
    shutil.rmtree(root / "models/adapter")
    assert "./run dvc repro train" in refused(root)


@pytest.mark.parametrize("place", ["evidence/results/sweep", "models", "data/collider"])
def test_nothing_is_written_where_a_stage_reads_or_writes(root: Path, place: str) -> None:
    with pytest.raises(AssayError, match="no part of the pipeline"):
        tool.run(root, SweepRequest(path=root, out=root / place))


def test_the_name_of_a_checkpoints_adapter_is_the_trainers() -> None:
    assert run_checkpoints.ADAPTER == trainer.ADAPTER
