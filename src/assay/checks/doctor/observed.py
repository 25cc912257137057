"""A task as it is, except that what would break an episode is noted, and stood in for so that the others go
on."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assay.core.errors import AssayError
from assay.rollout.tasks.protocol import Baseline, Item, Message, Step, Task, Verdict

# What code of someone's own raises by mistake. An EnvironmentFailure is none of these: playing deals with it.
RAISED = (
    ArithmeticError,
    AssayError,
    AssertionError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
BROKEN = "broken off by the doctor"
# A task that has not ended an episode by then never will; once that is known, the others need not show it
# too.
MOST_STEPS, FEW_STEPS = 200, 4
UNDER_WAY = "under way when the doctor's time was over"


@dataclass(frozen=True, slots=True)
class _Broken:
    """The state of an episode that cannot go on; how many steps led to it is not known."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """A state of the task, and how many steps led to it."""

    state: Any
    steps: int


class Observed:
    """Plays as the task does; `problems` holds the first example of each kind of trouble.

    Args:
        task: Who really plays.
        problems: Filled in place; to be shared between several that are observed together.

    Kinds: raised (start, step or judge), number (a reward part that is none, or not finite), undeclared (a
    part that `task.parts` lacks, so that it never counts), form (a step or verdict that cannot be recorded),
    endless.
    """

    def __init__(self, task: Task, problems: dict[str, str] | None = None) -> None:
        self._task = task
        self.problems: dict[str, str] = {} if problems is None else problems
        self.most_steps = MOST_STEPS
        self.until: float | None = None  # on the monotonic clock; episodes under way then are broken off

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def _note(self, kind: str, detail: str) -> None:
        self.problems.setdefault(kind, detail)

    def start(self, item: Item, world_seed: int) -> tuple[list[Message], Any]:
        """Open an episode."""
        try:
            messages, state = self._task.start(item, world_seed)
        except RAISED as error:
            self._note("raised", f"start of item {item.id}: {_describe_error(error)}")
            return [{"role": "user", "content": "."}], _Broken()
        return messages, _Counted(state, 0)

    def step(self, state: Any, completion: str) -> Step:
        """Play one completion."""
        if isinstance(state, _Broken):
            return _broken()
        if self.until is not None and time.monotonic() > self.until:
            return _broken(UNDER_WAY)
        if state.steps >= (FEW_STEPS if "endless" in self.problems else self.most_steps):
            self._note("endless", f"an episode that goes on after {self.most_steps} completions")
            return _broken()
        try:
            step = self._task.step(state.state, completion)
            parts = self._sound(step.parts)
            formed = isinstance(step.observation, str) != isinstance(step.ending, str)
        except RAISED as error:
            self._note("raised", f"step with the completion {_shown(completion)}: {_describe_error(error)}")
            return _broken()
        if not formed:
            told = f"observation {type(step.observation).__name__} and ending {type(step.ending).__name__}"
            self._note("form", f"a step with {told} where exactly one should be text")
            return _broken()
        return replace(step, state=_Counted(step.state, state.steps + 1), parts=parts)

    def baselines(self) -> Mapping[str, Baseline]:
        """Scripted players by name; they are shown the task's own states."""
        return {name: _unwrapping(player) for name, player in self._task.baselines().items()}

    def judge(self, state: Any) -> Verdict:
        """Judge a finished episode."""
        nothing = Verdict(False, dict.fromkeys(self._task.flags), dict.fromkeys(self._task.metrics))
        if isinstance(state, _Broken):
            return nothing
        try:
            verdict = self._task.judge(state.state)
            problem = _unrecordable(verdict)
        except RAISED as error:
            self._note("raised", f"judge: {_describe_error(error)}")
            return nothing
        if problem:
            self._note("form", f"a verdict whose {problem}")
            return nothing
        return verdict

    def _sound(self, parts: Mapping[str, Any]) -> dict[str, float]:
        sound = {}
        for name, value in parts.items():
            if name not in self._task.parts and value:
                self._note(
                    "undeclared", f"{name} = {value!r}, while the task declares {', '.join(self._task.parts)}"
                )
            try:
                number = float(value)
            except (TypeError, ValueError):
                number = math.nan
            if not math.isfinite(number):
                self._note("number", f"{name} = {value!r}")
            sound[name] = number if math.isfinite(number) else 0.0
        return sound


def _unwrapping(player: Baseline) -> Baseline:
    def play(item: Item, state: Any, rng: np.random.Generator) -> str:
        return "" if isinstance(state, _Broken) else player(item, state.state, rng)

    return play


def _unrecordable(verdict: Verdict) -> str | None:
    # A numpy bool looks like one and is refused by the record of an episode.
    for name, flag in {"success": verdict.success, **verdict.flags}.items():
        if type(flag) is not bool and (flag is not None or name == "success"):
            return f"{name} is {type(flag).__name__} {flag!r}, not bool"
    for name, value in verdict.metrics.items():
        if value is not None and not math.isfinite(float(value)):
            return f"metric {name} is {value!r}, not finite or None"
    return None


def _broken(why: str = BROKEN) -> Step:
    return Step(_Broken(), None, why, "failed", why, None, {})


def _describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).split(chr(10))[0][:160]}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}… ({len(text)} characters)")
