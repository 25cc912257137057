"""Uncertainty of a mean over training seeds and items at once: every run plays the same items against the
same base.

Two runs share their items and the base they are compared with, and two items of one run share its training.
So neither runs nor cells are independent: seeds are resampled whole, with all their items, and clusters of
items whole, with all their runs. rliable resamples the runs of each task on their own, which is right where
each (run, task) is a training of its own; here it would leave out nearly all of what differs between
trainings.

A matrix of scores is [runs, items]. Weights say how often a cell counts: 1 in the data, other numbers in a
resample. Source: Agarwal et al. (2021), Deep RL at the Edge of the Statistical Precipice, sections 4.1 to
4.3; what is taken from there agrees with the package rliable 1.2.0, which
tests/evaluation/test_aggregates.py checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr, stdtrit  # type: ignore[import-untyped,unused-ignore]

from assay.core.records import Interval
from assay.rollout.dataset.suite import WORST, Unseen
from assay.rollout.evaluation.clusters import Array, ClusterSums
from assay.verdict.statistics.bounded_mean import bounded_mean_test
from assay.verdict.statistics.intervals import interval
from assay.verdict.statistics.tests import EXACT_UP_TO, sign_flip


def weighted_mean(cells: Array, weights: Array | None = None) -> Array:
    """Return the mean of all cells, one number for each resample, [resamples]; [1] without weights.

    Args:
        cells: [runs, items].
        weights: [resamples, runs, items], not negative; without them every cell counts once.

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

    Arguments as for `weighted_mean`; [1, thresholds] without weights.

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


RESAMPLES = 2000
_CHUNK = 100
_PIPELINES = 4000  # simulated for a power: one standard error of 0.8 is 0.6 points
_PATTERNS = 1024


@dataclass(frozen=True, slots=True)
class CrossedMean:
    """A mean over runs and items with the uncertainty that comes from either; all in the unit of the
    cells."""

    mean: float
    error_of_seeds: float
    error_of_items: float
    standard_error: float
    df: float
    n_items: int

    def p(self, *, one_sided: bool) -> float:
        """Return the p of "the mean is 0", or, one-sided, of "the mean is not above 0"; 1 for a mean of 0
        without error."""
        if self.standard_error == 0.0:
            return 1.0 if self.mean == 0.0 else 0.0
        t = self.mean / self.standard_error
        return float(stdtr(self.df, -t) if one_sided else 2 * stdtr(self.df, -abs(t)))

    @property
    def interval(self) -> Interval:
        """The 95 % interval for other seeds and other items; ends are null where the cells do not vary."""
        half = (
            math.nan if self.standard_error == 0.0 else float(stdtrit(self.df, 0.975)) * self.standard_error
        )
        return interval(self.mean, self.mean - half, self.mean + half, self.n_items)


def crossed_mean(cells: Array, clusters: Sequence[str]) -> CrossedMean:
    """Return the mean of the cells, seeds and clusters both being samples.

    The variance is that over seeds plus that over clusters less that of single cells, which both hold, and
    never under the larger of the two; degrees of freedom by Satterthwaite's rule over the two. What all runs
    share, such as one measurement of the base, is part of the variance over clusters. Source: Cameron,
    Gelbach and Miller (2011), J. Business & Economic Statistics 29:238, eq. 2.12; Satterthwaite (1946),
    Biometrics Bulletin 2:110, eq. 17.

    Args:
        cells: One value for each run and item, [runs, items]; at least 2 runs.
        clusters: The cluster of each item; at least 2 different ones.

    >>> found = crossed_mean(np.array([[0.0, 1.0, 2.0], [2.0, 3.0, 4.0]]), ["a", "b", "c"])
    >>> found.mean, round(found.error_of_seeds, 3), round(found.error_of_items, 3)
    (2.0, 1.0, 0.577)
    """
    place = codes(clusters)
    n_runs, n_items = cells.shape
    n_clusters = int(place.max()) + 1
    sizes = np.bincount(place).astype(np.float64)
    totals = np.stack([np.bincount(place, weights=row) for row in cells])
    of_runs, mean = totals.sum(axis=1) / n_items, float(cells.mean())
    over_runs = totals.mean(axis=0) - mean * sizes
    rest = totals - totals.mean(axis=0) - (of_runs - mean)[:, None] * sizes
    seeds = float(((of_runs - mean) ** 2).sum()) / (n_runs * (n_runs - 1))
    items = n_clusters / (n_clusters - 1) * float((over_runs**2).sum()) / n_items**2
    single = n_clusters / ((n_runs - 1) * (n_clusters - 1) * n_runs) * float((rest**2).sum()) / n_items**2
    tiny = 1e-24 * max(1.0, float(np.abs(cells).max(initial=0.0)) ** 2)
    seeds, items = (0.0 if v < tiny else v for v in (seeds, items))
    variance = max(seeds + items - single, seeds, items)
    spread = seeds**2 / (n_runs - 1) + items**2 / (n_clusters - 1)
    df = variance**2 / spread if spread else math.inf
    return CrossedMean(mean, math.sqrt(seeds), math.sqrt(items), math.sqrt(variance), df, n_items)


