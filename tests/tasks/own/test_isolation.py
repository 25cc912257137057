"""Somebody's code may do anything: it is named, or lost and tried again, and never rewarded 0."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ConfigError, EnvironmentFailure, TaskError
from assay.core.seeds import rng
from assay.core.storage.json import write_json
from assay.rollout.tasks.own.isolation.server import ADDRESS
from assay.rollout.tasks.own.isolation.worker import Worker, seen
from assay.rollout.tasks.own.settings import OwnTask as OwnSettings
from assay.rollout.tasks.own.task import OwnTask, own_task
from assay.rollout.tasks.protocol import Step
from tests.tasks.own.test_lessons import settings

CODE = """
import asyncio, ctypes, gc, os, re, signal, sys, time
import numpy as np
from assay.rollout.tasks.own.api import Environment, Told

class Cannot(Exception):
    def __str__(self):
        raise ValueError

def loop():
    while True:
        pass

def deep():
    return deep()

class Timeout(Exception):
    pass

def late(error):
    raise error

DONE = {
    "two": lambda: [1.0, 2.0],
    "none given": lambda: [],
    "text": lambda: ["1.0"],
    "a number": lambda: 1.0,
    "generator": lambda: (x for x in [1.0]),
    "nan": lambda: [float("nan")],
    "inf": lambda: [float("inf")],
    "other part": lambda: [{"other": 1.0}],
    "raise": lambda: late(KeyError("gold")),
    "unspeakable": lambda: late(Cannot()),
    "recursion": deep,
    "lambda": lambda: [lambda: 1.0],
    "sys.exit": lambda: sys.exit(3),
    "None": lambda: [None],
    "timeout": lambda: late(Timeout("from some library")),
    "connection": lambda: late(ConnectionResetError("gone")),
    "endless": loop,
    "sleep": lambda: time.sleep(30),
    "numpy": lambda: np.ones(1, dtype="float32"),
    "true": lambda: [True],
    "parts": lambda: {"reward": [1.0]},
    "print": lambda: print('{"place": 0}', flush=True) or os.write(1, b"x" * 9999) and [1.0],
    "os._exit": lambda: os._exit(3),
    "segfault": lambda: ctypes.string_at(0),
    "regular expression": lambda: re.match("(a+)+$", "a" * 60 + "b"),
    "secret": lambda: [float("MY_TOKEN" in os.environ)],
    "memory": lambda: [float(any(type(each).__name__ == "Canary" for each in gc.get_objects()))],
    "alarm": lambda: [signal.signal(signal.SIGALRM, signal.SIG_IGN), 1.0][1:],
    "wait": lambda: time.sleep(0.02) or [1.0],
}

async def waiting(completions, **kwargs):
    await asyncio.sleep(0)
    return [1.0]

def reward(completions, **kwargs):
    return DONE.get(completions[0], lambda: [1.0])()

class Turns(Environment):
    def reset(self, row, seed):
        if row["prompt"] == "refused":
            raise ValueError("no such world")
        self.said, self.clocked = [], row["prompt"] == "clocked"
        return "go"

    def step(self, completion):
        self.said.append(completion)
        return Told(f"{time.time_ns()}" if self.clocked else " ".join(self.said), 0.0)

def weak(prompt, rng):
    return prompt + "abc"[rng.integers(3)]

def broken(prompt):
    raise ValueError("no move")
