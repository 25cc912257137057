"""Before training: the smallest true gain that the held-out suite can show, planned from the base's own draws
alone.

The model. An item's difference is what its cluster truly gained plus the luck of the draws:
    after_i - before_i = gain_c + noise_i,
    Var(noise_i) = p_i (1 - p_i) / K + q_i (1 - q_i) / K,   q_i = p_i + gain_c.
Success of the base on item i has the rate p_i, whose noise the K draws tell without bias. True gains differ
between clusters with a standard deviation that nobody can know before training: it is an assumption, and said
as one. The noise of the trained arm follows from the gain that is looked for. Power is that of the deciding
test under this model.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from assay.core.counting import counted
from assay.core.records import Episode, Record
from assay.core.seeds import rng as labelled_rng
from assay.dataset.suite import FEWEST_CLUSTERS
from assay.evaluation.clusters import Array, ClusterSums
from assay.evaluation.measures import value_of
from assay.statistics.bounded_mean import bounded_mean_tests

POWER = 0.8
# Gains of small models under GRPO were seen to differ between items by 10 to 30 points; 20 is what is planned
# with.
ASSUMED_SPREAD_POINTS = 20.0
SPREADS_POINTS = (0.0, 10.0, 20.0, 30.0)
EXPERIMENTS, WEIGHTINGS, BISECTIONS = (
    600,
    1999,
    8,
)  # power to a point, the gain to about two per cent of itself


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


def planned_power(
    base: Sequence[Episode], suite_digest: str, draws: int, *, primary: str, alpha: float
) -> PlannedPower:
    """Return the smallest true gain that is found with power 0.8 when the base's own draws are the arm
    before.

    `primary` and `alpha` are those of a claim's plan. Items where the measure is undefined are left out, as
    the comparison will leave them out.
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
    rates = np.array([math.fsum(values[item]) / len(values[item]) for item in items])

    def reach(spread: float) -> float | None:
        gain = smallest_gain(rates, index[: len(items)], draws, spread=spread / 100, alpha=alpha)
        return None if gain is None else round(100 * gain, 4)

    reached = {spread: reach(spread) for spread in {*SPREADS_POINTS, ASSUMED_SPREAD_POINTS}}
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
        assumed_spread_points=ASSUMED_SPREAD_POINTS,
        smallest_detectable_points=reached[ASSUMED_SPREAD_POINTS],
        by_spread={f"{spread:g}": reached[spread] for spread in SPREADS_POINTS},
    )


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
) -> float | None:
    """Return the smallest true mean gain found with the power, as a share; None under 6 clusters or where no
    gain that is possible would be found.

    `rates` are the base's rates by item and `clusters` the number of each item's cluster, both [items].
    `spread` is the standard deviation of true gains between clusters; None: a cluster learns all or nothing.
    Both arms of each experiment are drawn from the model, to the last yes and no, and meet the deciding test.
    """
    n = int(clusters.max(initial=-1)) + 1
    if n < FEWEST_CLUSTERS or float(rates.mean()) >= 1.0:
        return None
    true = _without_luck(rates, draws)
    sizes = np.bincount(clusters, minlength=n).astype(np.float64)
    low, high, found = 0.0, 1.0, None
    for _ in range(BISECTIONS):
        asked = (low + high) / 2
        luck = labelled_rng("planned power", n)
        shape = (EXPERIMENTS, n)
        if spread is None:
            learned = luck.random(shape) < asked
            after = np.where(learned[:, clusters], 1.0, true)
        else:
            gains = asked + spread * luck.normal(size=shape)
            after = np.clip(true + gains[:, clusters], 0.0, 1.0)
        gain = float((after - true).mean())
        differences = (luck.binomial(draws, after) - luck.binomial(draws, true, size=after.shape)) / draws
        totals = np.stack([np.bincount(clusters, row, minlength=n).astype(np.float64) for row in differences])
        if _power(totals, sizes, alpha) >= power:
            high, found = asked, gain
        else:
            low = asked
    return found


def _without_luck(rates: Array, draws: int) -> Array:
    """Return rates that differ between items as much as the true ones do: what the luck of the draws adds is
    taken away around their mean."""
    mean, seen = float(rates.mean()), float(rates.var())
    real = max(0.0, seen - _noise(rates, draws) / draws)
    return np.clip(mean + math.sqrt(real / seen if seen else 0.0) * (rates - mean), 0.0, 1.0)


def _power(totals: Array, sizes: Array, alpha: float) -> float:
    """Return the share of experiments, [experiments, clusters], that the deciding test finds better."""
    weightings = labelled_rng("planned weightings", len(sizes))
    not_better, _ = bounded_mean_tests(totals, sizes, weightings, weightings=WEIGHTINGS)
    return float(np.mean(not_better <= alpha / 2))


def detectable_effect(sums: ClusterSums, *, alpha: float = 0.05, power: float = POWER) -> float | None:
    """Return the true mean difference found with the given power when clusters differ as those seen do.

    Experiments are resamples of the clusters, moved to a common mean. None under two clusters, or where no
    difference up to 1 would be found.
    """
    n = len(sums.names)
    if n < 2:
        return None
    drawn = labelled_rng("detectable", n).integers(n, size=(EXPERIMENTS, n))
    residuals, sizes = sums.residuals[drawn], sums.sizes[drawn]
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        gain = (low + high) / 2
        weightings = labelled_rng("detectable weightings", n)
        not_better, _ = bounded_mean_tests(residuals + gain * sizes, sizes, weightings, weightings=WEIGHTINGS)
        low, high = (low, gain) if np.mean(not_better <= alpha / 2) >= power else (gain, high)
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
    return (
        (
            f"smallest detectable effect {found:.1f} points with power {plan.power:g} ({from_what}); it"
            f" {verb} the smallest effect that matters, {smallest_effect_points:g} points"
        ),
        enough,
    )
