"""Noise that is looked up rather than drawn in sequence: equal keys give equal numbers, whatever else was
played."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, pdtr

from assay.core.seeds import keyed_uniform

from .physics import N_BINS, NAMES, Floats

NoiseKind = Literal["take_data", "calibrate", "angles"]
_CODES: dict[NoiseKind, int] = {"take_data": 1, "calibrate": 2, "angles": 3}
# Below this mean a Poisson count is found by summing the distribution, above it by an asymptotic series.
SERIES_MEAN = 10.0
# The sum stops here at the latest: for a mean of 10, less than 1e-17 of the distribution lies beyond.
_LAST_COUNT = 60
_BELOW_ONE = 1.0 - 2.0**-53
# Up to this many entries are summed one by one: cheaper than arrays of entries still open, and the same
# numbers.
_FEW = 128


def uniforms(
    world_seeds: ArrayLike, kind: NoiseKind, channel: ArrayLike, visits: ArrayLike, n: int
) -> Floats:
    """Return n uniforms in (0, 1) for each (world seed, channel, visit): [worlds, n]; a channel is a place in
    CHANNELS.

    >>> uniforms([1, 2], "angles", 0, 0, 3)[1].tolist() == uniforms([2], "angles", 0, 0, 3)[0].tolist()
    True
    """
    keys = np.asarray(world_seeds, np.uint64)[:, None]
    code = np.uint64(_CODES[kind] << 40) + (np.asarray(channel, np.uint64) << np.uint64(32))
    first = code + (np.asarray(visits, np.uint64) << np.uint64(16))
    counters = np.asarray(first[..., None] + np.arange(n, dtype=np.uint64), np.uint64)
    return np.minimum(keyed_uniform(keys, counters) + 2.0**-54, _BELOW_ONE)


def normals(world_seeds: ArrayLike, kind: NoiseKind, channel: int, visits: ArrayLike, n: int) -> Floats:
    """Return n standard normal numbers for each (world seed, visit): [worlds, n].

    >>> normals([1], "calibrate", 0, 0, 2).shape
    (1, 2)
    """
    return np.asarray(ndtri(uniforms(world_seeds, kind, channel, visits, n)))


def poisson_counts(uniform: Floats, mean: Floats) -> Floats:
    """Return the Poisson counts whose cumulative probability first exceeds each uniform; exact inversion, any
    shape.

    >>> poisson_counts(np.array([0.1, 0.5, 0.5, 0.999]), np.array([0.01, 3.0, 100.0, 100.0])).tolist()
    [0.0, 3.0, 100.0, 132.0]
    """
    counts = np.empty(uniform.shape)
    large = mean >= SERIES_MEAN
    if large.all():
        return _by_series(uniform, mean)
    if large.any():
        counts[large] = _by_series(uniform[large], mean[large])
        counts[~large] = _by_sum(uniform[~large], mean[~large])
        return counts
    return _by_sum(uniform.ravel(), mean.ravel()).reshape(uniform.shape)


def _by_sum(uniform: Floats, mean: Floats) -> Floats:
    """Add up probabilities until they pass the uniform; settled entries leave the arrays."""
    if uniform.size <= _FEW:
        return _one_by_one(uniform, mean)
    counts = np.zeros(uniform.shape)
    places: NDArray[np.int64] | None = None
    term = np.exp(-mean)
    total = term.copy()
    for count in range(1, _LAST_COUNT):
        open_ = total <= uniform
        left = int(np.count_nonzero(open_))
        if not left:
            break
        if places is None and left == uniform.size:
            counts += open_
        else:
            places = np.flatnonzero(open_) if places is None else places[open_]
            uniform, mean, term, total = uniform[open_], mean[open_], term[open_], total[open_]
            counts[places] = count
        term = term * (mean / count)
        total = total + term
    return counts


def _one_by_one(uniform: Floats, mean: Floats) -> Floats:
    counts = []
    for u, m, term in zip(uniform.tolist(), mean.tolist(), np.exp(-mean).tolist(), strict=True):
        count, total = 0, term
        while total <= u and count < _LAST_COUNT - 1:
            count += 1
            term *= m / count
            total += term
        counts.append(count)
    return np.array(counts, np.float64)


def _by_series(uniform: Floats, mean: Floats) -> Floats:
    """Invert by an asymptotic series; where its error could change the floor, ask the exact distribution.

    Source: Giles (2016), "Algorithm 955: approximation of the inverse Poisson cumulative distribution
    function", ACM TOMS 42(1):7, eqs. for Q_N2 and its error bound.
    """
    w = ndtri(uniform)
    root, square = np.sqrt(mean), w * w
    place = mean + root * w + (1.0 / 3.0 + square / 6.0) - w * (1.0 / 36.0 + square / 72.0) / root
    margin = (0.025 + square * (0.0125 + square * 0.00625)) / mean
    counts = np.floor(place)
    fraction = place - counts
    unsure = (fraction < margin) | (fraction > 1.0 - margin)
    if unsure.any():
        counts[unsure] = _exact(uniform[unsure], mean[unsure], counts[unsure])
    return np.asarray(counts)


def _exact(uniform: Floats, mean: Floats, counts: Floats) -> Floats:
    """Walk from a guess to the count with F(count - 1) <= uniform < F(count)."""
    counts = np.maximum(counts, 0.0)
    while (low := pdtr(counts, mean) <= uniform).any():
        counts = counts + low
    while (high := (counts > 0.0) & (pdtr(np.maximum(counts - 1.0, 0.0), mean) > uniform)).any():
        counts = counts - high
    return counts


def poisson(world_seeds: ArrayLike, channel: int, visits: ArrayLike, mean: Floats) -> Floats:
    """Return the counts of one data-take for each world: [worlds, bins]."""
    return poisson_counts(uniforms(world_seeds, "take_data", channel, visits, mean.shape[-1]), mean)


def one_take(world_seed: int, channel: int, visit: int, mean: Floats) -> Floats:
    """Return the counts of one data-take in one world: [bins], as `poisson` gives them."""
    return poisson_counts(_of_visit(world_seed, visit)[channel], mean)


@lru_cache(maxsize=1024)
def _of_visit(world_seed: int, visit: int) -> Floats:
    """Return the uniforms of a visit to any channel, [channels, bins]: six rows cost little more than one."""
    found = uniforms([world_seed] * len(NAMES), "take_data", range(len(NAMES)), visit, N_BINS)
    found.setflags(write=False)
    return found
