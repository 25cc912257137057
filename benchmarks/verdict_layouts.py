"""Layouts of clusters that are hard for a test: nothing changes in them, the mean is 0.

`benchmarks/verdict_levels.py` draws them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Drawn = tuple[Array, Array]  # totals and sizes of clusters, both [replications, clusters]
Layout = Callable[[np.random.Generator, int], Drawn]


def alike(
    n: int, values: Callable[[np.random.Generator, tuple[int, int]], Array], size: float = 1.0
) -> Layout:
    """Return a layout of n clusters of one size, whose mean differences are drawn by `values`."""

    def draw(rng: np.random.Generator, replications: int) -> Drawn:
        shape = (replications, n)
        return values(rng, shape) * size, np.full(shape, size)

    return draw


def rates(
    before: Callable[..., Array], after: Callable[..., Array], draws: int, items: int
) -> Callable[..., Array]:
    """Return the mean difference of clusters whose items succeed with a rate before and one after."""

    def values(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        wide = (*shape, items)
        p = before(rng, wide)
        q = after(rng, p)
        gained = np.asarray(rng.binomial(draws, q) - rng.binomial(draws, p), np.float64)
        return np.asarray(gained.mean(axis=2) / draws)

    return values


def two_points(share: float, low: float) -> Callable[..., Array]:
    """Return values of mean 0: a share of clusters at `low`, all others a little above 0."""
    high = -low * share / (1 - share)
    return lambda rng, shape: np.where(rng.random(shape) < share, low, high)


def tied(share: float, large: float, n: int, loss: float = -0.5) -> Layout:
    """Return a layout of mean 0 in which a share of clusters is large and loses what the small ones gain."""
    gain = -loss * large * share / (1 - share)
    scale = max(1.0, abs(gain))  # no item can gain more than 1

    def draw(rng: np.random.Generator, replications: int) -> Drawn:
        big = rng.random((replications, n)) < share
        sizes = np.where(big, large, 1.0)
        means = np.where(big, loss, gain) / scale
        return means * sizes, sizes

    return draw


def uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.random(shape)


def same(_: np.random.Generator, p: Array) -> Array:
    return p


def shuffled(rng: np.random.Generator, p: Array) -> Array:
    return rng.permuted(p, axis=1)


def fixed(rate: float) -> Callable[..., Array]:
    return lambda rng, shape: np.full(shape, rate)


def certain(share: float) -> Callable[..., Array]:
    return lambda rng, shape: np.where(rng.random(shape) < share, 1.0, 0.0)


def noisy(share: float) -> Callable[..., Array]:
    """Return rates after, of the same mean, for a base that is always right or always wrong."""
    return lambda rng, p: np.where(p > 0, 1 - 0.4, 0.4 * share / (1 - share))


def families(n: int, items: int) -> Layout:
    """Return a layout of n clusters in which all items of a family move together."""

    def draw(rng: np.random.Generator, replications: int) -> Drawn:
        moved = rng.choice([-0.5, -0.1, 0.1, 0.5], size=(replications, n, 1))
        noise = rng.normal(0, 0.3, size=(replications, n, items))
        return np.clip(moved + noise, -1, 1).sum(axis=2), np.full((replications, n), float(items))

    return draw


def breaking(n: int, share: float, loss: float, items: int, draws: int) -> Layout:
    """Return a layout of n clusters, a share of which loses so much while all others gain a little: items
    that are right in 70 % before, and the luck of their draws."""
    gain = loss * share / (1 - share)

    def draw(rng: np.random.Generator, replications: int) -> Drawn:
        shape = (replications, n, items)
        broken = rng.random((replications, n, 1)) < share
        after = rng.binomial(draws, np.where(broken, 0.7 - loss, 0.7 + gain), shape)
        gaps = (after - rng.binomial(draws, 0.7, shape)) / draws
        return gaps.sum(axis=2), np.full((replications, n), float(items))

    return draw


def one_outweighs(n: int) -> Layout:
    """Return a layout of n - 1 clusters of one item and one of as many as all of them together."""

    def draw(rng: np.random.Generator, replications: int) -> Drawn:
        sizes = np.ones((replications, n))
        sizes[:, 0] = n - 1
        return rng.choice([-0.3, 0.3], size=(replications, n)) * sizes, sizes

    return draw


LAYOUTS: dict[str, Layout] = {
    **{
        f"rare heavy losers, 5 %, {n} clusters": alike(n, two_points(0.05, -0.95))
        for n in (8, 20, 40, 64, 256)
    },
    **{f"rare total losers, 1 %, {n} clusters": alike(n, two_points(0.01, -1.0)) for n in (40, 128, 512)},
    **{f"rare heavy winners, 5 %, {n} clusters": alike(n, two_points(0.05, 0.95)) for n in (20, 128)},
    **{f"size tied to effect, 10 % of 9, {n} clusters": tied(0.1, 9.0, n) for n in (8, 20, 40, 128, 256)},
    "size tied to effect, 2 % of 30, 100 clusters": tied(0.02, 30.0, 100),
    **{
        f"deterministic base, noisy arm, {n} clusters": alike(n, rates(certain(0.2), noisy(0.2), 4, 1))
        for n in (8, 12, 40, 200)
    },
    "base never right, arm never right, 40 clusters": alike(40, rates(fixed(0.0), same, 2, 4)),
    "base rarely right, the same arm, 40 clusters": alike(40, rates(fixed(0.02), same, 2, 4)),
    **{
        f"any base, the same arm, {n} clusters": alike(n, rates(uniform, same, 4, 1))
        for n in (8, 10, 16, 40, 256)
    },
    "any base, an arm that knows other items, 60 clusters": alike(60, rates(uniform, shuffled, 2, 1)),
    "one draw, yes or no, 30 clusters": alike(30, rates(fixed(0.5), same, 1, 1)),
    "nine in ten tie, 40 clusters": alike(
        40, lambda rng, shape: rng.choice([-1.0, 0.0, 1.0], size=shape, p=[0.05, 0.9, 0.05])
    ),
    "families of ten move together, 12 clusters": families(12, 10),
    "families of four move together, 60 clusters": families(60, 4),
    "one cluster outweighs the rest, 20 clusters": one_outweighs(20),
    "one cluster outweighs the rest, 200 clusters": one_outweighs(200),
    **{
        f"5 % of clusters break by {loss} points, {n} of 4 items, {draws} draws": breaking(
            n, 0.05, loss / 100, 4, draws
        )
        for n, loss, draws in ((40, 20, 4), (120, 20, 4), (40, 50, 1), (40, 60, 4), (120, 60, 4))
    },
    "skewed: many small gains, losses of any size, 40 clusters": alike(
        40, lambda rng, shape: 0.1 - np.minimum(1.1, rng.gamma(0.25, 0.4, size=shape)) + 0.00085
    ),
}


# Items times draws of a usual cluster, where it is not its size: what the plan chooses worst_cluster by.
DRAWS = {name: 4.0 for name in LAYOUTS if name.startswith(("deterministic base", "any base, the same arm"))}
DRAWS |= {name: 8.0 for name in LAYOUTS if name.startswith(("base never right", "base rarely right"))}
DRAWS |= {name: 2.0 for name in LAYOUTS if "knows other items" in name}
DRAWS |= {name: 16.0 for name in LAYOUTS if "4 items, 4 draws" in name}

# The largest cluster of all data, where it is larger than what a draw may show.
LARGEST = {name: 9.0 for name in LAYOUTS if "10 % of 9" in name}
LARGEST |= {name: 30.0 for name in LAYOUTS if "2 % of 30" in name}


def sized(n: int, values: Callable[..., Array], sizes: Callable[..., Array]) -> Layout:
    """Return a layout of n clusters whose sizes are drawn beside the mean differences of their items."""

    def draw(rng: np.random.Generator, replications: int) -> Drawn:
        shape = (replications, n)
        chosen = sizes(rng, shape)
        return values(rng, shape, chosen) * chosen, chosen

    return draw


MEANS: dict[str, Layout] = {
    **{f"normal, {n} clusters": alike(n, lambda rng, shape: rng.normal(size=shape)) for n in (8, 30, 40)},
    **{
        f"heavy tails, {n} clusters": alike(n, lambda rng, shape: rng.standard_t(3, shape))
        for n in (8, 30, 40)
    },
    **{
        f"skewed: rare large losses, {n} clusters": alike(
            n, lambda rng, shape: 0.25 - rng.gamma(0.25, 1, shape)
        )
        for n in (8, 20, 30, 40, 128, 512)
    },
    **{
        f"skewed: exponential losses, {n} clusters": alike(
            n, lambda rng, shape: 1 - rng.exponential(size=shape)
        )
        for n in (8, 20, 30, 40, 128, 512)
    },
    **{
        f"size tied to effect, 20 % of 5, {n} clusters": sized(
            n,
            lambda rng, shape, sizes: np.where(sizes > 1, -0.4, 0.5) + 0.3 * rng.normal(size=shape),
            lambda rng, shape: np.where(rng.random(shape) < 0.2, 5.0, 1.0),
        )
        for n in (12, 30, 40, 512)
    },
    "nine in ten tie, 30 clusters": alike(
        30, lambda rng, shape: rng.choice([-1.0, 0.0, 1.0], size=shape, p=[0.05, 0.9, 0.05])
    ),
    "sizes from 1 to 7, 40 clusters": sized(
        40,
        lambda rng, shape, sizes: rng.normal(size=shape),
        lambda rng, shape: rng.integers(1, 8, shape).astype(float),
    ),
}

# What no interval of a mean without bounds covers, with however many clusters: why there is no p of one.
BEYOND: dict[str, Layout] = {
    **{f"rare heavy losers, 5 %, {n} clusters": alike(n, two_points(0.05, -0.95)) for n in (10, 30, 64)},
    **{f"rare total losers, 1 %, {n} clusters": alike(n, two_points(0.01, -1.0)) for n in (128, 512)},
}

# Beyond these a mean of MEANS lies in less than one of ten thousand clusters, so that cutting it off moves
# the mean by less than a thousandth of its spread: with them it is a reward whose bounds are known.
CUT = {"normal": 5.0, "heavy": 40.0, "skewed": 10.0, "size": 2.5, "nine": 1.0, "sizes": 5.0}


def within(layout: Layout, cut: float) -> Layout:
    """Return the layout of a reward: its values are cut off, and are shares of what two rewards can differ
    by."""

    def draw(rng: np.random.Generator, replications: int) -> Drawn:
        totals, sizes = layout(rng, replications)
        return np.clip(totals / sizes, -cut, cut) / cut * sizes, sizes

    return draw


LAYOUTS |= {
    f"reward within bounds, {name}": within(layout, CUT[name.split()[0].strip(",:")])
    for name, layout in MEANS.items()
}
LARGEST |= {name: 5.0 for name in LAYOUTS if "20 % of 5" in name}
