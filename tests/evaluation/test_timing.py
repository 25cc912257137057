"""Clock summaries: intervals that hold for series whose steps are not independent, and nothing made of what
is missing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from assay.core.errors import EvidenceError
from assay.core.records import Interval
from assay.core.seeds import rng
from assay.core.storage.json import read_record, write_json
from assay.rollout.evaluation.clusters import cluster_sums
from assay.rollout.evaluation.phases import PHASES
from assay.verdict.statistics.intervals import mean_interval
from assay.verdict.statistics.timing import TimingSummary, block_interval, timing_summary


def series(n: int, correlation: float, label: int) -> list[float]:
    """Return an autoregressive series of mean 10 in its stationary state."""
    chance = rng("series", n, label)
    noise = chance.normal(size=n)
    values = [float(noise[0]) / math.sqrt(1 - correlation**2)]
    for each in noise[1:]:
        values.append(correlation * values[-1] + float(each))
    return [10 + value for value in values]


def holds(found: Interval) -> bool:
    return found.low is not None and found.high is not None and found.low <= 10 <= found.high


@pytest.mark.parametrize(
    ("n", "correlation", "least"), [(50, 0.0, 0.91), (200, 0.0, 0.91), (200, 0.5, 0.91), (1000, 0.8, 0.9)]
)
def test_the_interval_covers_the_mean_of_a_series_whose_steps_depend_on_each_other(
    n: int, correlation: float, least: float
) -> None:
    found = [holds(block_interval(series(n, correlation, k), rng("cover", k), 400)) for k in range(200)]
    assert least <= np.mean(found) <= 0.99


def test_steps_taken_for_independent_would_cover_far_less() -> None:
    names = [f"{k:03d}" for k in range(200)]
    found = [
        holds(mean_interval(cluster_sums(series(200, 0.8, k), names), rng("cover", k), 400))
        for k in range(200)
    ]
    assert np.mean(found) < 0.7


def row(step: int, **changes: Any) -> dict[str, Any]:
    seconds = {f"{phase}_s": 0.01 * (index + 1) + 0.001 * (step % 7) for index, phase in enumerate(PHASES)}
    memory = {"tokens_per_second": 900.0 + step % 5, "peak_ram_mib": 500.0 + step, "peak_gpu_mib": None}
    return {"step": step, "wall_time_s": float(step), **seconds, **memory, **changes}


ROWS = [row(step) for step in range(1, 61)]


def test_phases_add_up_to_the_whole_and_numbers_are_what_they_say() -> None:
    found = timing_summary(ROWS, "test")
    seconds = [row["generate_s"] for row in ROWS]
    generate = found.phases["generate"]
    assert tuple(found.phases) == PHASES
    assert (found.steps, generate.n, found.step.n) == (60, 60, 60)
    assert generate.median == pytest.approx(np.median(seconds))
    assert generate.mean.value == pytest.approx(np.mean(seconds))
    ranks = [{"generate_s": float(k)} for k in range(1, 51)]
    assert timing_summary(ranks, "test").phases["generate"].p95 == 48.0  # 47.5 of 50 values, so the 48th
    assert generate.largest == max(seconds)
    assert sum(spread.share or 0 for spread in found.phases.values()) == pytest.approx(1)
    assert found.seconds == pytest.approx(
        sum(row[f"{phase}_s"] for row in ROWS for phase in PHASES), abs=1e-5
    )
    assert found.step.mean.value == pytest.approx(found.seconds / 60, abs=1e-6)
    assert (found.tokens_per_second.n, found.tokens_per_second.share) == (60, None)
    assert (found.peak_ram_mib, found.peak_gpu_mib) == (560.0, None)


def test_equal_rows_and_labels_give_equal_bytes_and_other_labels_other_resamples(tmp_path: Any) -> None:
    found = timing_summary(ROWS, "test", 1)
    assert found == timing_summary(ROWS, "test", 1)
    assert found.phases["encode"].mean != timing_summary(ROWS, "test", 2).phases["encode"].mean
    write_json(tmp_path / "training_clock.json", found)
    assert read_record(tmp_path / "training_clock.json", TimingSummary, fix="") == found


def test_a_cell_that_was_not_measured_is_missing_and_not_0() -> None:
    some = [
        row(step, validation_s=3.0 if step % 10 == 0 else None, environment_s=None) for step in range(1, 61)
    ]
    for each in some:
        del each["checkpoint_s"]
    found = timing_summary(some, "test")
    validation = found.phases["validation"]
    assert (validation.n, validation.median) == (6, 3.0)
    assert validation.mean == Interval(value=3.0, low=None, high=None, n=6)
    for name in ("environment", "checkpoint"):
        spread = found.phases[name]
        assert (spread.n, spread.median, spread.mean.value, spread.p95, spread.share) == (
            0,
            None,
            None,
            None,
            None,
        )
    assert sum(spread.share or 0 for spread in found.phases.values()) == pytest.approx(1)


def test_rows_as_a_csv_reader_gives_them_are_the_same_rows() -> None:
    text = [{name: "" if value is None else repr(value) for name, value in row.items()} for row in ROWS]
    assert timing_summary(text, "test") == timing_summary(ROWS, "test")


def test_one_row_has_values_and_no_interval() -> None:
    found = timing_summary(ROWS[:1], "test")
    generate = found.phases["generate"]
    assert generate.median == generate.mean.value == generate.p95 == pytest.approx(ROWS[0]["generate_s"])
    assert (generate.mean.low, generate.mean.high, generate.n) == (None, None, 1)


def test_no_rows_measure_nothing() -> None:
    found = timing_summary([], "test")
    assert (found.steps, found.seconds, found.step.n, found.peak_ram_mib) == (0, 0.0, 0, None)
    assert all(spread.mean.value is None and spread.n == 0 for spread in found.phases.values())


def test_phases_that_took_no_time_at_all_have_no_share() -> None:
    still = [{f"{phase}_s": 0.0 for phase in PHASES}] * 20
    found = timing_summary(still, "test")
    assert found.phases["encode"].median == 0.0
    assert found.phases["encode"].share is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "nan", "soon", [1.0]])
def test_a_cell_that_is_no_finite_number_is_refused_and_named(value: Any) -> None:
    with pytest.raises(
        EvidenceError, match=r"training_clock\.csv, row 2, reward_s: expected a finite number"
    ):
        timing_summary([row(1), row(2, reward_s=value)], "test")
