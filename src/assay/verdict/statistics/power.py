"""Before training: the smallest true gain that the held-out suite can show, planned from the base's own draws
alone.

The model. An item's difference is what its cluster truly gained plus the luck of the draws:
    after_i - before_i = gain_c + noise_i,
    Var(noise_i) = p_i (1 - p_i) / K + q_i (1 - q_i) / K,   q_i = p_i + gain_c.
Success of the base on item i has the rate p_i, whose noise the K draws tell without bias. True gains differ
between clusters with a standard deviation that nobody can know before training: it is an assumption, and said
as one; where the base is next to never right it cannot be large, or the mean gain would be. The noise of the
trained arm follows from the gain that is looked for. Power is that of the deciding test under this model.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import ndtri  # type: ignore[import-untyped,unused-ignore]

from assay.core.counting import counted
from assay.core.records import Episode, Record
from assay.core.seeds import rng as labelled_rng
from assay.rollout.dataset.suite import FEWEST_CLUSTERS, WORST, Unseen
from assay.rollout.evaluation.clusters import Array, ClusterSums
from assay.rollout.evaluation.measures import value_of
from assay.verdict.statistics.bounded_mean import not_better, smallest_certain_gain
from assay.verdict.statistics.intervals import grouped

POWER = 0.8
# Gains of small models under GRPO were seen to differ between items by 10 to 30 points; 20 is what is planned
# with.
ASSUMED_SPREAD_POINTS = 20.0
SPREADS_POINTS = (0.0, 10.0, 20.0, 30.0)
# Power to a point and a half, the gain to about two per cent of itself; all of a plan in three seconds.
EXPERIMENTS, TRIALS, BISECTIONS = 600, 6, 10
CURVE = (0.25, 0.5, 1.0, 2.0, 4.0)  # suites of so many times the clusters at hand
# Clusters of which there are many experiments, those of which there are few, and beyond which there are none.
SMALL, LARGE, MOST = 40, 1024, 2048


def plausible_spread(spread: float, rate: float, gain: float) -> float:
    """Return the sd of true gains between clusters that is planned with, as a share: what is asked, where the
    base's rate leaves room for it, and else half of the gain or rate x (1 - rate), which is larger.

    A base that is right in 3 % cannot lose 20 points anywhere: what is cut off at 0 would be a gain.

    >>> [round(plausible_spread(0.2, rate, 0.04), 4) for rate in (0.5, 0.1, 0.01)]
    [0.2, 0.09, 0.02]
    """
    return min(spread, max(gain / 2, rate * (1 - rate)))


class ReachAt(Record):
    """What a suite of more or fewer clusters like those at hand could show."""

    n_clusters: int = Field(ge=1)
    smallest_detectable_points: float | None


class PlannedPower(Record):
    """What the suite can show, from the base's draws alone; points are percentage points of the primary
    metric."""

    measure: str
    suite_digest: str
    policy_digest: str
    n_clusters: int = Field(ge=1)
    n_items: int = Field(ge=1)
    draws: int = Field(ge=1)
    base_rate: float = Field(ge=0, le=1)
    noise_points: float = Field(
        ge=0, description="sd of one item's rate over the luck of its draws, base arm"
    )
    alpha: float
    power: float
    assumed_spread_points: float = Field(
        description="sd of the true gains of clusters: an assumption, not a measurement"
    )
    smallest_detectable_points: float | None = Field(
        description="null: no gain that is possible would be found"
    )
    by_spread: dict[str, float | None] = Field(
        description="the same under other assumed spreads, keyed by points"
    )
    all_or_nothing: float | None = Field(
        default=None, description="the same where each cluster is either learned whole or not at all, points"
    )
    curve: tuple[ReachAt, ...] = Field(
        default=(), description="the same by number of clusters, under the assumed spread"
    )
    recommended_clusters: int | None = Field(
        default=None,
        description="clusters like these that show the smallest effect that matters; null: more than the"
        " curve has, or not asked",
    )


def planned_power(
    base: Sequence[Episode],
    suite_digest: str,
    draws: int,
    *,
    primary: str,
    alpha: float,
    unseen: Unseen = WORST,
    smallest_effect_points: float | None = None,
) -> PlannedPower:
    """Return the smallest true gain that is found with power 0.8 when the base's own draws are the arm
    before.

    `primary`, `alpha`, `unseen` and `smallest_effect_points` are those of a claim's
    plan. Items where the measure is undefined are left out, as the comparison will leave them out.
    """
    measure = f"{primary}_rate"
    values, clusters = defaultdict(list), {}
    for episode in base:
        found = value_of(episode, measure)
        if found is not None:
            values[episode.item_id].append(found)
            clusters[episode.item_id] = episode.cluster
    items = sorted(values)
    homes, index = np.unique([clusters[item] for item in items] or [""], return_inverse=True)
    index = index[: len(items)]
    rates = np.array([math.fsum(values[item]) / len(values[item]) for item in items])

    def reach(spread: float | None, n: int | None = None) -> float | None:
        by_item, homed = (rates, index) if n is None else suite_of(rates, index, n)
        share = None if spread is None else spread / 100
        gain = smallest_gain(by_item, homed, draws, spread=share, alpha=alpha, unseen=unseen)
        return None if gain is None else round(100 * gain, 4)

    reached = {spread: reach(spread) for spread in {*SPREADS_POINTS, ASSUMED_SPREAD_POINTS}}
    usual = reached[ASSUMED_SPREAD_POINTS]
    wanted = {round(times * len(homes)) for times in CURVE}
    sizes = sorted(n for n in wanted if FEWEST_CLUSTERS <= n <= max(len(homes), MOST))
    curve = tuple(
        ReachAt(
            n_clusters=n,
            smallest_detectable_points=usual if n == len(homes) else reach(ASSUMED_SPREAD_POINTS, n),
        )
        for n in (sizes if items else ())
    )
    noise = float(_noise(rates, draws)) if len(rates) else 0.0
    return PlannedPower(
        measure=measure,
        suite_digest=suite_digest,
        policy_digest=base[0].policy or "",
        n_clusters=len(homes),
        n_items=max(1, len(items)),
        draws=draws,
        base_rate=round(float(rates.mean()), 10) if len(rates) else 0.0,
        noise_points=round(100 * math.sqrt(noise / draws), 4),
        alpha=alpha,
        power=POWER,
        assumed_spread_points=round(
            100 * plausible_spread(ASSUMED_SPREAD_POINTS / 100, float(rates.mean()), (usual or 0.0) / 100), 4
        )
        if len(rates)
        else ASSUMED_SPREAD_POINTS,
        smallest_detectable_points=usual,
        by_spread={f"{spread:g}": reached[spread] for spread in SPREADS_POINTS},
        all_or_nothing=reach(None),
        curve=curve,
        recommended_clusters=None
        if smallest_effect_points is None
        else clusters_for(curve, smallest_effect_points, partial(reach, ASSUMED_SPREAD_POINTS)),
    )


def recommended_clusters(curve: Sequence[ReachAt], points: float) -> int | None:
    """Return the smallest number of clusters whose smallest detectable effect is at most so many points.

    Between two sizes of the curve it is read from a line on logarithmic scales; None beyond its last one.

    >>> curve = [
    ...     ReachAt(n_clusters=n, smallest_detectable_points=reach)
    ...     for n, reach in ((10, None), (100, 10.0), (400, 5.0))
    ... ]
    >>> recommended_clusters(curve, 10), recommended_clusters(curve, 7.0711), recommended_clusters(curve, 4.9)
    (100, 200, None)
    """
    fewer: ReachAt | None = None
    for at in curve:
        found = at.smallest_detectable_points
        if found is not None and found <= points:
            if fewer is None or fewer.smallest_detectable_points is None:
                return at.n_clusters
            above = math.log(fewer.smallest_detectable_points / points)
            share = above / math.log(fewer.smallest_detectable_points / found)
            steps = share * math.log(at.n_clusters / fewer.n_clusters)
            return math.ceil(fewer.n_clusters * math.exp(steps) - 1e-3)
        fewer = at
    return None


def clusters_for(curve: Sequence[ReachAt], points: float, reach: Callable[[int], float | None]) -> int | None:
    """Return the same where `reach`, the smallest detectable effect of so many clusters, is asked for fewer
    ones as well: the smallest size of the curve may be many times what is needed."""
    known = list(curve)
    while known and known[0].n_clusters > FEWEST_CLUSTERS:
        found = known[0].smallest_detectable_points
        if found is None or found > points:
            break
        fewer = known[0].n_clusters * min(0.5, 0.8 * (found / points) ** 2)  # it goes as 1 / sqrt(n)
        n = max(FEWEST_CLUSTERS, int(fewer))
        known.insert(0, ReachAt(n_clusters=n, smallest_detectable_points=reach(n)))
    return recommended_clusters(known, points)


def suite_of(rates: Array, clusters: NDArray[np.int64], n: int) -> tuple[Array, NDArray[np.int64]]:
    """Return rates and clusters of a suite of n clusters: some of those at hand, or all several times."""
    there = int(clusters.max()) + 1
    order = labelled_rng("planned suite", there).permutation(there)
    own = np.split(np.argsort(clusters, kind="stable"), np.cumsum(np.bincount(clusters))[:-1])
    members = [own[order[k % there]] for k in range(n)]
    return rates[np.concatenate(members)], np.repeat(np.arange(n), [len(each) for each in members])


def _noise(rates: Array, draws: int) -> float:
    """Return the mean of p (1 - p) over items, without bias from estimating p by the same draws; one draw:
    its bound."""
    if draws > 1:
        return float((rates * (1 - rates)).mean() * draws / (draws - 1))
    return float(rates.mean() * (1 - rates.mean()))


def smallest_gain(
    rates: Array,
    clusters: NDArray[np.int64],
    draws: int,
    *,
    spread: float | None,
    alpha: float = 0.05,
    power: float = POWER,
    unseen: Unseen = WORST,
    seen_draws: int | None = None,
) -> float | None:
    """Return the smallest true mean gain found with the power, as a share; None where clusters are too few
    or no gain that is possible would be found.

    `rates` are the base's rates by item and `clusters` the number of each item's cluster, both [items].
    `spread` is the standard deviation of true gains between clusters; None: a cluster learns all or nothing.
    `seen_draws` are those that the rates come from, where not `draws`; 0: the rates are the true ones.
    Both arms of each experiment are drawn from the model, to the last yes and no, and meet the deciding test.
    """
    n, mean = int(clusters.max(initial=-1)) + 1, float(rates.mean()) if len(rates) else 1.0
    if n < FEWEST_CLUSTERS or mean >= 1.0:
        return None
    seen = draws if seen_draws is None else seen_draws
    true, sizes = (
        _without_luck(rates, seen) if seen else rates,
        np.bincount(clusters, minlength=n).astype(np.float64),
    )
    floor = smallest_certain_gain(sizes, unseen=unseen, alpha=alpha)
    if floor is None:
        return None
    shape = (4 * EXPERIMENTS if n <= SMALL else EXPERIMENTS if n < LARGE else EXPERIMENTS // 2, n)

    def tried(asked: float) -> tuple[float, float]:
        luck = labelled_rng("planned power", n)
        if spread is None:
            learned = luck.random(shape) < asked
            after = np.where(learned[:, clusters], 1.0, true)
        else:
            gains = asked + plausible_spread(spread, mean, asked) * luck.normal(size=shape)
            after = np.clip(true + gains[:, clusters], 0.0, 1.0)
        differences = (luck.binomial(draws, after) - luck.binomial(draws, true, size=after.shape)) / draws
        totals = np.stack([np.bincount(clusters, row, minlength=n).astype(np.float64) for row in differences])
        return float((after - true).mean()), _power(totals, sizes, alpha, unseen)

    between = 0.3 if spread is None else plausible_spread(spread, mean, 0.0)
    noise = 2 * _noise(rates, seen or 1) / draws / len(rates) + between**2 / n
    return _first_with(tried, min(0.9, floor + 2.8 * math.sqrt(noise)), power)


def _first_with(tried: Callable[[float], tuple[float, float]], start: float, power: float) -> float | None:
    """Return the smallest gain with the power, or None; `tried` gives true gain and power of what is asked.

    What is asked goes from 0 to 1; on the normal scale power is nearly a line.
    """
    low: tuple[float, float, float] = (0.0, 0.0, -2.0)  # asked, true gain, normal quantile of the power
    high: tuple[float, float, float] | None = None
    wanted, asked = float(ndtri(power)), start
    for _ in range(TRIALS):
        gain, found = tried(asked)
        at = (asked, gain, float(ndtri(min(max(found, 1e-3), 1 - 1e-3))))
        if found >= power:
            high = at
        else:
            low = at
        if abs(found - power) < 0.01:
            return gain
        if high is None and low[0] >= 1.0:
            return None
        # A line between what is enough and what is not; where neither is known, a step towards it.
        share = 0.5 if high is None else (wanted - low[2]) / max(high[2] - low[2], 1e-9)
        top = 1.0 if high is None else high[0]
        asked = (
            min(1.0, 1.6 * low[0]) if high is None else low[0] + min(max(share, 0.05), 0.95) * (top - low[0])
        )
    return None if high is None else high[1]


def _without_luck(rates: Array, draws: int) -> Array:
    """Return rates that differ between items as much as the true ones do: what the luck of the draws adds is
    taken away around their mean."""
    mean, seen = float(rates.mean()), float(rates.var())
    real = max(0.0, seen - _noise(rates, draws) / draws)
    return np.clip(mean + math.sqrt(real / seen if seen else 0.0) * (rates - mean), 0.0, 1.0)


def _power(totals: Array, sizes: Array, alpha: float, unseen: Unseen) -> float:
    """Return the share of experiments, [experiments, clusters], that the deciding test finds better."""
    return float(np.mean(not_better(totals, sizes, unseen=unseen) <= alpha / 2))


def detectable_effect(
    sums: ClusterSums, *, alpha: float = 0.05, power: float = POWER, unseen: Unseen = WORST
) -> float | None:
    """Return the true mean difference found with the given power when clusters differ as those seen do.

    Experiments are resamples of the clusters, moved to a common mean. None under two clusters, or where no
    difference up to 1 would be found.
    """
    sums = grouped(sums, labelled_rng("groups", len(sums.names)))
    n = len(sums.names)
    if n < 2:
        return None
    drawn = labelled_rng("detectable", n).integers(n, size=(EXPERIMENTS, n))
    residuals, sizes = sums.residuals[drawn], sums.sizes[drawn]
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        gain = (low + high) / 2
        enough = _power(residuals + gain * sizes, sizes, alpha, unseen) >= power
        low, high = (low, gain) if enough else (gain, high)
    return high if high < 1.0 else None


def planned_said(plan: PlannedPower, smallest_effect_points: float, cluster_name: str) -> tuple[str, bool]:
    """Return what the suite can show as one sentence, and whether that is enough for the smallest effect that
    matters."""
    from_what = (
        f"{counted(plan.n_clusters, cluster_name)}, {counted(plan.n_items, 'items')}, K = {plan.draws}, "
        f"base {100 * plan.base_rate:.1f} %, "
        f"true gains assumed to differ by {plan.assumed_spread_points:g} points (sd) between {cluster_name}"
    )
    found = plan.smallest_detectable_points
    if found is None:
        return f"no true gain that is possible would be found with power {plan.power:g} ({from_what})", False
    enough = found <= smallest_effect_points
    verb = "is within" if enough else "EXCEEDS"
    n = None if enough else recommended_clusters(plan.curve, smallest_effect_points)
    more = "" if n is None else f"; {counted(n, cluster_name)} like these would show that"
    return (
        (
            f"smallest detectable effect {found:.1f} points with power {plan.power:g} ({from_what}); it"
            f" {verb} the smallest effect that matters, {smallest_effect_points:g} points{more}"
        ),
        enough,
    )