"""
RAISED = {
    "two": "reward has 2 numbers for 1 completion",
    "none given": "reward has 0 numbers for 1 completion",
    "text": "reward is str, not a number",
    "a number": "reward is float, not a list with a number for each completion",
    "generator": "reward is generator, not a list",
    "lambda": "reward is function, not a number",
    "nan": "reward part reward is nan, no finite number",
    "inf": "reward part reward is inf, no finite number",
    "other part": r"'other' is not declared in task.parts \(reward\)",
    "raise": r"KeyError: 'gold' \(line \d+ of task.py\)",
    "unspeakable": "Cannot: it cannot be told",
    "recursion": "RecursionError",
    "sys.exit": "SystemExit: 3",
}
LOST = {
    "None": "reward is None",
    "timeout": "Timeout: from some library",
    "connection": "ConnectionResetError: gone",
    "endless": "no answer in 0.5 s",
    "sleep": "no answer in 0.5 s",
}
TURNS: dict[str, Any] = {
    "entry": "task.py:Turns",
    "success": {"compare": "environment"},
    "max_turns": 9,
    "players": {},
}
ENDS = {
    "os._exit": r"the worker ended in the middle \(exit code 3\)",
    "segfault": r"the worker ended in the middle \(SIGSEGV\)",
    "regular expression": "the worker said nothing for 2.5 s, and was killed",
}


class Canary:
    """What a task's code must not find from a process of its own."""


HERE = Canary()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("isolation")
    (found / "mine").mkdir()
    (found / "mine/task.py").write_text(CODE)
    return found


@pytest.fixture(scope="module", params=["inline", "worker"])
def task(root: Path, request: pytest.FixtureRequest) -> Iterator[OwnTask]:
    yield from made(root, isolation=request.param)


@pytest.fixture(scope="module")
def worker(root: Path) -> Iterator[OwnTask]:
    yield from made(root, isolation="worker")


def made(root: Path, **changes: Any) -> Iterator[OwnTask]:
    """Yield a task and close its runner in the end."""
    found = own_task(settings(**{"timeout_s": 0.5, "players": {"weak": "weak"}, **changes}), str(root))
    yield found
    assert found.runner is not None
    found.runner.close()


def played(task: OwnTask, *completions: str) -> list[Step | EnvironmentFailure]:
    """Return what completions lead to, each on a record of its own, side by side."""
    items = [task.item({"prompt": f"p{n}", "answer": "a"}) for n in range(len(completions))]
    begun = task.starts(items, [0] * len(items))
    states = [each[1] for each in begun if not isinstance(each, EnvironmentFailure)]
    assert len(states) == len(begun)
    return task.steps(states, completions)


def rewards(steps: list[Step | EnvironmentFailure]) -> list[float | None]:
    return [None if isinstance(each, EnvironmentFailure) else each.parts["reward"] for each in steps]


@pytest.mark.parametrize("completion", RAISED)
def test_code_that_fails_on_a_completion_is_named_with_it(task: OwnTask, completion: str) -> None:
    with pytest.raises(TaskError, match=rf"item \w+(.|\n)*{RAISED[completion]}(.|\n)*'{completion}'"):
        played(task, "fine", completion, "fine")


@pytest.mark.parametrize("completion", LOST)
def test_what_is_lost_is_no_reward_and_the_rest_goes_on(task: OwnTask, completion: str) -> None:
    found = played(task, "fine", completion, "fine", "fine")
    assert rewards(found) == [1.0, None, 1.0, 1.0]
    assert LOST[completion] in str(found[1])


@pytest.mark.parametrize("completion", ["numpy", "true", "parts"])
def test_what_is_a_reward_is_taken(task: OwnTask, completion: str) -> None:
    assert rewards(played(task, completion)) == [1.0]


def test_a_reward_may_be_a_coroutine(root: Path) -> None:
    for isolation in ("inline", "worker"):
        for task in made(root, isolation=isolation, entry="task.py:waiting"):
            assert rewards(played(task, "a", "b")) == [1.0, 1.0]


def test_players_move_and_say_what_is_wrong(root: Path) -> None:
    players = {"weak": "weak", "broken": "scripted"}
    said = []
    for isolation in ("inline", "worker"):
        for task in made(root, isolation=isolation, players=players):
            item = task.item({"prompt": "p", "answer": "a"})
            _, state = task.start(item, 0)
            said.append([task.baselines()["weak"](item, state, rng("test", n)) for n in range(5)])
            with pytest.raises(TaskError, match="player broken: ValueError: no move"):
                task.baselines()["broken"](item, state, rng("test"))
    assert said[0] == said[1]
    assert set(said[0]) <= {"pa", "pb", "pc"}


