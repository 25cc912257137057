"""Whether a mean of bounded differences is above or below zero, whatever their distribution.

Clusters are independent draws of some unknown distribution; nothing is assumed of its shape, only that an
item's difference lies between -1 and +1. Each cluster gets a random weight (exponential, as in the Bayesian
bootstrap), and so does one cluster more that nobody saw: as large as the largest, and as bad as can be, or as
the plan says one can be. The share of weightings under which the mean is still not above zero is the p of
"not better". Rare heavy losers, ties, skewed or deterministic arms and effects that go with the size of a
cluster therefore cost power, not level: a thing that was not seen in n clusters is held possible as long as n
is too small to exclude it.

No weight is ever drawn: the share is a probability, and is computed. A weighted sum of exponentials has the
moment generating function prod 1 / (1 - s t), which is inverted along a line through its saddle point. So the
same differences give the same p, whatever clusters are called and in whatever order they come.

For yes/no values this is the exact binomial bound of Clopper and Pearson; for n equal gains g it is
(1 + g)^-n, the least that any valid test can say. Source: Gaffke (2005), "Three test statistics for a
nonparametric one-sided hypothesis on the mean of a nonnegative variable", Math. Methods of Statistics 14:451;
Learned-Miller and Thomas (2019), arXiv:1905.06208. That its level holds for all distributions is conjectured
there, not proven; benchmarks/verdict_levels.py tries it on hard ones.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri  # type: ignore[import-untyped,unused-ignore]

from assay.core.records import Interval
from assay.rollout.dataset.suite import WORST, Unseen
from assay.rollout.evaluation.clusters import Array, ClusterSums
from assay.verdict.statistics.intervals import interval

NEWTON = 15  # steps to the saddle points of many experiments at once
INVERTED, NODES = 33, np.linspace(0.0, 6.0, 61)
STEP = 0.125  # between nodes of the inversion: its error is about exp(-pi^2 / STEP)
_NODES, _LOST = 16, 1e-17  # at once, until they add no more than this share
_FINEST = 1e-10  # to which ends of intervals are rounded


def bounded_mean_test(
    sums: ClusterSums, *, unseen: Unseen = WORST, alpha: float = 0.05
) -> tuple[float, Interval]:
    """Return the two-sided p for "mean difference = 0" and the (1 - alpha) interval that belongs to it.

    Zero lies outside of the interval if and only if p <= alpha. Differences are shares in [-1, 1].
    Source: the module's.

    >>> ten = ClusterSums(tuple("abcdefghij"), np.full(10, 0.5), np.ones(10))
    >>> p, difference = bounded_mean_test(ten)
    >>> abs(p / (2 * 1.5**-10) - 1) < 1e-12, 0.0 < difference.low < 0.1
    (True, True)
    """
    better, worse = (_not_above(sign * sums.totals, sums.sizes, unseen, 0.0) for sign in (1, -1))
    low, high = (
        sign * _lower_end(sign * sums.totals, sums.sizes, unseen, alpha / 2, tail)
        for sign, tail in ((1, better), (-1, worse))
    )
    return min(1.0, 2 * min(better, worse)), interval(sums.mean, low, high, int(sums.sizes.sum()))


def _lost(sizes: Array, unseen: Unseen) -> float:
    """Return the total that the cluster that nobody saw may lose beside clusters of such sizes."""
    return max(unseen.size, float(sizes.max())) * unseen.loss


def _not_above(totals: Array, sizes: Array, unseen: Unseen, mean: float) -> float:
    """Return the one-sided p of "not above this mean"; it rises with the mean."""
    # Of an item that is as bad as can be, -1, the mean is 1 + mean away.
    terms = np.append(totals - mean * sizes, -_lost(sizes, unseen) * (1.0 + mean))
    return probability_below_zero(terms)


def _lower_end(totals: Array, sizes: Array, unseen: Unseen, level: float, at_zero: float) -> float:
    """Return the largest mean at which "not above it" is not more likely than the level; `at_zero` is how
    likely it is at 0, so that the end lies on the side of 0 that p says."""
    middle = math.fsum(totals) / math.fsum(sizes)
    wanted = float(ndtri(level))

    def beyond(mean: float) -> float:  # on the normal scale it is nearly a line
        return float(ndtri(max(_not_above(totals, sizes, unseen, mean), 1e-300))) - wanted

    if beyond(-1.0) >= 0.0:  # all is as bad as can be
        end = -1.0
    elif beyond(middle) <= 0.0:
        end = middle  # nothing deviates, and no unseen cluster may
    else:
        from scipy.optimize import brentq  # a quarter of a second that who only reads a claim need not wait

        error = float(np.sqrt(((totals - middle * sizes) ** 2).sum()) + _lost(sizes, unseen))
        low = middle + 1.5 * wanted * error / math.fsum(sizes)
        low = low if low > -1.0 and beyond(low) < 0.0 else -1.0
        end = float(brentq(beyond, low, middle, xtol=1e-12, rtol=1e-13))
    return max(end, _FINEST) if at_zero <= level else min(end, 0.0)


def probability_below_zero(terms: Array) -> float:
    """Return the probability that a sum of these terms, each times a standard exponential weight of its own,
    is 0 or less.

    Equal terms are taken together, in order of size: the result depends on the values alone. Relative
    precision is about 1e-12, however small it is. Source: Daniels (1987), "Tail probability approximations",
    Int. Statistical Review 55:37, eq. 2.2, on the line through the minimum of the integrand, with the
    substitution y = sinh(u) and the trapezoidal rule.

    >>> round(probability_below_zero(np.array([1.0, -3.0])), 12)
    0.75
    """
    values, found = np.unique(terms[terms != 0.0], return_counts=True)
    counts = found.astype(np.float64)
    if not len(values) or values[-1] < 0.0:
        return 1.0
    if values[0] > 0.0:
        return 0.0
    # On the side of the mean the other tail is the small one, and 1 less it is as precise.
    if float(values @ counts) > 0.0:
        return min(1.0, _tail(values, counts))
    return max(0.0, 1.0 - _tail(-values[::-1], counts[::-1]))


def _tail(values: Array, counts: Array) -> float:
    """Return the probability of a sum of 0 or less, of sorted values of both signs."""
    # The least of -sum c log(1 - s v) - log(-s) between the lowest pole and 0, where it is convex.
    low, high = 1.0 / float(values[0]), 0.0
    at = low / 2
    for _ in range(200):
        inverse = values / (1.0 - at * values)
        slope = float(counts @ inverse) - 1.0 / at
        curve = float(counts @ inverse**2) + 1.0 / at**2
        low, high = (at, high) if slope < 0 else (low, at)
        step = slope / curve
        if abs(step) < 1e-9 * abs(at) or high - low < 1e-9 * abs(at):
            break
        at = at - step if low < at - step < high else (low + high) / 2
    inverse = values / (1.0 - at * values)
    curve = float(counts @ inverse**2) + 1.0 / at**2
    scale = curve**-0.5
    # The path of steepest descent bends with the third derivative; a straight line would meet waves.
    bend = (float(counts @ inverse**3) - 1.0 / at**3) * 2 / (3 * curve) * scale**2
    share, start = 0.0, 0
    while True:
        u = STEP * np.arange(start, start + _NODES)
        off = bend * (np.cosh(u) - 1.0) + 1j * scale * np.sinh(u)
        along = bend * np.sinh(u) + 1j * scale * np.cosh(u)
        across, ahead = np.multiply.outer(off.imag, inverse), np.multiply.outer(off.real, inverse)
        turn = np.arctan2(across, 1.0 - ahead) @ counts
        fall = np.log1p(across**2 + ahead**2 - 2 * ahead) @ counts / 2
        heights = -(np.exp(1j * turn - fall) / (at + off) * along).imag
        heights[0] /= 2 if start == 0 else 1
        share += math.fsum(heights)
        start += _NODES
        if abs(heights[-1]) < _LOST * abs(share):
            break
    log = -float(counts @ np.log1p(-at * values)) + math.log(share * STEP / math.pi)
    return math.exp(log) if log > -745.0 else 0.0


def not_better(totals: Array, sizes: Array, *, unseen: Unseen = WORST) -> Array:
    """Return the one-sided p of "not better" of rows of totals, [experiments, clusters], for planning.

    `sizes` is [clusters], or [experiments, clusters]. Up to 32 clusters it is the inversion, beyond them the
    formula of Lugannani and Rice (1980), in the form of Barndorff-Nielsen (1990), to about two per cent where
    p is small.

    >>> float(not_better(np.full((1, 20), 0.2), np.ones(20))[0].round(4)), round(1.2**-20, 4)
    (0.0261, 0.0261)
    """
    most = np.maximum(unseen.size, np.broadcast_to(sizes, totals.shape).max(axis=1)) * unseen.loss
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
    # Towards the mean the formula is 0 / 0; plans do not need it there.
    p[above] = np.where(root < -0.5, ndtr(root + np.log(at * curved / root) / root), ndtr(root))
    return p


def clusters_needed(sizes: Array, *, unseen: Unseen = WORST, gain: float = 1.0, alpha: float = 0.05) -> int:
    """Return how many clusters of such sizes, [clusters], can show that each gains as much as `gain`.

    A gain of 1 (all was wrong, all is right) is the largest: fewer clusters than it needs show nothing at
    all. Source: Gaffke's p of equal gains is E exp(-g sum(w s) / lost), the product over clusters of
    1 / (1 + g s / lost), since the weights are exponential.

    >>> clusters_needed(np.ones(40)), clusters_needed(np.ones(40), gain=0.1)
    (6, 39)
    >>> clusters_needed(np.array([1.0] * 19 + [19.0]))
    45
    """
    told = float(np.log1p(gain * sizes / _lost(sizes, unseen)).mean())
    return math.ceil(math.log(2 / alpha) / told - 1e-9)


def smallest_certain_gain(sizes: Array, *, unseen: Unseen = WORST, alpha: float = 0.05) -> float | None:
    """Return the smallest gain, as a share, that clusters of these sizes can show at all: each gains just as
    much. None where not even a gain of 1 would be shown.

    >>> smallest_certain_gain(np.ones(10)), smallest_certain_gain(np.ones(5))
    (0.446126, None)
    """
    if clusters_needed(sizes, unseen=unseen, alpha=alpha) > len(sizes):
        return None
    lost, low, high = _lost(sizes, unseen), 0.0, 1.0
    for _ in range(40):
        gain = (low + high) / 2
        enough = float(np.log1p(gain * sizes / lost).sum()) >= math.log(2 / alpha)
        low, high = (low, gain) if enough else (gain, high)
    return round(high, 6)
