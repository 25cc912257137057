"""Is a difference more than luck: sign flips over clusters, and Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from assay.core.records import Interval
from assay.rollout.evaluation.clusters import Array, ClusterSums
from assay.verdict.statistics.intervals import grouped, interval, resample_counts, studentised_test

EXACT_UP_TO = 16
FEWEST_OPEN = 30  # clusters from which `open_mean_interval` covers
_CHUNK = 1024


def _patterns(n: int, rng: np.random.Generator, flips: int) -> Iterator[Array]:
    # Which clusters' signs are flipped, 0 or 1, in blocks of [flips, clusters]; together with the identity.
    # Exact: one cluster keeps its sign, because flipping all of them changes neither |sum| nor the interval.
    if n <= EXACT_UP_TO:
        yield (np.arange(2 ** max(0, n - 1))[:, None] >> np.arange(n)[None, :] & 1).astype(np.float64)
        return
    yield np.zeros((1, n))
    for packed in _packed(n, rng, flips):
        yield np.unpackbits(packed, axis=1)[:, :n].astype(np.float64)


def _packed(n: int, rng: np.random.Generator, flips: int) -> Iterator[NDArray[np.uint8]]:
    # Seeded choices among n clusters, eight of them a byte, in blocks of [flips, bytes].
    for start in range(0, flips, _CHUNK):
        yield rng.integers(0, 256, size=(min(_CHUNK, flips - start), (n + 7) // 8), dtype=np.uint8)


def _flipped(totals: Array, sizes: Array, rng: np.random.Generator, flips: int) -> Array:
    # Sums over the clusters whose sign is flipped, [flips (+ the identity), (total, size)].
    both, n = np.stack([totals, sizes], axis=1), len(totals)
    if n <= EXACT_UP_TO:
        return np.concatenate([block @ both for block in _patterns(n, rng, flips)])
    # What each byte of choices adds is looked up: a few additions a flip, in the same order on every machine.
    padded = np.zeros((-(-n // 8) * 8, 2))
    padded[:n] = both
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64)
    tables = [bits @ eight for eight in padded.reshape(-1, 8, 2)]
    sums = [np.zeros((1, 2))]
    for packed in _packed(n, rng, flips):
        sums.append(
            sum((table[packed[:, k]] for k, table in enumerate(tables)), start=np.zeros((len(packed), 2)))
        )
    return np.concatenate(sums)


def sign_flip(
    sums: ClusterSums, rng: np.random.Generator, flips: int = 20_000, alpha: float = 0.05
) -> tuple[float, Interval]:
    """Return the two-sided p for "mean difference = 0" and the (1 - alpha) interval from the very same flips.

    p is exact over all sign patterns up to 16 clusters; beyond that (b + 1) / (flips + 1) from seeded flips.

    The interval holds every shift d for which the test on total - d x size has p > alpha. A flip does not
    contradict d exactly when d lies between the mean over its flipped clusters and the mean over the others,
    so the ends are order statistics of those means and no search is needed; zero lies outside if and only if
    p <= alpha. Ends are null where alpha cannot be reached (under 6 clusters at 0.05) and where all clusters
    differ by the same amount. Source: Canay, Romano, Shaikh (2017), Econometrica 85:1013, section 2; Phipson
    and Smyth (2010), eq. 2.

    >>> sums = ClusterSums(tuple("abcdef"), np.arange(1.0, 7), np.ones(6))
    >>> p, difference = sign_flip(sums, np.random.default_rng(0))
    >>> p, difference.value, difference.low
    (0.03125, 3.5, 1.0)
    """
    flipped = _flipped(sums.totals, sums.sizes, rng, flips)
    observed, slack = float(sums.totals.sum()), 1e-12 * float(np.abs(sums.totals).sum())
    p = float(np.mean(np.abs(observed - 2 * flipped[:, 0]) >= abs(observed) - slack))
    n = int(sums.sizes.sum())
    if not sums.has_spread:
        return p, interval(sums.mean, math.nan, math.nan, n)
    rest = np.array([sums.totals.sum(), sums.sizes.sum()]) - flipped
    split = (flipped[:, 1] > 0) & (rest[:, 1] > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.stack([flipped[:, 0] / flipped[:, 1], rest[:, 0] / rest[:, 1]])
    lows = np.where(split, means.min(axis=0), -np.inf)
    highs = np.where(split, means.max(axis=0), np.inf)
    k = math.floor(alpha * len(flipped) + 1e-9)
    return p, interval(sums.mean, float(np.partition(lows, k)[k]), float(-np.partition(-highs, k)[k]), n)


def open_mean_interval(sums: ClusterSums, rng: np.random.Generator) -> Interval:
    """Return the 95 % interval of a mean that has no known bound: that of two tests, which holds both of
    theirs.

    Sign flips are exact for symmetric differences, and the studentised cluster bootstrap is right for skewed
    ones sooner. There is no p: what no bound excludes, and is too rare to have been seen, can turn any mean
    around, so that no test without bounds holds its level, with however many clusters. From FEWEST_OPEN on
    the interval covers skewed and heavy-tailed means and sizes tied to effects (benchmarks/verdict_levels.py,
    `means`). Source: Bahadur and Savage (1956), Annals of Mathematical Statistics 27:1115; Berger (1982),
    Technometrics 24:295 (intersection of tests).
    """
    sums = grouped(sums, rng)
    flips = sign_flip(sums, rng)[1]
    boot = studentised_test(sums, resample_counts(len(sums.names), rng))[1]
    if flips.low is None or flips.high is None or boot.low is None or boot.high is None:
        return flips
    return interval(sums.mean, min(flips.low, boot.low), max(flips.high, boot.high), flips.n)


def sign_flip_tests(cluster_totals: Array, rng: np.random.Generator, flips: int = 20_000) -> Array:
    """Return the p of `sign_flip` for each row of totals, [experiments, clusters]; all meet the same flips.

    For simulations: a thousand experiments cost little more than one.

    >>> sign_flip_tests(np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]), np.random.default_rng(0)).tolist()
    [0.03125]
    """
    totals = np.asarray(cluster_totals, np.float64)
    observed, slack = totals.sum(axis=1), 1e-12 * np.abs(totals).sum(axis=1)
    found, n = np.zeros(len(totals)), 0
    for block in _patterns(totals.shape[1], rng, flips):
        found += (np.abs(observed - 2 * (block @ totals.T)) >= np.abs(observed) - slack).sum(axis=0)
        n += len(block)
    return np.asarray(found / n, np.float64)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return p-values adjusted for testing all of them, same keys, in [0, 1].

    Source: Holm (1979), Scandinavian Journal of Statistics 6:65, section 3.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    adjusted, worst = {}, 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda key: (p_values[key], key))):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[name]))
        adjusted[name] = worst
    return {name: adjusted[name] for name in p_values}
