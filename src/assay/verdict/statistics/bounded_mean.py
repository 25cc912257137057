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
from scipy.special import ndtr  # type: ignore[import-untyped,unused-ignore]

from assay.core.records import Interval
from assay.rollout.evaluation.clusters import Array, ClusterSums
from assay.verdict.statistics.intervals import interval

WEIGHTINGS = 20_000
FEW = 20  # weightings that contradict: fewer give p to a quarter of itself or worse
_CHUNK = 1_000
NEWTON = 15  # steps to the saddle point
INVERTED, NODES = 33, np.linspace(0.0, 6.0, 61)


def _weighted(
    sums: ClusterSums, rng: np.random.Generator, weightings: int, largest: float
) -> tuple[Array, Array]:
    # The mean under each weighting with a worst and with a best cluster beside those seen, both [weightings].
    both = np.stack([sums.totals, sums.sizes], axis=1)
    low, high = [], []
    memory = np.empty((min(_CHUNK, weightings), len(both) + 1))  # to take it anew costs as much as the draws
    for start in range(0, weightings, _CHUNK):
        weights = rng.standard_exponential(out=memory[: weightings - start])
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

    Zero lies outside of the interval if and only if p <= alpha. Differences are shares in [-1, 1].
    `largest` is the size of the largest cluster that the population holds, where it is known to be larger
    than any seen. Source: the module's.

    >>> ten = ClusterSums(tuple("abcdefghij"), np.full(10, 0.5), np.ones(10))
    >>> p, difference = bounded_mean_test(ten, np.random.default_rng(0))
    >>> abs(p - 2 * 1.5**-10) < 0.005, 0.0 < difference.low < 0.1
    (True, True)
    """
    low, high = _weighted(sums, rng, weightings, max(largest, float(sums.sizes.max())))
    tails = ((low <= 0.0, sums.totals), (high >= 0.0, -sums.totals))
    p = min(1.0, 2 * min(_tail(*tail, sums.sizes, largest) for tail in tails))
    k = (
        math.floor(alpha / 2 * (weightings + 1) + 1e-9) - 1
    )  # the share of the k-th smallest is above alpha / 2
    lowest, highest = (
        (-1.0, 1.0) if k < 0 else (float(np.partition(low, k)[k]), float(-np.partition(-high, k)[k]))
    )
    return p, interval(sums.mean, lowest, highest, int(sums.sizes.sum()))


def _tail(contradicts: NDArray[np.bool_], totals: Array, sizes: Array, largest: float) -> float:
    # Where next to no weighting contradicts, they cannot tell small levels apart, and the formula can.
    if np.count_nonzero(contradicts) < FEW:
        return float(not_better(totals[None, :], sizes, largest=largest)[0])
    # The observed weighting counts as one more. Source: Phipson and Smyth (2010), eq. 2.
    return float((np.count_nonzero(contradicts) + 1) / (len(contradicts) + 1))


def not_better(totals: Array, sizes: Array, *, largest: float = 0.0) -> Array:
    """Return the one-sided p of "not better" of rows of totals, [experiments, clusters], without weightings.

    `sizes` is [clusters], or [experiments, clusters]. For planning: no noise of weightings. The sum of w t
    over clusters less w times the largest has the moment generating function prod 1 / (1 - s t), as the
    weights are exponential: up to 32 clusters it is inverted along a line through its saddle point, beyond
    them by Lugannani and Rice (1980), in the form of Barndorff-Nielsen (1990), to about one per cent.

    >>> float(not_better(np.full((1, 20), 0.2), np.ones(20))[0].round(4)), round(1.2**-20, 4)
    (0.0261, 0.0261)
    """
    most = np.maximum(largest, np.broadcast_to(sizes, totals.shape).max(axis=1))
    terms = np.concatenate([totals, -most[:, None]], axis=1)
    p = np.ones(len(terms))
    above = terms.sum(axis=1) > 0.0  # elsewhere p is about one half or more
    terms = terms[above]
    low, high = 1.0 / terms.min(axis=1), np.zeros(len(terms))  # between them the slope is 0 somewhere
    at = low / 2
    for _ in range(NEWTON):
        ratio = terms / (1.0 - at[:, None] * terms)
        slope, curve = ratio.sum(axis=1), (ratio**2).sum(axis=1)
        low, high = np.where(slope < 0, at, low), np.where(slope < 0, high, at)
        step = at - slope / curve
        at = np.where((step > low) & (step < high), step, (low + high) / 2)
    curved = np.sqrt(((terms / (1.0 - at[:, None] * terms)) ** 2).sum(axis=1))
    if terms.shape[1] <= INVERTED:
        beside = np.sinh(NODES)[:, None] / curved
        line = at + 1j * beside
        product = np.ones_like(line)
        for term in terms.T:
            product *= 1.0 - line * term
        heights = -(1.0 / (product * line)).real * np.cosh(NODES)[:, None] / curved
        heights[0] /= 2
        p[above] = heights.sum(axis=0) * (NODES[1] - NODES[0]) / math.pi
        return p
    root = -np.sqrt(np.maximum(2 * np.log1p(-at[:, None] * terms).sum(axis=1), 1e-12))
    p[above] = ndtr(root + np.log(at * curved / root) / root)
    return p


def clusters_needed(sizes: Array, *, largest: float = 0.0, gain: float = 1.0, alpha: float = 0.05) -> int:
    """Return how many clusters of such sizes, [clusters], can show that each gains as much as `gain`.

    A gain of 1 (all was wrong, all is right) is the largest: fewer clusters than it needs show nothing at
    all. `largest` as in `bounded_mean_test`. Source: Gaffke's p of equal gains is E exp(-g sum(w s) /
    largest), the product over clusters of 1 / (1 + g s / largest), since the weights are exponential.

    >>> clusters_needed(np.ones(40)), clusters_needed(np.ones(40), gain=0.1)
    (6, 39)
    >>> clusters_needed(np.array([1.0] * 19 + [19.0]))
    45
    """
    most = max(largest, float(sizes.max()))
    told = float(np.log1p(gain * sizes / most).mean())
    return math.ceil(math.log(2 / alpha) / told - 1e-9)


def smallest_certain_gain(sizes: Array, *, largest: float = 0.0, alpha: float = 0.05) -> float | None:
    """Return the smallest gain, as a share, that clusters of these sizes can show at all: each gains just as
    much. None where not even a gain of 1 would be shown.

    >>> smallest_certain_gain(np.ones(10)), smallest_certain_gain(np.ones(5))
    (0.446126, None)
    """
    if clusters_needed(sizes, largest=largest, alpha=alpha) > len(sizes):
        return None
    most, low, high = max(largest, float(sizes.max())), 0.0, 1.0
    for _ in range(40):
        gain = (low + high) / 2
        enough = float(np.log1p(gain * sizes / most).sum()) >= math.log(2 / alpha)
        low, high = (low, gain) if enough else (gain, high)
    return round(high, 6)
