"""What a training run leaves behind, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from assay.records import Episode
from assay.tasks.protocol import Task


class Validation(NamedTuple):
    """What the validation suite gave at one step: all its draws, and one greedy pass over the same items."""

    step: int
    sampled: list[Episode]
    greedy: list[Episode]


@dataclass(slots=True)
class History:
    """Rows of the logs, oldest first; a value that was not measured is None, never 0."""

    training_log: list[dict[str, Any]] = field(default_factory=list)
    reward_components: list[dict[str, Any]] = field(default_factory=list)
    train_log: list[dict[str, Any]] = field(default_factory=list)
    observed: list[dict[str, Any]] = field(default_factory=list)
    validations: list[Validation] = field(default_factory=list)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def component_row(step: int, episodes: Sequence[Episode], task: Task) -> dict[str, Any]:
    """Return one row of reward_components.csv: means of reward parts and metrics and rates of flags over a batch.

    A rate or metric leaves out episodes in which it is undefined; where it is in all of them, it is None.
    """
    row: dict[str, Any] = {"step": step, "n": len(episodes)}
    row["mean_cumulative"] = float(np.mean([e.reward for e in episodes]))
    for name in task.parts:
        row[f"mean_{name}"] = float(np.mean([e.parts[name] for e in episodes]))
    rates = {f"{name}_rate": _mean([e.flags[name] for e in episodes]) for name in task.flags}
    row.update(rates)
    row["parsed_rate"] = float(np.mean([e.parsed_rate for e in episodes]))
    row["mean_n_steps"] = float(np.mean([len(e.turns) for e in episodes]))
    row["success_rate"] = float(np.mean([e.success for e in episodes]))
    row |= {f"metric.{name}": _mean([e.metrics[name] for e in episodes]) for name in task.metrics}
    return _ordered(row)


def _ordered(row: Mapping[str, Any]) -> dict[str, Any]:
    first = (
        "step", "n", "mean_cumulative", "mean_terminal", "mean_step_shaping", "discovered_rate", "mass_correct_rate",
        "channel_correct_rate", "spin_correct_rate", "parsed_rate", "mean_n_steps",
    )  # fmt: skip
    names = [name for name in first if name in row] + [name for name in row if name not in first]
    return {name: row[name] for name in names}
