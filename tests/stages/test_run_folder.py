"""The folder of a run: what it goes on from, what it refuses, and when it is finished business."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from assay.core.errors import ConfigError, RunningAlready
from assay.core.evidence_files import folder_of
from assay.core.storage.append_log import read_complete
from assay.core.storage.files import write_text
from assay.pipeline import run_folder
from assay.pipeline.project import Project
from assay.pipeline.run_folder import MANY, open_run
from tests.house import ROOT

READS = ("data.txt",)
# What DVC 3 calls a folder with train.json, `{}`, and training_log.csv, `step\\n`.
FINISHED = "ad78154a9812a34aa08da86e7e05ca7e.dir"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A folder with settings, a file of data, and no dvc.yaml: the key is made of all settings and that
    file."""
    monkeypatch.delenv("DVC_ROOT", raising=False)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    (tmp_path / "data.txt").write_text("one")
    return Project.open(tmp_path)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a person is told."""
    lines: list[str] = []
    for name in ("say", "complain"):
        monkeypatch.setattr(run_folder, name, lines.append)
    return lines


def with_lr(project: Project, rate: float) -> Project:
    train = project.params.train.model_copy(update={"learning_rate": rate})
    return Project(project.root, project.params.model_copy(update={"train": train}))


def saved(project: Project, *steps: int) -> Path:
    """Save checkpoints of a project's run, each with a validation, and return its folder."""
    with open_run(project.root, project.params, "train", READS, main=True) as folder:
        folder.start(None)
        for step in steps:
            folder.checkpoints.keep_validation(step, f"validation {step}\n".encode())
            folder.checkpoints.save(step, {"adapter": f"weights {step}".encode()}, healthy=True)
        return folder.path


def start_of(project: Project, resume_from: Path | None = None) -> int | None:
    with open_run(project.root, project.params, "train", READS, main=True) as folder:
        start = folder.start(resume_from)
        return None if start is None else start.step


def test_a_run_goes_on_from_its_newest_checkpoint_and_begins_without_one(project: Project) -> None:
    assert start_of(project) is None
    saved(project, 10, 20)
    assert start_of(project) == 20


def test_another_setting_begins_anew_and_says_what_it_is_not(project: Project, told: list[str]) -> None:
    saved(project, 10)
    assert start_of(with_lr(project, 0.5)) is None
    assert "train.learning_rate: 0.5 here, 0.0015 there" in told[-1]
    assert start_of(project) == 10


def test_changed_data_begin_anew_and_changed_back_go_on(project: Project) -> None:
    saved(project, 10)
    (project.root / "data.txt").write_text("two")
    assert start_of(project) is None
    (project.root / "data.txt").write_text("one")
    assert start_of(project) == 10


@pytest.mark.parametrize("what", ["setting", "data"])
def test_a_checkpoint_of_another_run_is_refused_by_what_differs(project: Project, what: str) -> None:
    folder = saved(project, 10)
    other = project
    if what == "setting":
        other = with_lr(project, 0.5)
    else:
        (project.root / "data.txt").write_text("two")
    with pytest.raises(ConfigError) as caught:
        start_of(other, folder)
    assert ("train.learning_rate" if what == "setting" else "data.txt: other content") in caught.value.found
    assert "Fix:" in str(caught.value)


def test_an_earlier_checkpoint_of_this_run_can_be_gone_on_from_and_later_ones_go(project: Project) -> None:
    folder = saved(project, 10, 20)
    assert start_of(project, folder / "step-000010") == 10
    assert not (folder / "step-000020").exists()


def test_a_run_folder_from_elsewhere_is_brought_here_with_its_validations(
    project: Project, tmp_path: Path
) -> None:
    folder = saved(project, 10, 20)
    moved = tmp_path / "elsewhere"
    shutil.move(folder, moved)
    assert start_of(project, moved) == 20
    assert start_of(project) == 20
    assert (folder / "validations/step-000010.jsonl").read_text() == "validation 10\n"


