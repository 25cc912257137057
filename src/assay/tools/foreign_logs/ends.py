"""The start and the end of a training log, and how what is measured changed between them.

Items of the two ends are others, so differences are of independent means of items (Welch).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats  # type: ignore[import-untyped,unused-ignore]

from assay.core.records import HealthLevel
from assay.tools.foreign_logs.blocks import StepBlock, ValueRange, ends_of, success_of
from assay.tools.foreign_logs.findings import LogFinding
from assay.tools.foreign_logs.records import LoggedCompletion
from assay.training.health.validation_rules import Change

MIN_PAIRS = 30  # completions of a correlation
Units = Mapping[str, float]
Read = tuple[bool, LogFinding | None]  # whether a rule could read anything, and what it found


@dataclass(frozen=True)
class TwoEnds:
    """The start and the end of a log, with what is needed to read a value off a completion."""

    start: Sequence[StepBlock]
    end: Sequence[StepBlock]
    rewards: ValueRange | None
    most_success: float

    @classmethod
    def of(cls, blocks: Sequence[StepBlock], rewards: ValueRange | None, most_success: float) -> TwoEnds:
        """Return both ends of a log's blocks."""
        start, end = ends_of(blocks)
        return cls(start, end, rewards, most_success)

    def units(self, blocks: Sequence[StepBlock], name: str) -> Units:
        """Return a measure by item, averaged over its completions, or by row where no completion has it.

        Of an item that is not logged, each completion is one of its own.
        """
        found: defaultdict[str, list[float]] = defaultdict(list)
        for k, each in enumerate(each for block in blocks for each in block.kept):
            value = self._value(each, name)
            if value is not None:
                found[each.item or f"?{k}"].append(value)
        if not found:
            rows = (row for block in blocks for row in block.rows)
            return {
                f"row {k}": row[name] for k, row in enumerate(rows) if math.isfinite(row.get(name, math.nan))
            }
        return {item: math.fsum(values) / len(values) for item, values in found.items()}

    def _value(self, each: LoggedCompletion, name: str) -> float | None:
        if name == "success":
            return success_of(each, self.most_success)
        return each.reward if name == "reward" else each.parts.get(name.removeprefix("part "))

    def change(self, name: str) -> Change | None:
        """Return how the mean of a measure changed from start to end."""
        return welch(list(self.units(self.start, name).values()), list(self.units(self.end, name).values()))

    @property
    def since(self) -> int:
        """The first step of the end."""
        steps = [each.step for each in self.end[0].completions]
        return min(steps or [int(row["step"]) for row in self.end[0].rows] or [self.end[0].last_step])


def welch(first: Sequence[float], last: Sequence[float]) -> Change | None:
    """Return the difference of two independent means with its 95 % interval; None under two values a side.

    Source: Welch (1947), Biometrika 34:28, with Satterthwaite's degrees of freedom.

    >>> welch([0.0, 0.0, 1.0, 1.0], [1.0] * 4).mean
    0.5
    """
    if len(first) < 2 or len(last) < 2:
        return None
    squares = [float(np.var(side, ddof=1)) / len(side) for side in (first, last)]
    mean, error = float(np.mean(last) - np.mean(first)), math.sqrt(sum(squares))
    if error == 0.0:
        return Change(mean, mean, mean)
    freedom = sum(squares) ** 2 / sum(
        each**2 / (len(side) - 1) for each, side in zip(squares, (first, last), strict=True)
    )
    half = float(stats.t.ppf(0.975, freedom)) * error
    return Change(mean, mean - half, mean + half)


def ring(
    ends: TwoEnds,
    rule: str,
    level: HealthLevel,
    said: str,
    value: float | None = None,
    limit: float | None = None,
    start: float | None = None,
) -> Read:
    """Return that a rule could be read, and rang: `said` is without a full stop."""
    return True, LogFinding(rule, level, ends.since, True, value, limit, start, f"{said}.")


def correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return the correlation of pairs; None where they are few or one side does not vary."""
    if len(pairs) < MIN_PAIRS:
        return None
    sides = np.array(pairs, dtype=float).T
    if any(float(np.ptp(side)) <= 1e-12 for side in sides):
        return None
    return float(np.corrcoef(sides[0], sides[1])[0, 1])
