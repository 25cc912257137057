"""Intervals for clustered, paired evaluations; episodes of one cluster are never treated as independent.

Estimand everywhere: sum over clusters of totals, divided by the sum of sizes. One arm: the mean over
episodes. Paired: the mean over items of (mean over draws after) - (mean over draws before); a cluster with
more items weighs more. Results are rounded to 10 decimals, so that the summation order of a linear-algebra
library cannot change a record.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit  # type: ignore[import-untyped,unused-ignore]

from assay.core.records import Interval
from assay.rollout.evaluation.clusters import Array, ClusterSums, cluster_sums

_NORMAL = float(ndtri(0.975))
MOST_RESAMPLED = 4096  # clusters of a bootstrap or of made-up experiments; more are put together
_CELLS = 2_500_000  # of a table of resamples and values: some 20 MB
_AT_ONCE = 100_000  # draws of clusters: more would leave the processor's cache


def interval(value: float | None, low: float, high: float, n: int) -> Interval:
    """Return a rounded Interval; both ends are null if either is not finite.

    >>> interval(0.5, 0.1, float("inf"), 3).low is None
    True
    """
    known = value is not None and math.isfinite(low) and math.isfinite(high)
    return Interval(
        value=None if value is None else round(float(value), 10),
        low=round(float(low), 10) if known else None,
        high=round(float(high), 10) if known else None,
        n=n,
    )


def missing() -> Interval:
    """Return the interval of a measure that was never defined: null, n = 0."""
    return Interval(value=None, low=None, high=None, n=0)


def _wilson(p: float, n: float) -> tuple[float, float]:
    z = _NORMAL
    centre, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, (centre - half) / (1 + z * z / n)), min(1.0, (centre + half) / (1 + z * z / n))


def wilson(successes: int, n: int) -> Interval:
    """Return the 95 % Wilson score interval of a proportion of n independent trials, in [0, 1]; null for n =
    0.

    Source: Wilson (1927), JASA 22:209, eq. for the probable-inference limits.

    >>> wilson(0, 10).low, round(wilson(0, 10).high, 4)
    (0.0, 0.2775)
    """
    if n == 0:
        return missing()
    return interval(successes / n, *_wilson(successes / n, n), n)


def _effective_n(sums: ClusterSums) -> float:
    # Source: Korn and Graubard (1998), Survey Methodology 24:193: effective size = p(1-p)/var, shrunk by the
    # squared ratio of the normal to the t quantile. Without variance (0 %, 100 %) only the clusters count as
    # independent.
    n_clusters, p, variance = len(sums.names), sums.mean, sums.standard_error**2
    size = float(sums.sizes.sum())
    spread = p * (1 - p)
    n = min(size, spread / variance) if sums.has_spread and 0 < p < 1 else float(n_clusters)
    return float(n * (_NORMAL / stdtrit(n_clusters - 1, 0.975)) ** 2)


def rate_interval(sums: ClusterSums | None) -> Interval:
    """Return the 95 % Wilson interval of a rate at its effective number of independent observations, in [0,
    1].

    Values are yes/no or fractions in [0, 1]. Both ends are null under two clusters.
    Source: Franco et al. (2019), J. Survey Statistics and Methodology 7:334 (Wilson at the effective sample
    size).
    """
    if sums is None:
        return missing()
    p, n = min(1.0, max(0.0, sums.mean)), int(sums.sizes.sum())
    if len(sums.names) < 2:
        return interval(p, math.nan, math.nan, n)
    return interval(p, *_wilson(p, _effective_n(sums)), n)


def median_interval(values: Sequence[float], clusters: Sequence[str]) -> Interval:
    """Return the median of all values (mean of the middle two if even) with its 95 % interval, both in their
    unit.

    Source: Woodruff (1952), JASA 47:635: quantiles of the values at the limits of the estimated share below
    the median.
    """
    if not values:
        return missing()
    median = float(np.median(values))
    below = cluster_sums([float(value <= median) for value in values], clusters)
    if below is None or len(below.names) < 2:
        return interval(median, math.nan, math.nan, len(values))
    low, high = _wilson(0.5, _effective_n(below))
    return interval(
        median,
        float(np.quantile(values, low, method="lower")),
        float(np.quantile(values, high, method="higher")),
        len(values),
    )


def resample_counts(n_clusters: int, rng: np.random.Generator, resamples: int = 2000) -> Array:
    """Return how often each cluster is drawn when clusters are resampled with replacement, [resamples,
    clusters]."""
    counts = np.empty((resamples, n_clusters))
    rows = max(1, _AT_ONCE // max(1, n_clusters))
    for start in range(0, resamples, rows):
        part = counts[start : start + rows]
        drawn = rng.integers(n_clusters, size=part.shape) + n_clusters * np.arange(len(part))[:, None]
        part[:] = np.bincount(drawn.ravel(), minlength=part.size).reshape(part.shape)
    return counts


def studentised_interval(sums: ClusterSums, counts: Array) -> Interval:
    """Return the mean with its 95 % studentised cluster-bootstrap interval; null ends if clusters are too few
    or alike.

    `counts` is [resamples, clusters] from `resample_counts`. Resamples without spread count as infinitely far
    away. Source: Efron and Tibshirani (1993), An Introduction to the Bootstrap, eq. 12.22 (bootstrap-t).
    """
    return studentised_test(sums, counts)[1]


def studentised_test(sums: ClusterSums, counts: Array) -> tuple[float, Interval]:
    """Return the two-sided p for "mean = 0" that belongs to `studentised_interval`, and that interval; p is 1
    where there is none."""
    mean, error, n = sums.mean, sums.standard_error, len(sums.names)
    if n < 2 or not sums.has_spread:
        return 1.0, interval(mean, math.nan, math.nan, int(sums.sizes.sum()))
    totals, sizes = sums.totals, sums.sizes
    moments = counts @ np.stack([totals, sizes, totals**2, totals * sizes, sizes**2], axis=1)
    means = moments[:, 0] / moments[:, 1]
    squares = moments[:, 2] - 2 * means * moments[:, 3] + means**2 * moments[:, 4]
    squares = np.where(squares < 1e-12 * np.maximum(moments[:, 2], 1e-300), 0.0, squares)
    errors = np.sqrt(n / (n - 1) * squares) / moments[:, 1]
    shift = np.where(np.abs(means - mean) < 1e-12, 0.0, means - mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where((errors == 0) & (shift == 0), 0.0, shift / errors)
    low_t, high_t = np.quantile(t, [0.025, 0.975], method="inverted_cdf")
    found = interval(mean, mean - high_t * error, mean - low_t * error, int(sums.sizes.sum()))
    tail = min(np.count_nonzero(t >= mean / error), np.count_nonzero(t <= mean / error) + 1)
    return min(1.0, 2 * tail / len(t)), found


def grouped(sums: ClusterSums, rng: np.random.Generator) -> ClusterSums:
    """Return clusters put together at random into groups of like size, where there are more than
    `MOST_RESAMPLED`; names have no part in it."""
    n = len(sums.names)
    if n <= MOST_RESAMPLED:
        return sums
    order = rng.permutation(np.lexsort((sums.totals, sums.sizes)))
    order = order[np.argsort(-sums.sizes[order], kind="stable")]
    home = np.arange(n) % MOST_RESAMPLED
    totals, sizes = (np.bincount(home, each[order]).astype(float) for each in (sums.totals, sums.sizes))
    return ClusterSums(tuple(map(str, range(MOST_RESAMPLED))), totals, sizes)


def mean_interval(sums: ClusterSums | None, rng: np.random.Generator, resamples: int = 2000) -> Interval:
    """Return the mean of one arm (or of paired differences) with its studentised cluster-bootstrap
    interval."""
    if sums is None:
        return missing()
    sums = grouped(sums, rng)
    return studentised_interval(sums, resample_counts(len(sums.names), rng, resamples))


def _weighted_medians(values: Array, cluster_index: NDArray[np.intp], counts: Array) -> Array:
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(counts[:, cluster_index[order]], axis=1)
    half = cumulated[:, -1:] / 2
    lower = np.argmax(cumulated >= half, axis=1)
    upper = np.argmax(cumulated > half, axis=1)
    return np.asarray((values[order][lower] + values[order][upper]) / 2, np.float64)


def median_difference_interval(
    before: Sequence[float],
    after: Sequence[float],
    clusters: tuple[Sequence[str], Sequence[str]],
    rng: np.random.Generator,
    resamples: int = 1000,
) -> Interval:
    """Return median(after) - median(before) with a 95 % paired percentile cluster bootstrap; exploratory
    only.

    `clusters` names the cluster of each value of each arm. Resampling draws a cluster for both arms at once.
    Source: Efron and Tibshirani (1993), An Introduction to the Bootstrap, eq. 13.5 (percentile interval).
    """
    names = {name: k for k, name in enumerate(sorted(set(clusters[0]) | set(clusters[1])))}
    index = [np.array([names[name] for name in arm], np.intp) for arm in clusters]
    arms = [np.asarray(before, np.float64), np.asarray(after, np.float64)]
    value = float(np.median(arms[1]) - np.median(arms[0]))
    if len(names) < 6:
        return interval(value, math.nan, math.nan, len(arms[0]))
    if len(names) > MOST_RESAMPLED:
        homes = rng.permutation(len(names)) % MOST_RESAMPLED
        index = [homes[own] for own in index]
    counts = resample_counts(min(len(names), MOST_RESAMPLED), rng, resamples)
    rows = min(50, max(1, _CELLS // max(map(len, index))))
    parts = [counts[k : k + rows] for k in range(0, resamples, rows)]
    gaps = [_weighted_medians(arms[1], index[1], c) - _weighted_medians(arms[0], index[0], c) for c in parts]
    low, high = np.quantile(np.concatenate(gaps), [0.025, 0.975], method="inverted_cdf")
    return interval(value, float(low), float(high), len(arms[0]))