def test_calls_wait_side_by_side(task: OwnTask) -> None:
    played(task, *["fine"] * 64)
    items = [task.item({"prompt": f"p{n}", "answer": "a"}) for n in range(64)]
    states = [task.start(item, 0)[1] for item in items]
    took = []
    for _ in range(5):
        since = time.perf_counter()
        assert rewards(task.steps(states, ["wait"] * 64)) == [1.0] * 64
        took.append(time.perf_counter() - since)
    assert min(took) < 0.4  # 1.28 s one after the other; 0.08 s where nobody else computes


@pytest.mark.parametrize("completion", ENDS)
def test_what_ends_a_worker_is_lost_alone(worker: OwnTask, completion: str) -> None:
    found = played(worker, "fine", "fine", completion, *["wait"] * 20)
    assert rewards(found) == [1.0, 1.0, None, *[1.0] * 20]
    assert re.search(ENDS[completion], str(found[2]))
    assert rewards(played(worker, "fine")) == [1.0]


def test_a_worker_killed_from_outside_between_calls_loses_nothing(worker: OwnTask) -> None:
    played(worker, "fine")
    runner = worker.runner
    assert isinstance(runner, Worker)
    assert runner.process_id is not None
    os.kill(runner.process_id, signal.SIGKILL)
    assert rewards(played(worker, "fine", "fine")) == [1.0, 1.0]