def sign_flip_runs(gains: Array, rng: np.random.Generator, *, one_sided: bool, flips: int = 20_000) -> float:
    """Return the sign-flip p of the mean gain over runs, in (0, 1]; one-sided: is it above 0.

    Exact over all sign patterns up to 16 runs, else (b + 1) / (flips + 1) from seeded flips. It asks about
    other seeds on these very items, against this very measurement of the base: chance in what the runs share
    moves all of them alike, and no flip of single runs shows that. Alone it is therefore no evidence (see
    `crossed_mean`).

    >>> sign_flip_runs(np.array([0.1, 0.2, 0.3, 0.1, 0.2]), np.random.default_rng(0), one_sided=True)
    0.03125
    """
    n = len(gains)
    if n <= EXACT_UP_TO:
        signs = 1.0 - 2.0 * (np.arange(2**n)[:, None] >> np.arange(n)[None, :] & 1)
    else:
        signs = np.concatenate([np.ones((1, n)), rng.choice([-1.0, 1.0], size=(flips, n))])
    sums, observed, slack = signs @ gains, float(gains.sum()), 1e-12 * float(np.abs(gains).sum())
    beyond = sums >= observed - slack if one_sided else np.abs(sums) >= abs(observed) - slack
    return float(beyond.mean())


def items_test(
    cells: Array, clusters: Sequence[str], *, unseen: Unseen = WORST, bound: float = 1.0
) -> tuple[float, Interval]:
    """Return the two-sided p of "the mean is 0" over other clusters of items, whatever their distribution,
    and its 95 % interval: many seeds on one suite show a rare heavy loss no more than one does, and a t test
    takes what it has not seen for impossible.

    Args:
        cells: One value for each run and item, [runs, items], between -bound and bound.
        clusters: The cluster of each item.
        unseen: As of `bounded_mean_test`.
        bound: Of the cells.

    >>> gains = np.full((8, 20), 0.05)
    >>> round(items_test(gains, [str(k) for k in range(20)])[0], 4)
    0.7538
    """
    place = codes(clusters)
    totals = np.bincount(place, weights=cells.mean(axis=0)) / bound
    sums = ClusterSums(tuple(map(str, range(len(totals)))), totals, np.bincount(place).astype(np.float64))
    p, found = bounded_mean_test(sums, unseen=unseen)
    ends = (bound * (found.low or 0.0), bound * (found.high or 0.0))
    return p, interval(bound * sums.mean, *ends, found.n)


def on_one_side(p: float, mean: float) -> float:
    """Return the p of "not above 0" of a two-sided p and the mean it is of."""
    return p / 2 if mean > 0 else 1.0


def runs_interval(gains: Array, rng: np.random.Generator) -> Interval:
    """Return the 95 % interval of `sign_flip_runs`, two-sided; null ends where runs are too few or alike."""
    names = tuple(map(str, range(len(gains))))
    return sign_flip(ClusterSums(names, gains, np.ones(len(gains))), rng)[1]


def widest(*found: Interval) -> Interval:
    """Return the interval that holds all: of the largest of several p. One without ends holds nothing; the
    value and n are those of the first.

    >>> one, other = (Interval(value=0.5, low=low, high=0.9, n=3) for low in (0.1, 0.2))
    >>> widest(one, other).low
    0.1
    """
    ends = [(each.low, each.high) for each in found if each.low is not None and each.high is not None]
    low, high = (min(low for low, _ in ends), max(high for _, high in ends)) if ends else (None, None)
    return found[0].model_copy(update={"low": low, "high": high})


def fewest_runs(alpha: float, *, one_sided: bool) -> int:
    """Return the number of runs at which the sign-flip test over runs can reach the level at all.

    >>> fewest_runs(0.05, one_sided=True), fewest_runs(0.05, one_sided=False)
    (5, 6)
    """
    return math.ceil(-math.log2(alpha) - 1e-12) + (0 if one_sided else 1)


