"""Before training: the smallest true gain that the held-out suite can show, planned from the base's own draws
alone.

The model. An item's difference is what its cluster truly gained plus the luck of the draws:
    after_i - before_i = gain_c + noise_i,
    Var(noise_i) = p_i (1 - p_i) / K + q_i (1 - q_i) / K,   q_i = p_i + gain_c.
Success of the base on item i has the rate p_i, whose noise the K draws tell without bias. True gains differ
between clusters with a standard deviation that nobody can know before training: it is an assumption, and said
as one. The noise of the trained arm follows from the gain that is looked for. Power is that of the deciding
sign-flip test under this model.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from pydantic import Field
from scipy.special import ndtri, stdtrit  # type: ignore[import-untyped,unused-ignore]

from assay.core.counting import counted
from assay.core.records import Episode, Record
from assay.core.seeds import rng as labelled_rng
from assay.dataset.suite import FEWEST_CLUSTERS
from assay.evaluation.clusters import Array
from assay.evaluation.measures import value_of
from assay.statistics.tests import sign_flip_tests

POWER = 0.8
# Gains of small models under GRPO were seen to differ between items by 10 to 30 points; 20 is what is planned
# with.
ASSUMED_SPREAD_POINTS = 20.0
SPREADS_POINTS = (0.0, 10.0, 20.0, 30.0)
EXPERIMENTS, FLIPS = 1500, 1999  # power to a point, the gain to about two per cent of itself
GUESSES, CORRECTIONS = 8, 4


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
    sizes = np.bincount(index[: len(items)], minlength=len(homes)).astype(np.float64)

    def reach(spread: float) -> float | None:
        gain = smallest_gain(rates, sizes, draws, spread=spread / 100, alpha=alpha)
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
    rates: Array, sizes: Array, draws: int, *, spread: float, alpha: float = 0.05, power: float = POWER
) -> float | None:
    """Return the smallest true mean gain found with the power, as a share; None under 6 clusters or beyond
    100 %.

    `rates` are the base's rates by item, [items]; `sizes` the items by cluster, [clusters]; `spread` the
    standard deviation of true gains between clusters. Bloom's formula gives a first guess; experiments drawn
    from the model and put through the very sign flips correct it, for few or unequal clusters make the test
    weaker than the formula knows. Source: Bloom (1995), Evaluation Review 19:547, eq. 1.

    >>> gain = smallest_gain(np.full(200, 0.5), np.full(40, 5.0), 8, spread=0.2)
    >>> 0.099 < gain < 0.109
    True
    """
    n, items, mean = len(sizes), float(sizes.sum()), float(rates.mean()) if len(rates) else 1.0
    most = 1.0 - mean
    if n < FEWEST_CLUSTERS or most <= 0.0:
        return None
    base = _noise(rates, draws)

    def spreads(gain: float) -> Array:
        after = min(0.25, max(0.0, base + gain * (1 - 2 * mean) - gain**2 - spread**2))
        return np.asarray(np.sqrt((spread * sizes) ** 2 + sizes * (base + after) / draws), np.float64)

    luck = labelled_rng("planned power", n).normal(size=(EXPERIMENTS, n))
    multiple = float(stdtrit(n - 1, 1 - alpha / 2) + stdtrit(n - 1, power))
    gain = 0.0
    for _ in range(GUESSES):
        gain = multiple * float(np.linalg.norm(spreads(gain))) / items
    for _ in range(CORRECTIONS):
        totals = sizes * gain + spreads(gain) * luck
        found = float(np.mean(sign_flip_tests(totals, labelled_rng("planned flips", n), FLIPS) <= alpha))
        # On the scale of the normal quantile, power is nearly straight in the gain.
        missing = ndtri(power) - ndtri(min(0.999, max(0.001, found)))
        gain *= 1 + float(missing) / multiple
    # Totals are multiples of 1/K, so flipped sums lie 2/K apart, and a tie counts against us: half a step
    # more.
    gain += 1 / (draws * items)
    return gain if gain < most else None


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