def test_a_folder_without_a_checkpoint_is_refused(project: Project, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a checkpoint or a run folder"):
        start_of(project, tmp_path)


def test_a_second_trainer_on_one_run_is_refused(project: Project) -> None:
    with (
        open_run(project.root, project.params, "train", READS, main=True),
        pytest.raises(RunningAlready),
        open_run(project.root, project.params, "train", READS, main=True),
    ):
        pass


def finish(project: Project) -> Path:
    folder = saved(project, 10)
    write_text(project.results("train.json"), "{}")
    write_text(project.results("training_log.csv"), "step\n")
    with open_run(project.root, project.params, "train", READS, main=True) as run:
        run.start(None)
        run.finish(project.root / folder_of("train"))
    return folder


def lock(project: Project, md5: str) -> None:
    outs = f"    outs:\n    - path: evidence/results/train\n      md5: {md5}\n"
    (project.root / "dvc.lock").write_text(f"schema: '2.0'\nstages:\n  train:\n    cmd: assay train\n{outs}")


def test_what_was_finished_but_never_recorded_is_not_trained_again(project: Project) -> None:
    finish(project)
    assert start_of(project) == 10
    lock(project, "0" * 32)
    assert start_of(project) == 10


def test_what_was_recorded_is_trained_afresh_when_it_is_asked_for_again(project: Project) -> None:
    folder = finish(project)
    lock(project, FINISHED)
    assert start_of(project) is None
    assert not (folder / "step-000010").exists()


def test_a_damaged_checkpoint_is_passed_over_and_told(project: Project, told: list[str]) -> None:
    folder = saved(project, 10, 20)
    (folder / "step-000020/adapter").write_bytes(b"other")
    assert start_of(project) == 10
    assert "step-000020" in told[-2]
    events = list(read_complete(folder / "run_log.jsonl"))
    assert events[-1]["event"] == "damaged checkpoint" and "adapter" in json.dumps(events[-1])


def test_a_torn_last_event_is_cut_off_and_told_and_good_ones_stay(project: Project) -> None:
    folder = saved(project, 10)
    with open_run(project.root, project.params, "train", READS, main=True) as run:
        run.log({"event": "one"})
    with (folder / "run_log.jsonl").open("ab") as stream:
        stream.write(b'{"event":"tw')
    with open_run(project.root, project.params, "train", READS, main=True) as run:
        run.log({"event": "three"})
    events = [event["event"] for event in read_complete(folder / "run_log.jsonl")]
    assert events == ["one", "a torn last line was cut off", "three"]


def test_many_unfinished_trainings_of_other_settings_are_told_with_their_size_and_nothing_is_removed(
    project: Project, told: list[str]
) -> None:
    for k in range(MANY + 1):
        saved(with_lr(project, 0.1 + k), 10)
    assert not any("unfinished trainings" in line for line in told), "five others are no cause for a word"
    root = saved(project, 10).parent
    (size,), (how,) = (
        [line for line in told if word in line] for word in ("unfinished trainings", "to remove")
    )
    others = sorted(path.name for path in root.iterdir() if path.is_dir() and path != saved(project, 20))
    assert re.match(
        rf"{MANY + 1} unfinished trainings of other settings take 0\.\d MiB in {re.escape(str(root))}", size
    )
    assert how.endswith(f"&& rm -r {' '.join(others)})") and len(others) == MANY + 1
    assert all((root / other).is_dir() for other in others)


def test_a_finished_training_is_not_counted_among_the_unfinished(project: Project, told: list[str]) -> None:
    for k in range(MANY + 1):
        finish(with_lr(project, 0.1 + k))
    saved(project, 10)
    assert not any("unfinished trainings" in line for line in told)


HERE = {"processor": "One 7", "instructions": "avx avx2 fma", "OMP_NUM_THREADS": "1"}
OTHERS = [
    HERE | {"processor": "Another 9"},
    HERE | {"instructions": "avx avx2 avx512f fma"},
    HERE | {"OMP_NUM_THREADS": "4"},
    HERE | {"MKL_CBWR": "COMPATIBLE"},
    HERE | {"gpu": "A GPU"},
    {name: value for name, value in HERE.items() if name != "OMP_NUM_THREADS"},
]


def on(monkeypatch: pytest.MonkeyPatch, machine: dict[str, str]) -> None:
    monkeypatch.setattr(run_folder, "machine_of", lambda project: machine)


def under(project: Project, other_machine: str) -> Project:
    checkpoint = project.params.checkpoint.model_copy(update={"other_machine": other_machine})
    return Project(project.root, project.params.model_copy(update={"checkpoint": checkpoint}))


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("other", OTHERS)
def test_a_training_of_another_machine_is_refused_by_what_differs_and_nothing_is_touched(
    project: Project, monkeypatch: pytest.MonkeyPatch, other: dict[str, str]
) -> None:
    on(monkeypatch, HERE)
    folder = saved(project, 10)
    before = bytes_of(folder)
    on(monkeypatch, other)
    with pytest.raises(ConfigError, match="the machine that this training was begun on") as caught:
        start_of(project)
    odd = next(name for name in {**HERE, **other} if HERE.get(name) != other.get(name))
    assert odd in caught.value.found and "other_machine: say" in caught.value.fix
    with pytest.raises(ConfigError):
        start_of(project, folder / "step-000010")
    assert bytes_of(folder) == before
    on(monkeypatch, HERE)
    assert start_of(project) == 10


@pytest.mark.parametrize("other", OTHERS)
def test_where_it_may_go_on_it_is_said_counted_and_kept_in_mind(
    project: Project, monkeypatch: pytest.MonkeyPatch, told: list[str], other: dict[str, str]
) -> None:
    on(monkeypatch, HERE)
    saved(project, 10)
    on(monkeypatch, other)
    for _ in range(2):  # the second time it is the machine it was on
        with open_run(
            under(project, "say").root, under(project, "say").params, "train", READS, main=True
        ) as folder:
            start = folder.start(None)
            assert start is not None and start.step == 10 and folder.other_machines == 1
    assert len([line for line in told if "on another machine" in line]) == 1
    assert [event["event"] for event in read_complete(folder.events)] == ["other machine"]
    on(monkeypatch, HERE)
    with open_run(
        under(project, "say").root, under(project, "say").params, "train", READS, main=True
    ) as folder:
        folder.start(None)
        assert folder.other_machines == 2


def test_on_the_same_machine_nothing_is_counted_or_said(
    project: Project, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    on(monkeypatch, HERE)
    saved(project, 10)
    with open_run(project.root, project.params, "train", READS, main=True) as folder:
        start = folder.start(None)
        assert start is not None and folder.other_machines == 0
    assert not [line for line in told if "machine" in line]


def test_a_run_folder_brought_from_another_machine_is_of_that_machine(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    on(monkeypatch, HERE)
    moved = tmp_path / "elsewhere"
    shutil.move(saved(project, 10, 20), moved)
    on(monkeypatch, OTHERS[0])
    with pytest.raises(ConfigError, match="Another 9"):
        start_of(project, moved)
    assert start_of(project) is None  # nothing was brought here
    with open_run(
        under(project, "say").root, under(project, "say").params, "train", READS, main=True
    ) as folder:
        start = folder.start(moved)
        assert start is not None and start.step == 20 and folder.other_machines == 1


def test_a_training_without_a_checkpoint_begins_on_any_machine(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, HERE)
    assert start_of(project) is None
    on(monkeypatch, OTHERS[0])
    assert start_of(project) is None
    saved(project, 10)
    assert start_of(project) == 10