def detectable_effect(
    mean: CrossedMean,
    n_runs: int,
    n_clusters: int,
    alpha: float,
    rng: np.random.Generator,
    *,
    one_sided: bool,
    power: float = 0.8,
) -> float | None:
    """Return the true mean effect that both tests together find with this power; None without any error to go
    by.

    Simulated: noise of runs and of what they share is normal, with the errors found, which count as known. In
    each pipeline either test rejects from some effect on; the larger of the two is needed, and their quantile
    at `power` is returned. The formula for a t test alone promises too much under about ten runs, where few
    patterns of signs reach the level.

    >>> found = crossed_mean(np.array([[0.0, 1.0, 2.0], [2.0, 3.0, 4.0]]), ["a", "b", "c"])
    >>> detectable_effect(found, 2, 3, 0.05, np.random.default_rng(0), one_sided=True)
    inf
    """
    if mean.standard_error == 0.0:
        return None
    level = alpha if one_sided else alpha / 2
    seeds, items, total = mean.error_of_seeds**2, mean.error_of_items**2, mean.standard_error**2
    noise = rng.normal(0, math.sqrt(max(total - seeds, 0.0)), (_PIPELINES, 1))  # moves all runs alike
    noise = noise + rng.normal(0, math.sqrt(n_runs * seeds), (_PIPELINES, n_runs))
    means, of_seeds = noise.mean(axis=1), noise.var(axis=1, ddof=1) / n_runs
    of_items = items * rng.chisquare(n_clusters - 1, _PIPELINES) / (n_clusters - 1)
    variance = np.maximum(
        of_seeds + of_items - max(seeds + items - total, 0.0), np.maximum(of_seeds, of_items)
    )
    df = variance**2 / (of_seeds**2 / (n_runs - 1) + of_items**2 / (n_clusters - 1))
    by_t = -stdtrit(df, level) * np.sqrt(variance) - means
    # A pattern of signs is beyond the gains until the effect makes up for the mean of the runs that it flips.
    if 2**n_runs <= _PATTERNS:
        flipped = (np.arange(1, 2**n_runs)[:, None] >> np.arange(n_runs)[None, :] & 1).astype(np.float64)
    else:
        flipped = rng.integers(2, size=(_PATTERNS - 1, n_runs)).astype(np.float64)
        flipped = flipped[flipped.any(axis=1)]
    allowed = math.floor(level * (len(flipped) + 1) + 1e-9) - 1  # beside the gains as they are
    if allowed < 0:
        return math.inf
    needed = -(noise @ (flipped / flipped.sum(axis=1, keepdims=True)).T)
    by_flips = np.partition(needed, -1 - allowed, axis=1)[:, -1 - allowed]
    return float(np.quantile(np.maximum(by_t, by_flips), power))


def _drawn(n: int, rows: int, rng: np.random.Generator) -> Array:
    # How often each of n counts in a resample, [rows, n]: n - 1 are drawn and counted n / (n - 1) times,
    # which gives the variance of a mean without the factor (n - 1) / n that matters at five seeds. One alone
    # always counts once. Source: Rao and Wu (1988), JASA 83:231, section 2 (m = n - 1).
    if n == 1:
        return np.ones((rows, 1))
    drawn = rng.integers(n, size=(rows, n - 1)) + n * np.arange(rows)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
    return np.asarray(counts * (n / (n - 1)), np.float64)


def resampled(
    n_runs: int,
    clusters: Sequence[str],
    strata: Sequence[str],
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
) -> Iterator[tuple[Array, Array]]:
    """Yield resamples in parts: how often each run counts, [part, runs], and each item, [part, items].

    Runs are drawn whole. Clusters are drawn whole, within their stratum, because a suite holds its strata in
    fixed proportions; a cluster with items of several strata is of the stratum that names them all. A cell
    counts as often as its run times its item; whatever the runs share on an item is drawn with it.
    """
    place = codes(clusters)
    named: dict[int, set[str]] = {}
    for cluster, stratum in zip(place.tolist(), strata, strict=True):
        named.setdefault(cluster, set()).add(stratum)
    homes = codes(["\n".join(sorted(named[cluster])) for cluster in range(len(named))])
    groups = [np.flatnonzero(homes == home) for home in range(int(homes.max()) + 1)]
    for start in range(0, resamples, _CHUNK):
        rows = min(_CHUNK, resamples - start)
        counts = np.zeros((rows, len(named)))
        for group in groups:
            counts[:, group] = _drawn(len(group), rows, rng)
        yield _drawn(n_runs, rows, rng), counts[:, place]


def cell_weights(runs: Array, items: Array) -> Array:
    """Return how often each cell counts, [resamples, runs, items], from how often its run and its item do."""
    return np.asarray(runs[:, :, None] * items[:, None, :], np.float64)


def bootstrap(
    statistic: Callable[[Array], Array], draws: Sequence[tuple[Array, Array]] | Iterator[tuple[Array, Array]]
) -> Array:
    """Return a statistic of weights [part, runs, items] over all resamples, [resamples, ...]."""
    return np.concatenate([statistic(cell_weights(*part)) for part in draws])


def expanded_percentiles(values: Array, df: float) -> tuple[Array, Array]:
    """Return both ends of the 95 % interval from the resamples of a statistic along axis 0.

    Percentiles at the normal levels of the t quantile: at five seeds the usual 2.5 and 97.5 would be too
    narrow. Source: Hesterberg (2015), The American Statistician 69:371, section 5.3 (expanded percentile
    interval).

    >>> low, high = expanded_percentiles(np.arange(1001.0), math.inf)
    >>> round(float(low), 6), round(float(high), 6)
    (25.0, 975.0)
    """
    level = float(ndtr(-stdtrit(df, 0.975)))
    low, high = np.quantile(values, [level, 1 - level], axis=0)
    return np.asarray(low, np.float64), np.asarray(high, np.float64)