def test_a_worker_does_not_start_again_with_other_code(root: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/task.py").write_text(CODE)
    for task in made(tmp_path, isolation="worker"):
        assert rewards(played(task, "fine")) == [1.0]
        (tmp_path / "mine/task.py").write_text(CODE + "\n")
        assert rewards(played(task, "fine")) == [1.0]
        with pytest.raises(ConfigError, match="the code this run began with, found another"):
            played(task, "os._exit", "fine")


def test_a_worker_of_one_thread_plays_in_its_main_thread(root: Path) -> None:
    for task in made(root, isolation="worker", threads=1):
        found = played(task, "fine", "sleep", "alarm", "os._exit", "fine")
        assert rewards(found) == [1.0, None, 1.0, None, 1.0]
        assert "the worker said nothing for 2.5 s, and was killed" in str(found[1])
    for task in made(root, isolation="worker"):
        with pytest.raises(TaskError, match="signal only works in main thread"):
            played(task, "alarm")


def test_an_episode_goes_on_in_a_new_worker(root: Path) -> None:
    for task in made(root, isolation="worker", **TURNS):
        _, state = task.start(task.item({"prompt": "p"}), 0)
        for turn in range(1, 4):
            step = task.step(state, f"say{turn}")
            assert step.observation == " ".join(f"say{n}" for n in range(1, turn + 1))
            state = step.state
            runner = task.runner
            assert isinstance(runner, Worker)
            assert runner.process_id is not None
            os.kill(runner.process_id, signal.SIGKILL)


@pytest.mark.parametrize("isolation", ["inline", "worker"])
def test_what_does_not_repeat_itself_is_told_as_that(root: Path, isolation: str) -> None:
    for task in made(root, isolation=isolation, **TURNS):
        _, state = task.start(task.item({"id": "r1", "prompt": "clocked"}), 0)
        task.step(state, "a")
        with pytest.raises(TaskError, match=r"item r1: expected a task that repeats itself(.|\n)*on 'a'"):
            task.step(state, "a")


def test_an_opening_that_fails_is_named(root: Path) -> None:
    for task in made(root, **TURNS):
        with pytest.raises(TaskError, match=r"item r1(.|\n)*no such world \(line \d+ of task.py\), on the"):
            task.start(task.item({"id": "r1", "prompt": "refused"}), 0)


def test_what_the_code_prints_is_no_answer(worker: OwnTask, capfd: pytest.CaptureFixture[str]) -> None:
    assert rewards(played(worker, "print", "fine")) == [1.0, 1.0]
    assert capfd.readouterr().out == ""


def test_a_worker_sees_neither_this_process_nor_its_secrets(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "s")
    gc.unfreeze()  # it looks where the search for garbage looks
    for isolation, found in (("inline", 1.0), ("worker", 0.0)):
        # It looks through every object of a process, and these tests may come after a thousand others.
        for task in made(root, isolation=isolation, timeout_s=30.0):
            assert rewards(played(task, "secret", "memory")) == [found, found]


def test_of_the_environment_a_worker_gets_what_a_program_needs() -> None:
    given = {
        "PATH": "/bin",
        "HF_HOME": "/hf",
        "HF_TOKEN": "s",
        "OPENAI_API_KEY": "s",
        "ASSAY_TASK_KEY": "mine",
        "AWS_SECRET_ACCESS_KEY": "s",
        "LC_ALL": "C",
    }
    found = seen(given)
    assert set(found) - {"PYTHONPATH"} == {"PATH", "HF_HOME", "ASSAY_TASK_KEY", "LC_ALL"}


# --- a server


@pytest.fixture
def serving(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    found = serve(root, 0)
    monkeypatch.setenv(ADDRESS, found.address)  # type: ignore[attr-defined]
    yield found
    found.kill()
    found.wait()


def serve(root: Path, port: int, served: OwnSettings | None = None) -> subprocess.Popen[str]:
    """Start a server and wait until it says where it is."""
    served = served or settings(timeout_s=0.5)
    write_json(root / "settings.json", {"task": served.model_dump(mode="json")})
    command = [sys.executable, "-m", "assay.rollout.tasks.own.isolation.serve", "--settings"]
    process = subprocess.Popen(
        [*command, str(root / "settings.json"), "--root", str(root), "--port", str(port)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as told:
        process.address = told.readline().strip()  # type: ignore[attr-defined]
    return process


def test_a_server_answers_as_the_code_does_here(root: Path, serving: subprocess.Popen[str]) -> None:
    for task in made(root, isolation="server", players={}):
        assert rewards(played(task, "fine", "None", "sleep", "numpy")) == [1.0, None, None, 1.0]
        with pytest.raises(TaskError, match="KeyError: 'gold'"):
            played(task, "raise")


def test_a_server_that_is_gone_is_a_loss_and_back_again_none(
    root: Path, serving: subprocess.Popen[str]
) -> None:
    for task in made(root, isolation="server", players={}):
        assert rewards(played(task, "fine")) == [1.0]
        _, state = task.start(task.item({"prompt": "p", "answer": "a"}), 0)
        serving.kill()
        serving.wait()
        with pytest.raises(EnvironmentFailure, match="Connection refused"):
            task.step(state, "fine")
        again = serve(root, int(serving.address.rpartition(":")[2]))  # type: ignore[attr-defined]
        try:
            assert task.step(state, "fine").parts == {"reward": 1.0}
        finally:
            again.kill()
            again.wait()


def test_a_server_that_ends_in_the_middle_loses_what_it_had_not_answered(
    root: Path, serving: subprocess.Popen[str]
) -> None:
    for task in made(root, isolation="server", players={}):
        assert rewards(played(task, "os._exit", "fine"))[0] is None


def test_a_server_of_another_task_is_refused(
    root: Path, serving: subprocess.Popen[str], tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/task.py").write_text(CODE + "\nOTHER = 1\n")
    for task in made(tmp_path, isolation="server", players={}):
        with pytest.raises(ConfigError, match="the task of these settings, found another one"):
            played(task, "fine")


@pytest.mark.parametrize("address", ["", "ftp://127.0.0.1", "file:///etc/passwd", "http://x:port", "8765"])
def test_an_address_that_is_none_is_refused(
    root: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ADDRESS, address)
    with pytest.raises(ConfigError, match=r"ASSAY_TASK_SERVER(.|\n)*an http or https address"):
        own_task(settings(isolation="server"), str(root))
