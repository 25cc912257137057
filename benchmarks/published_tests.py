"""Published tests of "the mean over clusters is not above zero", beside the one that decides a verdict.

Each takes totals, [experiments, clusters], and what a cluster can lose or gain at most, and returns which
experiments are called better at the one-sided level. All but betting are approximations for many clusters;
betting holds its level at every number, and its answer depends on the order of the clusters.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from benchmarks.verdict_layouts import Array
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtri

from assay.core.seeds import rng as labelled_rng
from assay.verdict.statistics.intervals import resample_counts

LEVEL, RESAMPLES, HALVINGS, CAREFUL = 0.025, 1_000, 60, 0.75
Published = Callable[[Array, float], NDArray[np.bool_]]


def _standardised(totals: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of the clusters of each experiment; no spread is a tiny one."""
    return totals.mean(axis=1), np.maximum(totals.std(axis=1, ddof=1), 1e-12)


def by_t(totals: Array, most: float) -> NDArray[np.bool_]:
    """Student's t over clusters."""
    (mean, spread), n = _standardised(totals), totals.shape[1]
    return np.asarray(stats.t.sf(mean / spread * np.sqrt(n), n - 1) <= LEVEL)


def by_hall(totals: Array, most: float) -> NDArray[np.bool_]:
    """Hall (1992), "On the removal of skewness by transformation", JRSS B 54:221: a cubic of t whose skewness
    is taken out; Johnson's (1978) modified t is its first term."""
    (mean, spread), n = _standardised(totals), totals.shape[1]
    skew, t = ((totals - mean[:, None]) ** 3).mean(axis=1) / spread**3, mean / spread
    cubic = t + skew * t**2 / 3 + skew**2 * t**3 / 27 + skew / (6 * n)
    return np.asarray(np.sqrt(n) * cubic >= -ndtri(LEVEL))


def by_bootstrap_t(totals: Array, most: float) -> NDArray[np.bool_]:
    """The studentised bootstrap of clusters: Efron and Tibshirani (1993), section 12.5."""
    n = totals.shape[1]
    counts = resample_counts(n, labelled_rng("published tests", "bootstrap", n), RESAMPLES)
    moved = counts @ totals.T / n
    spread = np.sqrt(np.maximum(counts @ (totals**2).T / n - moved**2, 1e-24))
    mean, own = totals.mean(axis=1), np.maximum(totals.std(axis=1), 1e-12)
    return np.asarray(((moved - mean) / spread >= mean / own).mean(axis=0) <= LEVEL)


def by_empirical_likelihood(totals: Array, most: float) -> NDArray[np.bool_]:
    """Adjusted empirical likelihood: Chen, Variyath and Abraham (2008), J. Comp. Graph. Stat. 17:426; the
    signed root of its ratio against the normal distribution."""
    n, mean = totals.shape[1], totals.mean(axis=1)
    terms = np.column_stack([totals, -max(1.0, np.log(n) / 2) * mean])
    low, high = (
        -1.0 / end for end in (np.maximum(terms.max(axis=1), 1e-300), np.minimum(terms.min(axis=1), -1e-300))
    )
    for _ in range(HALVINGS):  # the multiplier: the sum falls in it
        middle = (low + high) / 2
        falls = (terms / (1.0 + middle[:, None] * terms)).sum(axis=1) > 0.0
        low, high = np.where(falls, middle, low), np.where(falls, high, middle)
    ratio = 2.0 * np.log1p(low[:, None] * terms).sum(axis=1)
    return np.asarray((mean > 0.0) & (np.sqrt(np.maximum(ratio, 0.0)) >= -ndtri(LEVEL)))


def by_betting(totals: Array, most: float) -> NDArray[np.bool_]:
    """Betting on one cluster after the other, each bet made of those before: Waudby-Smith and Ramdas (2023),
    "Estimating means of bounded random variables by betting", JRSS B 86:1, for a known number of clusters."""
    shares, n = totals / most, totals.shape[1]
    seen = np.arange(1, n + 1)
    mean = np.cumsum(shares, axis=1) / (seen + 1)
    spread = (1.0 + np.cumsum((shares - mean) ** 2, axis=1)) / (seen + 1)
    before = np.column_stack([np.full(len(shares), 1.0), spread[:, :-1]])
    bets = np.minimum(np.sqrt(2 * np.log(1 / LEVEL) / (n * before)), CAREFUL)
    capital = np.cumsum(np.log1p(bets * shares), axis=1)
    return np.asarray(capital.max(axis=1) >= np.log(1 / LEVEL))


PUBLISHED: dict[str, Published] = {
    "cluster t": by_t,
    "Hall's t": by_hall,
    "bootstrap t": by_bootstrap_t,
    "adjusted empirical likelihood": by_empirical_likelihood,
    "betting": by_betting,
}
