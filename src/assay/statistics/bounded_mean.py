"""Whether a mean of bounded differences is above or below zero, whatever their distribution.

Clusters are independent draws of some unknown distribution; nothing is assumed of its shape, only that an
item's difference lies between -1 and +1. Each cluster gets a random weight (exponential, as in the Bayesian
bootstrap), and so does one cluster more that nobody saw: as large as the largest, and as bad as can be. The
share of weightings under which the mean is still not above zero is the p of "not better". Rare heavy losers,
ties, skewed or deterministic arms and effects that go with the size of a cluster therefore cost power, not
level: a thing that was not seen in n clusters is held possible as long as n is too small to exclude it.

For yes/no values this is the exact binomial bound of Clopper and Pearson; for n equal gains g it is
(1 + g)^-n, the least that any valid test can say. Source: Gaffke (2005), "Three test statistics for a
nonparametric one-sided hypothesis on the mean of a nonnegative variable", Math. Methods of Statistics 14:451;
Learned-Miller and Thomas (2019), arXiv:1905.06208. That its level holds for all distributions is conjectured
there, not proven; benchmarks/verdict_levels.py tries it on hard ones.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from assay.core.records import Interval
from assay.evaluation.clusters import Array, ClusterSums
from assay.statistics.intervals import interval

WEIGHTINGS = 20_000
_CHUNK = 1_000


def _weighted(
    sums: ClusterSums, rng: np.random.Generator, weightings: int, largest: float
) -> tuple[Array, Array]:
    # The mean under each weighting with a worst and with a best cluster beside those seen, both [weightings].
    both = np.stack([sums.totals, sums.sizes], axis=1)
    low, high = [], []
    for start in range(0, weightings, _CHUNK):
        weights = rng.standard_exponential((min(_CHUNK, weightings - start), len(both) + 1))
        seen, unseen = weights[:, :-1] @ both, weights[:, -1] * largest
        low.append((seen[:, 0] - unseen) / (seen[:, 1] + unseen))
        high.append((seen[:, 0] + unseen) / (seen[:, 1] + unseen))
    return np.concatenate(low), np.concatenate(high)


def bounded_mean_test(
    sums: ClusterSums,
    rng: np.random.Generator,
    *,
    largest: float = 0.0,
    alpha: float = 0.05,
    weightings: int = WEIGHTINGS,
) -> tuple[float, Interval]:
    """Return the two-sided p for "mean difference = 0" and the (1 - alpha) interval that belongs to it.

    Zero lies outside of the interval if and only if p <= alpha. Differences are shares in [-1, 1]. `largest` is
    the size of the largest cluster that the population holds, where it is known to be larger than any seen.
    Source: the module's.

    >>> ten = ClusterSums(tuple("abcdefghij"), np.full(10, 0.5), np.ones(10))
    >>> p, difference = bounded_mean_test(ten, np.random.default_rng(0))
    >>> abs(p - 2 * 1.5**-10) < 0.005, 0.0 < difference.low < 0.1
    (True, True)
    """
    low, high = _weighted(sums, rng, weightings, max(largest, float(sums.sizes.max())))
    p = min(1.0, 2 * min(_share(low <= 0.0), _share(high >= 0.0)))
    k = (
        math.floor(alpha / 2 * (weightings + 1) + 1e-9) - 1
    )  # the share of the k-th smallest is above alpha / 2
    lowest, highest = (
        (-1.0, 1.0) if k < 0 else (float(np.partition(low, k)[k]), float(-np.partition(-high, k)[k]))
    )
    return p, interval(sums.mean, lowest, highest, int(sums.sizes.sum()))


def _share(contradicts: NDArray[np.bool_]) -> float:
    # The observed weighting counts as one more: a p from chance is never 0. Source: Phipson and Smyth (2010), eq. 2.
    return float((np.count_nonzero(contradicts) + 1) / (len(contradicts) + 1))


def bounded_mean_tests(
    totals: Array, sizes: Array, rng: np.random.Generator, *, largest: float = 0.0, weightings: int = 2_000
) -> tuple[Array, Array]:
    """Return the one-sided p of "not better" and of "not worse" for rows of [experiments, clusters].

    `sizes` has the same shape or is [clusters]; all rows meet the same weightings. For simulations.
    """
    totals = np.asarray(totals, np.float64)
    unseen_size = np.maximum(largest, np.broadcast_to(sizes, totals.shape).max(axis=1))
    worse, better = np.ones(len(totals)), np.ones(len(totals))
    for start in range(0, weightings, _CHUNK):
        weights = rng.standard_exponential((min(_CHUNK, weightings - start), totals.shape[1] + 1))
        seen, unseen = weights[:, :-1] @ totals.T, weights[:, -1:] * unseen_size
        better += np.count_nonzero(seen - unseen <= 0.0, axis=0)
        worse += np.count_nonzero(seen + unseen >= 0.0, axis=0)
    return better / (weightings + 1), worse / (weightings + 1)


def smallest_certain_gain(n_clusters: int, alpha: float = 0.05) -> float:
    """Return the smallest gain, as a share, that n clusters can show at all: each gains just as much.

    Source: P(no loser among n) = (1 + g)^-n where a share g / (1 + g) of all clusters loses everything.

    >>> round(smallest_certain_gain(10), 3), round(smallest_certain_gain(200), 4)
    (0.446, 0.0186)
    """
    return float((alpha / 2) ** (-1 / n_clusters) - 1)
