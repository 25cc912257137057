"""Scores of several runs on the same items as one number: interquartile mean, probability of improvement,
profile.

A matrix of scores is [runs, items]. Weights say how often a cell counts: 1 in the data, other numbers in a
resample. Source: Agarwal et al. (2021), Deep RL at the Edge of the Statistical Precipice, sections 4.1 to
4.3; the functions agree with the package rliable 1.2.0, which tests/evaluation/test_aggregates.py checks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from assay.evaluation.clusters import Array

TRIMMED = 0.25


def iqm(scores: Array, weights: Array | None = None) -> Array:
    """Return the mean of the middle half of all cells, in the unit of the scores.

    Args:
        scores: [runs, items].
        weights: [resamples, runs, items], not negative; without them every cell counts once.

    Returns:
        One number for each resample, [resamples]; [1] without weights. As many cells are cut at either end as
        a quarter of them, rounded down.

    >>> float(iqm(np.array([[0.0, 1, 2, 3], [4, 5, 6, 100]]))[0])
    3.5
    """
    values = np.asarray(scores, np.float64).ravel()
    order = np.argsort(values, kind="stable")
    counted = np.ones((1, values.size)) if weights is None else weights.reshape(len(weights), -1)
    reached = np.cumsum(counted[:, order], axis=1)
    total = reached[:, -1:]
    cut = np.floor(TRIMMED * total + 1e-9)
    kept = np.diff(np.clip(reached, cut, total - cut), axis=1, prepend=cut)
    return np.asarray(kept @ values[order] / kept.sum(axis=1), np.float64)


def weighted_mean(cells: Array, weights: Array | None = None) -> Array:
    """Return the mean of all cells, [resamples] ([1] without weights); arguments as for `iqm`.

    >>> float(weighted_mean(np.array([[0.0, 1.0]]), np.array([[[1.0, 3.0]]]))[0])
    0.75
    """
    values = np.asarray(cells, np.float64).ravel()
    if weights is None:
        return np.array([values.mean()])
    flat = weights.reshape(len(weights), -1)
    return np.asarray(flat @ values / flat.sum(axis=1), np.float64)


def wins(x: Array, y: Array) -> Array:
    """Return where x beats y: 1 where it does, one half where they tie, 0 elsewhere; the shapes broadcast.

    >>> wins(np.array([2.0, 1.0, 0.0]), np.array([1.0, 1.0, 1.0])).tolist()
    [1.0, 0.5, 0.0]
    """
    return np.asarray((x > y) + 0.5 * (x == y), np.float64)


def probability_of_improvement(x: Array, y: Array) -> float:
    """Return the probability, in [0, 1], that a run of x beats a run of y on an item; ties count one half.

    Args:
        x: Scores, [runs of x, items].
        y: Scores on the same items, [runs of y, items].

    Source: Agarwal et al. (2021), section 4.3: Mann and Whitney's U of each item over the number of pairs of
    runs, averaged.

    >>> x, y = np.array([[1.0, 2], [2, 2], [1, 1], [2, 1]]), np.array([[1.0, 1], [2, 2], [3, 3]])
    >>> round(probability_of_improvement(x, y), 4)
    0.3333
    """
    return float(wins(x[:, None, :], y[None, :, :]).mean())


def optimality_gap(scores: Array, best: float = 1.0) -> float:
    """Return by how much the scores fall short of `best` on average, what exceeds it counting as `best`.

    >>> optimality_gap(np.array([[0.5, 2.0]]))
    0.25
    """
    return float(best - np.minimum(scores, best).mean())


def profile(scores: Array, thresholds: Sequence[float] | Array, weights: Array | None = None) -> Array:
    """Return for each threshold the share of cells with a score above it, [resamples, thresholds].

    Arguments as for `iqm`; [1, thresholds] without weights.

    >>> profile(np.array([[0.0, 0.5], [0.5, 1.0]]), [0.0, 0.5]).tolist()
    [[0.75, 0.25]]
    """
    values = np.asarray(scores, np.float64).ravel()
    above = (values[:, None] > np.asarray(thresholds, np.float64)[None, :]).astype(np.float64)
    if weights is None:
        return np.asarray(above.mean(axis=0)[None, :], np.float64)
    flat = weights.reshape(len(weights), -1)
    return np.asarray(flat @ above / flat.sum(axis=1, keepdims=True), np.float64)


def codes(labels: Sequence[str]) -> NDArray[np.intp]:
    """Return each label's place among the sorted different ones.

    >>> codes(["b", "a", "b"]).tolist()
    [1, 0, 1]
    """
    return np.unique(np.asarray(labels, dtype=object).astype(str), return_inverse=True)[1]
