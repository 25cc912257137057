"""The aggregates agree with rliable: on its own tests' example, on published runs, and on matrices given to
both.

rliable is no dependency: it brings arch and statsmodels for a few lines of arithmetic. The numbers below that
are not from a publication were printed once by rliable 1.2.0 (with arch 7.2.0, numpy 2.4.6) from this, X
being normalised():

    rng = np.random.default_rng(7)
    a, b = rng.integers(0, 11, (6, 9)) / 10, rng.integers(0, 9, (5, 9)) / 10
    print(metrics.aggregate_iqm(a), metrics.aggregate_iqm(b), metrics.aggregate_optimality_gap(a, 0.6))
    print(metrics.probability_of_improvement(a, b))
    print(rly.create_performance_profile({"a": a}, np.array([0, 0.25, 0.5, 0.75, 1.0]), reps=10)[0]["a"])
    np.random.seed(0)
    both = lambda x: np.array([metrics.aggregate_iqm(x), metrics.aggregate_mean(x),
    metrics.aggregate_optimality_gap(x)]) print(rly.get_interval_estimates({"X": X}, both, reps=20_000))
    print(rly.create_performance_profile({"X": X}, np.array([0.5, 1.0, 2.0]), reps=5000))
"""

from __future__ import annotations

import numpy as np
import pytest

from assay.verdict.statistics.seeds_and_items import (
    optimality_gap,
    probability_of_improvement,
    profile,
    weighted_mean,
)
from tests.evaluation.published_scores import normalised

MATRICES = np.random.default_rng(7)
A, B = MATRICES.integers(0, 11, (6, 9)) / 10, MATRICES.integers(0, 9, (5, 9)) / 10


def test_rliables_own_example_is_reproduced() -> None:
    # Source: github.com/google-research/rliable, tests/rliable/metrics_test.py,
    # MetricsTest.test_aggregate_metrics.
    x, y = np.array([[1.0, 2], [2, 2], [1, 1], [2, 1]]), np.array([[1.0, 1], [2, 2], [3, 3]])
    assert (weighted_mean(x)[0], weighted_mean(y)[0]) == (1.5, 2.0)
    assert probability_of_improvement(x, y) == pytest.approx(1 / 3, abs=1e-12)


def test_what_was_published_about_the_runs_of_diamond_is_reproduced() -> None:
    # Source: Alonso et al. (2024), table 1: mean 1.459 (in the abstract 1.46).
    scores = normalised()
    assert scores.shape == (5, 26)
    assert round(float(scores.mean()), 3) == 1.459


def test_on_the_same_matrices_rliable_says_the_same() -> None:
    assert optimality_gap(A, 0.6) == pytest.approx(0.16851851851851846, abs=1e-12)
    assert probability_of_improvement(A, B) == pytest.approx(0.5925925925925926, abs=1e-12)
    expected = [0.92592593, 0.77777778, 0.48148148, 0.31481481, 0.0]
    assert profile(A, [0, 0.25, 0.5, 0.75, 1.0])[0] == pytest.approx(expected, abs=1e-8)
    scores = normalised()
    assert optimality_gap(scores) == pytest.approx(0.48019554, abs=1e-8)


def test_resampled_as_rliable_does_the_intervals_agree_within_the_noise_of_resampling() -> None:
    # rliable resamples the runs of every game on their own, since there each (run, game) is a training of its
    # own.
    scores, rng = normalised(), np.random.default_rng(1)
    n_runs, n_games = scores.shape
    drawn = rng.integers(n_runs, size=(20_000, n_runs, n_games))
    weights = np.stack([(drawn == run).sum(axis=1) for run in range(n_runs)], axis=1).astype(np.float64)
    ends = np.quantile(weighted_mean(scores, weights), [0.025, 0.975])
    assert ends == pytest.approx([1.35821827, 1.56759465], abs=0.01)
    bands = np.quantile(profile(scores, [0.5, 1.0, 2.0], weights), [0.025, 0.975], axis=0)
    assert bands[0] == pytest.approx([0.44615385, 0.4, 0.22307692], abs=0.009)
    assert bands[1] == pytest.approx([0.47692308, 0.44615385, 0.26923077], abs=0.009)


@pytest.mark.parametrize("shape", [(2, 3), (5, 26), (6, 9), (7, 101)])
def test_whole_weights_are_repetitions(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(shape[1])
    scores = rng.normal(size=shape)
    weights = rng.integers(0, 4, size=(10, *shape)).astype(np.float64)
    repeated = [np.repeat(scores.ravel(), own.ravel().astype(int)) for own in weights]
    assert weighted_mean(scores, weights) == pytest.approx([cells.mean() for cells in repeated], abs=1e-12)
    above = [(cells > 0.3).mean() for cells in repeated]
    assert profile(scores, [0.3], weights)[:, 0] == pytest.approx(above, abs=1e-12)
