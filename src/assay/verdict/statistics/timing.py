"""Where the time of a training went, phase by phase; measured beside the results and never part of one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from assay.core.errors import EvidenceError
from assay.core.records import Interval, Record
from assay.core.seeds import Label, rng
from assay.rollout.evaluation.clusters import cluster_sums
from assay.rollout.evaluation.phases import PHASES
from assay.verdict.statistics.intervals import mean_interval, missing


class Spread(Record):
    """How one quantity is distributed over the steps in which it was measured; null where it never was."""

    median: float | None
    mean: Interval = Field(
        description="95 % block bootstrap: steps beside each other are not independent; n is in steps"
    )
    p95: float | None = Field(description="smallest measured value that 95 % of the steps do not exceed")
    largest: float | None
    share: float | None = Field(
        description="of the time of all phases; null for what is no time, or no part of it"
    )

    @property
    def n(self) -> int:
        """Steps in which it was measured."""
        return self.mean.n


class TimingSummary(Record):
    """The clocks of a training; phases in seconds a step."""

    steps: int = Field(ge=0)
    seconds: float = Field(description="of all phases in all steps")
    step: Spread = Field(description="seconds of a whole step: the sum of its phases")
    phases: dict[str, Spread]
    tokens_per_second: Spread = Field(description="that the policy wrote, over the whole time of a step")
    peak_ram_mib: float | None
    peak_gpu_mib: float | None


def timing_summary(
    rows: Sequence[Mapping[str, Any]], *labels: Label, n_resamples: int = 2000
) -> TimingSummary:
    """Return a summary of the rows of training_clock.csv; without rows nothing is measured, and nothing is 0.

    Args:
        rows: One a step: `<phase>_s` for PHASES, tokens_per_second, peak_ram_mib, peak_gpu_mib. What is not
            there, None, or an empty cell was not measured. wall_time_s runs on over steps and is not read.
        labels: Of the resampling: equal rows and labels give equal numbers.
        n_resamples: Of each interval.

    Raises:
        EvidenceError: A cell is no finite number.

    >>> timing_summary([{"generate_s": 3.0, "other_s": 1.0}], "doctest").phases["generate"].share
    0.75
    """
    columns = {
        name: _column(rows, name) for name in (*(f"{phase}_s" for phase in PHASES), "tokens_per_second")
    }
    peaks = {
        name: [x for x in _column(rows, name) if x is not None] for name in ("peak_ram_mib", "peak_gpu_mib")
    }
    clocks = [columns[f"{phase}_s"] for phase in PHASES]
    steps = [
        math.fsum(known) if (known := [x for x in row if x is not None]) else None
        for row in zip(*clocks, strict=True)
    ]
    seconds = math.fsum(x for x in steps if x is not None)

    def spread(name: str, values: Sequence[float | None], total: float | None) -> Spread:
        return _spread([x for x in values if x is not None], total, rng("timing", *labels, name), n_resamples)

    return TimingSummary(
        steps=len(rows),
        seconds=round(seconds, 6),
        step=spread("step", steps, seconds),
        phases={phase: spread(phase, columns[f"{phase}_s"], seconds) for phase in PHASES},
        tokens_per_second=spread("tokens_per_second", columns["tokens_per_second"], None),
        peak_ram_mib=max(peaks["peak_ram_mib"], default=None),
        peak_gpu_mib=max(peaks["peak_gpu_mib"], default=None),
    )


def block_interval(values: Sequence[float], chance: np.random.Generator, n_resamples: int) -> Interval:
    """Return the mean of a series with its 95 % interval, without taking neighbours for independent.

    The series is cut into blocks of about sqrt(n) neighbours, and the blocks are resampled as clusters are
    everywhere else (studentised); ends are null where there are too few blocks, under 12 values, or no
    spread. Source: Carlstein (1986), Annals of Statistics 14:1171 (blocks that do not overlap).
    """
    n = len(values)
    n_blocks = n // max(1, round(math.sqrt(n)))
    blocks = [f"{i * n_blocks // n:06d}" for i in range(n)]
    return mean_interval(cluster_sums(values, blocks), chance, n_resamples)


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> list[float | None]:
    return [_number(row.get(name), name, number) for number, row in enumerate(rows, start=1)]


def _number(value: Any, name: str, number: int) -> float | None:
    if value is None or value == "":
        return None
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        where, fix = (
            f"training_clock.csv, row {number}, {name}",
            "leave the cell empty where nothing was measured",
        )
        raise EvidenceError("a finite number", found=repr(value)[:40], where=where, fix=fix)
    return found


def _spread(
    values: Sequence[float], total: float | None, chance: np.random.Generator, n_resamples: int
) -> Spread:
    if not values:
        return Spread(median=None, mean=missing(), p95=None, largest=None, share=None)
    return Spread(
        median=round(float(np.median(values)), 10),
        mean=block_interval(values, chance, n_resamples),
        p95=float(np.quantile(values, 0.95, method="inverted_cdf")),
        largest=max(values),
        share=round(math.fsum(values) / total, 10) if total else None,
    )
