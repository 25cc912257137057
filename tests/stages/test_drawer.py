"""The process that draws curves can be slow, broken or killed: a training hears of it once and goes on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from assay.core.errors import ConfigError, Interrupted
from assay.core.evidence_files import place_of
from assay.core.storage.files import write_text
from assay.pipeline import live_log as drawer
from assay.pipeline.live_log import Drawer, Live, seconds_between
from assay.pipeline.project import Project
from assay.pipeline.resume import RunKey
from assay.pipeline.run_folder import RunFolder
from assay.rollout.dataset.suite import Suite
from assay.training.log.history import History, Watch
from tests.house import ROOT
from tests.training.toy_task import Letters

SUITE = Suite("validation", (), 1, 0)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(drawer, "complain", lines.append)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    return lines


def program(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Make the program another one."""
    (folder / "another_drawer.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(drawer, "PROGRAM", "another_drawer")


def wait_for_end(one: Drawer) -> None:
    assert one._process is not None
    one._process.wait(60)


def test_a_drawer_that_crashes_is_said_once_with_its_last_line(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, "raise ValueError('no ink')")
    one = Drawer(tmp_path, tmp_path / "log", 5.0)
    wait_for_end(one)
    for _ in range(3):
        one.look()
    one.close()
    assert (
        len(said) == 1 and "exit code 1: ValueError: no ink" in said[0] and "the training goes on" in said[0]
    )


def test_a_drawer_that_was_killed_is_said_once_also_at_the_end(tmp_path: Path, said: list[str]) -> None:
    for look in (True, False):
        said.clear()
        one = Drawer(tmp_path, tmp_path / "log", 5.0)
        assert one._process is not None
        os.kill(one._process.pid, signal.SIGKILL)
        wait_for_end(one)
        if look:
            one.look()
        one.close()
        assert len(said) == 1 and "exit code -9" in said[0]


def test_a_drawer_that_does_not_end_is_ended(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, "import time\ntime.sleep(600)")
    monkeypatch.setattr(drawer, "PATIENCE_S", 0.5)
    one = Drawer(tmp_path, tmp_path / "log", 5.0)
    process, began = one._process, time.monotonic()
    one.look()
    one.close()
    assert process is not None and process.returncode == -signal.SIGKILL and time.monotonic() - began < 20
    assert said == ["the last curves were not drawn in time"]


def test_where_no_process_can_be_started_training_goes_on(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawer.sys, "executable", str(tmp_path / "no-python"))
    one = Drawer(tmp_path, tmp_path / "log", 5.0)
    one.look()
    one.close()
    assert len(said) == 1 and "will not be drawn" in said[0]


def test_a_drawer_that_lives_says_nothing_and_knows_nothing_of_gpus_and_ranks(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program(
        tmp_path,
        monkeypatch,
        "import os, sys\nopen('seen', 'w').write(repr(dict(os.environ)))\nsys.stdin.read()",
    )
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.setenv(name, "1")
    one = Drawer(tmp_path, tmp_path / "log", 5.0)
    process = one._process
    one.look()
    one.close()
    assert process is not None and process.returncode == 0 and said == []
    seen = (tmp_path / "seen").read_text()
    assert "'CUDA_VISIBLE_DEVICES': ''" in seen and "'OMP_NUM_THREADS': '1'" in seen
    assert "RANK" not in seen and "WORLD" not in seen


def test_how_often_is_drawn_is_said_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(drawer.VARIABLE, raising=False)
    assert seconds_between() == drawer.DEFAULT_S
    for text, seconds in (("0", None), ("1", 1.0), ("2.5", 2.5), ("0.0", None)):
        monkeypatch.setenv(drawer.VARIABLE, text)
        assert seconds_between() == seconds
    for text in ("", "off", "-1", "0.5", "nan", "inf", "1e9"):
        monkeypatch.setenv(drawer.VARIABLE, text)
        with pytest.raises(ConfigError, match="ASSAY_REDRAW_SECONDS"):
            seconds_between()


TABLES = (
    *map(
        place_of,
        ("training_log.csv", "reward_components.csv", "checkpoint_evals.csv", "validation_scores.csv"),
    ),
    place_of("train_log.jsonl"),
    "evidence/observed/training_clock.csv",
)


@pytest.mark.parametrize("main", [True, False])
def test_the_main_process_alone_takes_old_curves_away_and_starts_one_drawer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, main: bool
) -> None:
    told: list[object] = []

    class Known:
        def __init__(self, *arguments: object) -> None:
            told.append(arguments)

        def look(self) -> None:
            told.append("look")

        def close(self) -> None:
            told.append("close")

    from assay.pipeline import live_log as module

    monkeypatch.setattr(module, "Drawer", Known)
    monkeypatch.setenv(drawer.VARIABLE, "2")
    for name in TABLES:
        write_text(tmp_path / name, "of an earlier training")
    folder = RunFolder(
        tmp_path / "run", RunKey("key", {}), {}, Project.open(ROOT).params.checkpoint, main=main
    )
    project = Project(tmp_path, Project.open(ROOT).params)
    live = Live(
        project.root, project.params.train.steps, History(), Watch(Letters()), SUITE, folder, main=main
    )
    live.tell("started", {"step": 0})
    with live.shown():
        assert [(tmp_path / name).exists() for name in TABLES] == [not main] * len(TABLES)
    assert told == ([(tmp_path, tmp_path / "run/drawer.log", 2.0), "look", "close"] if main else [])


def test_a_training_that_is_ended_early_says_why_and_is_drawn_a_last_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(drawer.VARIABLE, "0")
    params = Project.open(ROOT).params
    folder = RunFolder(tmp_path / "run", RunKey("key", {}), {}, params.checkpoint, main=True)
    live = Live(tmp_path, params.train.steps, History(), Watch(Letters()), SUITE, folder, main=True)
    live.tell("started", {"step": 0})
    with pytest.raises(Interrupted), live.shown():
        raise Interrupted("a signal", where="here", exit_code=143)
    assert '"ended early"' in (tmp_path / "evidence/observed/run_log.jsonl").read_text()


def test_with_zero_seconds_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.pipeline import live_log as module

    monkeypatch.setattr(module, "Drawer", None)
    monkeypatch.setenv(drawer.VARIABLE, "0")
    folder = RunFolder(
        tmp_path / "run", RunKey("key", {}), {}, Project.open(ROOT).params.checkpoint, main=True
    )
    project = Project(tmp_path, Project.open(ROOT).params)
    live = Live(
        project.root, project.params.train.steps, History(), Watch(Letters()), SUITE, folder, main=True
    )
    live.tell("started", {"step": 0})
    with live.shown():
        pass
