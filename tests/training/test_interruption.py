"""Ctrl-C and SIGTERM: the step at work is finished and saved, and the training goes on from there to the same
end."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from assay.training.log.callback import Recorder
from tests.training import crash_harness
from tests.training.crash_harness import Left, before, command, differences, ended, fork
from tests.training.kills import Stages

STEPS = 7
PARAMS = crash_harness.settings(STEPS)
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Left:
    crash_harness.warm()
    folder, child = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("child")
    left = ended(fork(lambda: crash_harness.training(folder, PARAMS), child), child)
    assert isinstance(left, dict)
    return left


def started(root: Path, out: Path, stages: Stages, *, hold: bool = False) -> int:
    """Start a training that can be interrupted; where `hold`, it waits at the end of a step once it has
    been."""

    def held(recorder: Recorder, *_: Any) -> None:
        if recorder._interruption.signal is not None:
            (out / "holding").touch()
            time.sleep(30)

    def work() -> int:
        # As a shell starts a program in the foreground, whatever this one was started by.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        stages.watch(resumed=False)
        if hold:
            before(Recorder, "on_step_end", held)
        try:
            return command(lambda: crash_harness.training(root, PARAMS))
        except KeyboardInterrupt:
            return -1

    return fork(work, out)


def went_on(root: Path, out: Path, whole: Left) -> str:
    left = ended(fork(lambda: crash_harness.training(root, PARAMS), out), out)
    assert differences(whole, left) == []
    return (out / "said").read_text("utf-8")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize(
    ("stage", "entry", "step"),
    [
        ("validation", 1, 1),  # of the untrained policy
        ("generation", 1, 1),
        ("forward and backward", 2 * 2 * 2 + 1, 3),
        ("optimizer", 2 * 4 + 1, 5),
        ("checkpoint write", 3, 3),  # of step 2; the first two were of step 0
    ],
)
def test_a_signal_lets_the_step_be_finished_and_saved(
    tmp_path: Path, whole: Left, number: signal.Signals, stage: str, entry: int, step: int
) -> None:
    root, stages = tmp_path / "project", Stages(stage, entry)
    child = started(root, tmp_path, stages)
    assert stages.reached()
    os.kill(child, number)
    assert ended(child, tmp_path) == CODES[number]
    said = (tmp_path / "said").read_text("utf-8")
    assert said.count(f"{number.name}: the step at work will be finished and saved first") == 1
    assert (
        f"assay: stopped by {number.name} after step {step} of {STEPS}, which is saved.\nTo go on: " in said
    )
    assert "Traceback" not in said
    checkpoints = crash_harness.checkpoints(root)
    newest = checkpoints.newest()
    assert newest is not None and newest.step == step and checkpoints.damaged == []
    lines = (root / "evidence/results/train/training_log.csv").read_text("utf-8").split("\n")
    assert len(lines) == 1 + step + 1, "the curves show what is saved"
    assert f"going on after step {step}, from " in went_on(root, tmp_path, whole)


def test_a_signal_in_the_last_step_lets_the_training_end(tmp_path: Path, whole: Left) -> None:
    root, stages = tmp_path / "project", Stages("optimizer", 2 * (STEPS - 1) + 1)
    child = started(root, tmp_path, stages)
    assert stages.reached()
    os.kill(child, signal.SIGTERM)
    assert ended(child, tmp_path) == 0
    assert differences(whole, crash_harness.left_behind(root, PARAMS)) == []


def test_a_training_that_is_interrupted_again_and_again_ends_the_same(tmp_path: Path, whole: Left) -> None:
    root, steps = tmp_path / "project", []
    for _ in range(3):
        stages = Stages("forward and backward", 1)
        child = started(root, tmp_path, stages)
        assert stages.reached()
        os.kill(child, signal.SIGTERM)
        assert ended(child, tmp_path) == 143
        newest = crash_harness.checkpoints(root).newest()
        assert newest is not None
        steps.append(newest.step)
    assert steps == [1, 2, 3]
    went_on(root, tmp_path, whole)


def test_a_second_ctrl_c_stops_at_once_and_the_last_checkpoint_is_whole(tmp_path: Path, whole: Left) -> None:
    root, stages = tmp_path / "project", Stages("forward and backward", 2 * 2 * 3 + 1)
    child = started(root, tmp_path, stages, hold=True)
    assert stages.reached()
    os.kill(child, signal.SIGINT)
    deadline = time.monotonic() + 30
    while not (tmp_path / "holding").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    begun = time.monotonic()
    os.kill(child, signal.SIGINT)
    assert ended(child, tmp_path) == -1, "a KeyboardInterrupt"
    assert time.monotonic() - begun < 15
    checkpoints = crash_harness.checkpoints(root)
    newest = checkpoints.newest()
    assert newest is not None and newest.step == 2 and checkpoints.damaged == [], "step 4 was at work"
    went_on(root, tmp_path, whole)
