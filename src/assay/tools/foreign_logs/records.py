"""What a training log of another tool holds, in one form: completions by step, or means by step, or both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

EXACT = 1e-3  # of the spread of rewards: what a sum of parts may miss it by and still be that sum


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
    loose: bool = False  # whether `parts` are just the numbers that the log has beside


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
    the parts, least squares finds the weights, from completions or else from the means by step; parts that
    count for nothing are left out. Where no reward is logged it is made of its parts so, or as their plain
    sum. Where no weights make the parts add up they stay as logged, if the log calls them parts.
    """
    names = sorted({name for each in log.completions for name in each.parts})
    if not names:
        return log
    told = [each for each in log.completions if each.reward is not None and not each.lost]
    if told:
        weights = _fit([[each.parts.get(name, 0.0) for name in names] for each in told], _rewards(told))
        if weights is not None:
            return replace(log, completions=_weighed(log, names, weights, sums=False))
        kept = tuple(replace(each, parts={}) if each.loose else each for each in log.completions)
        return replace(log, completions=kept)
    columns = [f"part {name}" for name in names]
    rows = [row for row in log.rows if all(math.isfinite(row.get(c, math.nan)) for c in ("reward", *columns))]
    weights = _fit([[row[column] for column in columns] for row in rows], [row["reward"] for row in rows])
    note = "no reward is logged with the completions: it is the sum of its parts"
    note += ", taken as they are" if weights is None else ", weighed as in the rows by step"
    weighed = _weighed(log, names, [1.0] * len(names) if weights is None else weights, sums=True)
    return replace(log, completions=weighed, notes=(*log.notes, note))


def _rewards(told: Sequence[LoggedCompletion]) -> list[float]:
    return [each.reward for each in told if each.reward is not None]


def _fit(parts: Sequence[Sequence[float]], rewards: Sequence[float]) -> list[float] | None:
    """Return the weights by which parts add up to rewards; None where there are none, or too few to tell."""
    if len(rewards) < 2 * len(parts[0] if parts else ()) + 2:
        return None
    values, wanted = np.array(parts, dtype=float), np.array(rewards, dtype=float)
    found = np.linalg.lstsq(values, wanted, rcond=None)[0]
    if float(np.abs(values @ found - wanted).max()) > EXACT * max(float(np.ptp(wanted)), 1e-6):
        return None
    return [float(weight) for weight in found]


def _weighed(
    log: ForeignLog, names: Sequence[str], weights: Sequence[float], *, sums: bool
) -> tuple[LoggedCompletion, ...]:
    kept = {name: weight for name, weight in zip(names, weights, strict=True) if abs(weight) > EXACT}
    made = []
    for each in log.completions:
        parts = {name: each.parts.get(name, 0.0) * weight for name, weight in kept.items()}
        reward = math.fsum(parts.values()) if sums and each.parts else each.reward
        made.append(replace(each, parts=parts, reward=reward))
    return tuple(made)
