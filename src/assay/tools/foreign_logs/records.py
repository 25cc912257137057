"""What a training log of another tool holds, in one form: completions by step, or means by step, or both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

EXACT = 1e-3  # of the spread of rewards: what a sum of parts may miss it by and still be that sum
MIN_FITTED = 20  # completions that weights are read from


@dataclass(frozen=True, slots=True)
class LoggedCompletion:
    """One completion as a trainer logged it; None is what the log does not say.

    `item` tells prompts apart ("": not logged), `success` is in [0, 1], `tokens` is its length in tokens.
    """

    step: int
    item: str
    text: str | None
    reward: float | None
    parts: Mapping[str, float] = field(default_factory=dict)
    success: float | None = None
    gold: str | None = None
    tokens: float | None = None
    truncated: bool | None = None
    lost: bool | None = None


@dataclass(frozen=True, slots=True)
class ForeignLog:
    """A training log: completions, rows of means by step under the names of our signals, and what was made of
    it in words."""

    completions: tuple[LoggedCompletion, ...] = ()
    rows: tuple[Mapping[str, float], ...] = ()  # each with "step"; parts are "part <name>"
    notes: tuple[str, ...] = ()


def put_together(logs: Sequence[ForeignLog]) -> ForeignLog:
    """Return several files of one training as one log, in the order of steps."""
    completions = sorted((each for log in logs for each in log.completions), key=lambda each: each.step)
    rows = sorted((row for log in logs for row in log.rows), key=lambda row: row["step"])
    notes = dict.fromkeys(note for log in logs for note in log.notes)
    return ForeignLog(tuple(completions), tuple(rows), tuple(notes))


def weigh_parts(log: ForeignLog) -> ForeignLog:
    """Return the log with reward parts as they add up to the reward.

    Tools log what each reward function said, not what it counts for. Where the reward is a weighted sum of
    the parts, least squares finds the weights; parts that count for nothing are left out. Where no reward is
    logged it is the sum of its parts, and where no weights make the parts add up they stay as logged.
    """
    names = sorted({name for each in log.completions for name in each.parts})
    if not names:
        return log
    if all(each.reward is None for each in log.completions):
        summed = [_with_sum(each) for each in log.completions]
        note = "no reward is logged with the completions: it is taken as the plain sum of its parts"
        return replace(log, completions=tuple(summed), notes=(*log.notes, note))
    told = [each for each in log.completions if each.reward is not None and not each.lost]
    if len(told) < MIN_FITTED:
        return log
    values = np.array([[each.parts.get(name, 0.0) for name in names] for each in told])
    rewards = np.array([each.reward for each in told], dtype=float)
    weights = np.linalg.lstsq(values, rewards, rcond=None)[0]
    if float(np.abs(values @ weights - rewards).max()) > EXACT * max(float(np.ptp(rewards)), 1e-9):
        return log
    kept = {name: float(weight) for name, weight in zip(names, weights, strict=True) if abs(weight) > EXACT}
    weighed = [
        replace(each, parts={name: each.parts.get(name, 0.0) * weight for name, weight in kept.items()})
        for each in log.completions
    ]
    return replace(log, completions=tuple(weighed))


def _with_sum(each: LoggedCompletion) -> LoggedCompletion:
    return replace(each, reward=math.fsum(each.parts.values())) if each.parts else each
