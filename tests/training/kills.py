"""Kills: where a training is when it dies, at random moments of every stage and at every file operation of a
save."""

from __future__ import annotations

import functools
import io
import mmap
import os
import random
import shutil
import signal
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.core.config.settings import Params
from assay.pipeline.live_log import Live
from assay.pipeline.run_folder import RunFolder
from assay.rollout.evaluation.phases import Phases
from assay.stages import train as train_stage
from assay.training.checkpoints.store import Checkpoints
from tests.training.crash_harness import Left, differences, ended, fork, training, warm

STAGES = (
    "start",
    "resume",
    "generation",
    "forward and backward",
    "optimizer",
    "bookkeeping",
    "log write",
    "checkpoint making",
    "checkpoint write",
    "validation",
    "outputs write",
    "between",
)
OF_PHASE = dict.fromkeys(("encode", "generate", "environment", "reward"), "generation")
OF_PHASE |= dict.fromkeys(("forward", "backward"), "forward and backward")
OF_PHASE |= dict.fromkeys(("logging", "kl_probe"), "bookkeeping")
OF_PHASE |= {"optimizer": "optimizer", "checkpoint": "checkpoint making", "validation": "validation"}
AIMED = STAGES[:-1]


class Stages:
    """Where a child is, in memory that its parent can read also when the child is dead.

    Args:
        target: Stage at whose entry number `entry` (from 1) the parent is told, through a pipe.
        entry: Which one.
    """

    def __init__(self, target: str = "", entry: int = 0) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._target, self._entry = target, entry
        self._open: list[str] = []
        self._counts = dict.fromkeys(STAGES, 0)
        self.seconds: dict[str, list[float]] = {name: [] for name in STAGES}
        self.reader, self._writer = os.pipe()

    @property
    def now(self) -> str:
        """The stage the child is, or was, in."""
        return STAGES[struct.unpack("B", self._memory[:1])[0]]

    def reached(self) -> bool:
        """Wait in the parent until the child is at the target; False if it ended before."""
        os.close(self._writer)
        try:
            return bool(os.read(self.reader, 1))
        finally:
            os.close(self.reader)

    def watch(self, *, resumed: bool) -> None:
        """Wrap what is watched; for the child, which does not live long enough to undo it."""
        self._since = time.perf_counter()
        self._push("resume" if resumed else "start")
        marks, timed = self, Phases.__call__

        @contextmanager
        def phase(phases: Phases, name: str) -> Iterator[None]:
            if marks._open[0] in ("start", "resume"):
                marks.seconds[marks._open[0]].append(time.perf_counter() - marks._since)
                marks._open[0] = "between"  # the start is over with the first phase
            with marks._within(OF_PHASE[name]), timed(phases, name):
                yield

        Phases.__call__ = phase  # type: ignore[method-assign]
        for owner, name, told in (
            (Live, "publish", "log write"),
            (RunFolder, "log", "log write"),
            (Checkpoints, "save", "checkpoint write"),
            (Checkpoints, "keep_validation", "checkpoint write"),
            (train_stage, "_publish", "outputs write"),
            (RunFolder, "finish", "outputs write"),
        ):
            setattr(owner, name, self._wrapped(getattr(owner, name), told))

    def _wrapped(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def within(*arguments: Any, **named: Any) -> Any:
            with self._within(stage):
                return function(*arguments, **named)

        return within

    @contextmanager
    def _within(self, stage: str) -> Iterator[None]:
        before = time.perf_counter()
        self._push(stage)
        try:
            yield
        finally:
            self._open.pop()
            self._show(self._open[-1])
            self.seconds[stage].append(time.perf_counter() - before)

    def _push(self, stage: str) -> None:
        self._open.append(stage)
        self._show(stage)
        self._counts[stage] += 1
        if stage == self._target and self._counts[stage] == self._entry:
            os.write(self._writer, b"!")

    def _show(self, stage: str) -> None:
        self._memory[0] = STAGES.index(stage)


@dataclass
class Tally:
    """What a series of kills showed."""

    stages: dict[str, dict[str, int]] = field(default_factory=dict)
    chained: int = 0  # kills of a training that had been killed before
    trainings: int = 0
    differing: list[dict[str, Any]] = field(default_factory=list)

    @property
    def kills(self) -> int:
        """Kills that were made."""
        return sum(row["kills"] for row in self.stages.values())

    @property
    def identical(self) -> int:
        """Kills of trainings that ended as if nothing had been."""
        return sum(row["identical"] for row in self.stages.values())

    def add(self, met: Sequence[str], odd: list[str]) -> None:
        """Count one training that was killed in these stages and then differed in this."""
        self.trainings += 1
        self.chained += max(0, len(met) - 1)
        for stage in met:
            row = self.stages.setdefault(stage, {"kills": 0, "identical": 0})
            row["kills"] += 1
            row["identical"] += not odd
        if odd:
            self.differing.append({"killed in": list(met), "differs in": odd})


class Killer:
    """Kills trainings at random moments and compares how they end."""

    def __init__(self, params: Params, folder: Path, seed: int) -> None:
        """Train once, undisturbed, in `folder`."""
        warm()
        self.params, self._folder, self._chance = params, folder, random.Random(seed)
        stages = Stages()
        child = fork(
            lambda: (self._train(stages, folder / "whole", resumed=False), stages.seconds),
            folder / "whole-child",
        )
        os.close(stages.reader), os.close(stages._writer)
        self.whole, self._seconds = ended(child, folder / "whole-child")
        self._seconds["resume"] = self._seconds["start"]

    def _train(self, stages: Stages, root: Path, *, resumed: bool) -> Left:
        stages.watch(resumed=resumed)
        return training(root, self.params)

    def kill(self, kills: int, on_training: Callable[[Tally], None] = lambda tally: None) -> Tally:
        """Make exactly so many kills, in as many trainings as it takes, and compare every training's end."""
        tally = Tally()
        while tally.kills < kills:
            with tempfile.TemporaryDirectory(dir=self._folder, prefix="killed-") as folder:
                met, left = self._one(Path(folder), tally, kills - tally.kills)
            tally.add(met, differences(self.whole, left))
            on_training(tally)
        return tally

    def _one(self, folder: Path, tally: Tally, most: int) -> tuple[list[str], Left]:
        """Kill one training at least once, then again with probability 1/3 each, and return where, and what
        it left."""
        met: list[str] = []
        while True:
            again = len(met) < most and (not met or self._chance.random() < 1 / 3)
            hit, left = self._attempt(folder, bool(met), self._aim(tally, met) if again else None)
            if left is None:
                met.append(hit)
            elif met:
                return met, left
            else:  # it was over before it could be killed: another one
                folder = Path(tempfile.mkdtemp(dir=folder))

    def _aim(self, tally: Tally, met: list[str]) -> str:
        """Return the stage that has been met least so far; a first call starts, a later one resumes."""
        possible = [name for name in AIMED if name != ("start" if met else "resume")]
        counts = {name: tally.stages.get(name, {"kills": 0})["kills"] + met.count(name) for name in possible}
        least = min(counts.values())
        return self._chance.choice([name for name, count in counts.items() if count == least])

    def _attempt(self, root: Path, resumed: bool, target: str | None) -> tuple[str, Left | None]:
        entry, delay = 0, 0.0
        if target is not None:
            known = self._seconds[target]
            # Any moment of the stage is as likely
            entry = self._chance.choices(range(1, len(known) + 1), known)[0]
            delay = self._chance.uniform(0.0, known[entry - 1])
            if resumed and len(known) > 1:
                entry = max(1, round(entry * self._chance.random()))  # less is left to do
        stages = Stages(target or "", entry)
        child = fork(lambda: self._train(stages, root, resumed=resumed), root / "child")
        if stages.reached():
            time.sleep(delay)
            os.kill(child, signal.SIGKILL)
        left = ended(child, root / "child")
        return stages.now, left


# --- file operations
# -------------------------------------------------------------------------------------------------

OPERATIONS = ("open", "mkdir", "rmdir", "unlink", "rename", "replace", "fsync", "ftruncate", "chmod", "write")


class Operations:
    """Counts the file operations of one save, and ends the process just before or just after one of them.

    Args:
        step: Whose save.
        place: Operation to die at, from 0; None only counts.
        after: Whether the operation is still made.
    """

    def __init__(self, step: int, place: int | None = None, *, after: bool = False) -> None:
        self._step, self._place, self._after, self._on = step, place, after, False
        self.names: list[str] = []

    def watch(self) -> None:
        """Wrap the functions of os, for the child; a file that is written is written in two halves."""
        for name in OPERATIONS:
            setattr(os, name, self._counted(getattr(os, name)))
        plain = os.fdopen

        def fdopen(handle: int, mode: str = "r", *rest: Any, **named: Any) -> Any:
            return (
                io.BufferedWriter(_Halves(handle, "wb"), 1)
                if mode == "wb"
                else plain(handle, mode, *rest, **named)
            )

        os.fdopen = fdopen  # type: ignore[assignment]
        for name in ("keep_validation", "save"):
            setattr(Checkpoints, name, self._saving(getattr(Checkpoints, name)))

    def _saving(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def saving(checkpoints: Checkpoints, step: int, *rest: Any, **named: Any) -> Any:
            self._on = step == self._step
            try:
                return function(checkpoints, step, *rest, **named)
            finally:
                self._on = False

        return saving

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def counted(*arguments: Any, **named: Any) -> Any:
            if not self._on:
                return function(*arguments, **named)
            here = self._place == len(self.names)
            self.names.append(function.__name__)
            if here and not self._after:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return function(*arguments, **named)
            finally:
                if here:
                    os.kill(os.getpid(), signal.SIGKILL)

        return counted


class _Halves(io.FileIO):
    """A file that takes half of what it is given first, then the rest."""

    rest = False

    def write(self, content: Any) -> int:
        given = bytes(content)
        self.rest = not self.rest
        return os.write(self.fileno(), given[: max(1, len(given) // 2)] if self.rest else given)


def kill_at_operations(
    params: Params, folder: Path, step: int, whole: Left, every: int = 1
) -> tuple[list[str], list[str]]:
    """Kill a training just before and just after each operation of one save, go on, and compare.

    Args:
        params: Of the training.
        folder: To work in; what it held of an earlier call is removed.
        step: Whose save.
        whole: What the undisturbed training left.
        every: Of the points, only each so-many-th.

    Returns:
        The points ("before replace 17"), and those after which something differed, with what.
    """
    ready, child = folder / "ready", folder / "child"
    for left in (ready, folder / "counted"):
        shutil.rmtree(left, ignore_errors=True)
    counted = ended(fork(lambda: operated(Operations(step), folder / "counted", params), child), child)
    assert counted is not None and not differences(whole, counted[0]), "counting changes something"
    # All children start from what there is right before the save.
    assert ended(fork(lambda: operated(Operations(step, 0), ready, params), child), child) is None
    points = [(place, after) for place in range(len(counted[1])) for after in (False, True)][::every]
    names, odd = [], []
    for place, after in points:
        names.append(f"{'after' if after else 'before'} {counted[1][place]} {place}")
        with tempfile.TemporaryDirectory(dir=folder) as root:
            killed = Path(root) / "killed"
            shutil.copytree(ready, killed)
            operations = Operations(step, place, after=after)
            assert ended(fork(functools.partial(operated, operations, killed, params), child), child) is None
            left = ended(fork(functools.partial(training, killed, params), child), child)
            if found := differences(whole, left):
                odd.append(f"{names[-1]}: {', '.join(found)}")
    return names, odd


def operated(operations: Operations, root: Path, params: Params) -> tuple[Left, list[str]]:
    operations.watch()
    return training(root, params), operations.names


def litter(root: Path) -> list[str]:
    """Return the hidden files that are left in a folder, which only kills can leave."""
    return sorted(path.relative_to(root).as_posix() for path in root.rglob(".*"))
