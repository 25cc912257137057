"""How often "better" or "worse" is said where nothing changed, and how often the interval holds the truth.

`layouts` are made to be hard for a test of clusters: rare heavy losers, effects tied to the size of a
cluster, deterministic arms, ties, few clusters, one cluster that outweighs the rest. Each is drawn 3,000
times; the old sign flips meet the same draws, for comparison, and so do other `published` tests.
`worst_cluster` is how many points a cluster that nobody saw is taken to lose at most: what a plan chooses for
clusters of so many draws (`usual`), and 50 and 25. Where clusters of the layout lose more, nothing is
promised: `excluded` says so. Where clusters that nobody drew may be larger than all that were, the test is
told their size, as the plan of a claim tells it. `upper` ends the two-sided 95 % interval of Clopper and
Pearson. Where clusters are too few for their sizes the claim refuses: `refused`, with what would be `needed`.

`at_random` are layouts that nobody chose, with true gains that are not 0. `means` are measures without
bounds, which have no p, and an interval where clusters are many (`shown`); `beyond` says why: what is rare
enough is in no interval, and `false_better` is how often it would lie above 0. The same means with bounds, as
rewards have them, are among the layouts. `power` is what is promised before training against what is then
found, `seldom` the same where the base is seldom right; `cost` is what the deciding test gives up against
sign flips, which hold no level.

    ./run bench verdict_levels    (two minutes on one core; writes results/verdict_levels.json)
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, written
from benchmarks.published_tests import PUBLISHED
from benchmarks.verdict_layouts import BEYOND, DRAWS, LARGEST, LAYOUTS, MEANS, Array, Layout
from scipy import stats
from scipy.optimize import brentq

from assay.core.seeds import rng as labelled_rng
from assay.rollout.dataset.suite import Unseen
from assay.verdict.evidence.claim.plan import usual_worst
from assay.verdict.statistics.bounded_mean import clusters_needed, not_better, probability_below_zero
from assay.verdict.statistics.intervals import resample_counts
from assay.verdict.statistics.power import plausible_spread, smallest_gain
from assay.verdict.statistics.tests import FEWEST_OPEN, sign_flip_tests

REPLICATIONS, FLIPS, RESAMPLES = 3_000, 2_000, 1_000


def upper(count: int, n: int) -> float:
    return round(float(stats.beta.ppf(0.975, count + 1, n - count)) if count < n else 1.0, 4)


def found(totals: Array, sizes: Array, unseen: Unseen) -> NDArray[np.bool_]:
    """Return which experiments are called better at 2.5 %, [experiments]: by the formula of plans, and where
    that is within a factor of two of the level by the exact p."""
    p = not_better(totals, sizes, unseen=unseen)
    for k in np.flatnonzero((p > 0.0125) & (p < 0.05)):
        lost = max(unseen.size, float(sizes[k].max())) * unseen.loss
        p[k] = probability_below_zero(np.append(totals[k], -lost))
    return p <= 0.025


def measured(name: str, layout: Layout) -> list[dict[str, object]]:
    """Return how often a layout is called better, worse, and how often the interval holds 0: with what a plan
    chooses for clusters of such draws, and with 50 and 25 points."""
    totals, sizes = layout(labelled_rng("verdict levels", name), REPLICATIONS)
    flips = sign_flip_tests(totals, labelled_rng("verdict levels", name, "flips"), FLIPS) <= 0.05
    usual, rows = usual_worst(DRAWS.get(name, float(sizes.mean()))), []
    loses = round(-100 * float((totals / sizes).min()), 1)
    most = max(LARGEST.get(name, 0.0), float(sizes.max()))
    published = {test: round(float(called(totals, most).mean()), 4) for test, called in PUBLISHED.items()}
    for worst in sorted({usual, 50.0, 25.0}, reverse=True):
        unseen = Unseen(LARGEST.get(name, 0.0), worst / 100)
        needed = np.array([clusters_needed(row, unseen=unseen) for row in sizes])
        refused = needed > totals.shape[1]
        above, below = found(totals, sizes, unseen), found(-totals, sizes, unseen)
        better, worse = above & ~refused, below & ~refused
        rows.append(
            {
                "name": name,
                "worst_cluster": worst,
                "usual": worst == usual,  # what a plan has where nobody says
                # A cluster loses more than is held possible: nothing is promised. Rounded by 1e-9.
                "excluded": f"clusters lose up to {loses:g} points" if loses > worst else None,
                "replications": REPLICATIONS,
                "false_better": round(float(better.mean()), 4),
                "upper": upper(int(better.sum()), REPLICATIONS),
                "coverage": round(
                    float(1 - (above | below).mean()), 4
                ),  # of every interval, shown or refused
                "false_worse": round(float(worse.mean()), 4),
                "largest_known": unseen.size or None,
                "refused": round(float(refused.mean()), 4),
                "needed": int(np.median(needed[refused])) if refused.any() else None,
                "sign_flips_better": round(float((flips & (totals.sum(axis=1) > 0)).mean()), 4),
                "sign_flips_worse": round(float((flips & (totals.sum(axis=1) < 0)).mean()), 4),
                "published": published if worst == usual else None,
            }
        )
    return rows


def of_means(name: str, layout: Layout) -> dict[str, object]:
    """Return how often the interval of a mean without bounds lies above 0 or holds it, where it is shown at
    all, and the two-sided levels of sign flips, of studentised sign flips and of the studentised
    bootstrap."""
    totals, sizes = layout(labelled_rng("means", name), REPLICATIONS)
    luck, n = labelled_rng("means", name, "luck"), totals.shape[1]
    plain = sign_flip_tests(totals, luck, FLIPS)
    signs = 1.0 - 2.0 * luck.integers(0, 2, (FLIPS, n))

    def student(flipped: Array, with_size: Array) -> Array:
        mean = flipped / sizes.sum(axis=1)
        rest = (totals**2).sum(axis=1) - 2 * mean * with_size + mean**2 * (sizes**2).sum(axis=1)
        return np.asarray(np.abs(flipped) / np.sqrt(np.maximum(rest, 1e-300)))

    seen = student(totals.sum(axis=1), (totals * sizes).sum(axis=1))
    beyond = (student(signs @ totals.T, signs @ (totals * sizes).T) >= seen * (1 - 1e-9)).sum(axis=0)
    janssen = (beyond + 1) / (FLIPS + 1)
    counts = resample_counts(n, luck, RESAMPLES)
    mean = totals.sum(axis=1) / sizes.sum(axis=1)
    error = np.sqrt(((totals - mean[:, None] * sizes) ** 2).sum(axis=1)) / sizes.sum(axis=1)
    moved = (counts @ totals.T) / (counts @ sizes.T)
    rest = (
        counts @ (totals**2).T
        - 2 * moved * (counts @ (totals * sizes).T)
        + moved**2 * (counts @ (sizes**2).T)
    )
    t = (moved - mean) / np.maximum(np.sqrt(np.maximum(rest, 0)) / (counts @ sizes.T), 1e-12)
    tails = np.minimum((t >= mean / error).sum(axis=0), (t <= mean / error).sum(axis=0) + 1)
    boot = np.minimum(1.0, 2 * tails / RESAMPLES)
    shown = n >= FEWEST_OPEN
    both = (np.maximum(plain, boot) <= 0.05) & shown  # the interval holds those of both
    better = both & (mean > 0)
    return {
        "shown": shown,
        "name": name,
        "replications": REPLICATIONS,
        "false_better": round(float(better.mean()), 4),
        "upper": upper(int(better.sum()), REPLICATIONS),
        "coverage": round(1 - float(both.mean()), 4),
        "sign_flips": round(float((plain <= 0.05).mean()), 4),
        "studentised_flips": round(float((janssen <= 0.05).mean()), 4),
        "studentised_bootstrap": round(float((boot <= 0.05).mean()), 4),
    }


# Clusters, items in each, draws, lowest and highest rate of the base, spread of gains (None: all or nothing).
PLANS: dict[str, tuple[int, int, int, float, float, float | None]] = {
    "10 clusters of 10, gains alike": (10, 10, 4, 0.2, 0.4, 0.0),
    "10 clusters of 10": (10, 10, 4, 0.2, 0.4, 0.2),
    "10 clusters of 10, all or nothing": (10, 10, 4, 0.1, 0.3, None),
    "20 clusters of 4, all or nothing": (20, 4, 2, 0.1, 0.5, None),
    "60 clusters of 8": (60, 8, 2, 0.1, 0.5, 0.2),
    "60 clusters of 8, all or nothing": (60, 8, 2, 0.1, 0.5, None),
    "128 single items": (128, 1, 2, 0.1, 0.5, 0.2),
    "512 single items": (512, 1, 2, 0.1, 0.3, 0.2),
    "512 single items, all or nothing": (512, 1, 2, 0.1, 0.3, None),
}
PILOTS, PLAYED = 12, 250  # experiments of each pilot


def promised(name: str) -> dict[str, object]:
    """Return the promised power and how often gains of the promised size were found, over other bases."""
    n, items, draws, low, high, spread = PLANS[name]
    luck = labelled_rng("promised", name)
    home, sizes = np.repeat(np.arange(n), items), np.full(n, float(items))
    shown, gains = [], []
    for _ in range(PILOTS):
        base = luck.uniform(low, high, n)[home]
        gain = smallest_gain(luck.binomial(draws, base) / draws, home, draws, spread=spread)
        assert gain is not None
        rates = luck.uniform(low, high, (PLAYED, n))[:, home]
        if spread is None:
            learned = luck.random((PLAYED, n)) < gain / (1 - (low + high) / 2)
            after = np.where(learned[:, home], 1.0, rates)
        else:
            asked = gain + spread * luck.normal(size=(PLAYED, n))
            after = np.clip(rates + asked[:, home], 0, 1)
            for _ in range(
                20
            ):  # what is cut off at 0 and 1 is made up for: the mean gain is the promised one
                asked = asked + gain - (after - rates).mean()
                after = np.clip(rates + asked[:, home], 0, 1)
        difference = (luck.binomial(draws, after) - luck.binomial(draws, rates)) / draws
        totals = difference.reshape(PLAYED, n, items).sum(axis=2)
        shown.append(not_better(totals, sizes) <= 0.025)
        gains.append(100 * gain)
    return {
        "name": name,
        "replications": PILOTS * PLAYED,
        "gain_points": round(float(np.mean(gains)), 2),
        "promised": 0.8,
        "got": round(float(np.concatenate(shown).mean()), 4),
    }


def seldom_right(rate: float) -> dict[str, object]:
    """Return what a plan promises of 1,500 single items whose base is seldom right, and what is found."""
    n, luck = 1_500, labelled_rng("seldom", str(rate))
    gain = smallest_gain(np.full(n, rate), np.arange(n), 1, spread=0.2, seen_draws=0)
    assert gain is not None
    after = rate + gain + plausible_spread(0.2, rate, gain) * luck.normal(size=(1_000, n))
    for _ in range(20):
        after = np.clip(after + rate + gain - np.clip(after, 0, 1).mean(), 0, 1)
    totals = luck.binomial(1, after) - luck.binomial(1, rate, after.shape).astype(float)
    p = not_better(totals, np.ones(n))
    return {
        "base_rate": rate,
        "items": n,
        "gain_points": round(100 * gain, 2),
        "promised": 0.8,
        "got": round(float((p <= 0.025).mean()), 4),
    }


def given_up(n: int) -> dict[str, object]:
    """Return the smallest gain found with power 0.8 by the deciding test and by sign flips, n items."""
    rates, draws = labelled_rng("cost", n).uniform(0.1, 0.3, n), 2
    luck = labelled_rng("cost", n, "luck")
    gains = np.linspace(0.01, 0.4, 40)
    power: dict[str, list[float]] = {"bounded": [], "sign_flips": []}
    for gain in gains:
        after = np.clip(rates + gain + 0.2 * luck.normal(size=(500, n)), 0, 1)
        before = luck.binomial(draws, rates, size=after.shape)
        totals = (luck.binomial(draws, after) - before) / draws
        p = not_better(totals, np.ones(n), unseen=Unseen(loss=usual_worst(draws) / 100))
        power["bounded"].append(float((p <= 0.025).mean()))
        flips = (sign_flip_tests(totals, luck, 1_000) <= 0.05) & (totals.sum(axis=1) > 0)
        power["sign_flips"].append(float(flips.mean()))
    reach = {test: float(np.interp(0.8, np.maximum.accumulate(p), gains)) for test, p in power.items()}
    lost = np.array(power["sign_flips"]) - np.array(power["bounded"])
    return {
        "items": n,
        "smallest_detectable_points": round(100 * reach["bounded"], 1),
        "by_sign_flips": round(100 * reach["sign_flips"], 1),
        "median_power_lost": round(float(np.median(lost[np.array(power["sign_flips"]) < 0.99])), 3),
    }


def at_random(k: int) -> dict[str, object]:
    """Return how often a true gain is called larger or smaller than it is in a layout that nobody chose.

    Two to four kinds of clusters, each with a size, a share, a gain and a noise of its own; p is computed,
    not weighted.
    """
    luck = labelled_rng("at random", k)
    n, kinds = int(luck.choice([8, 10, 14, 20, 30, 40, 80, 150])), int(luck.integers(2, 5))
    sizes = luck.choice([1, 2, 4, 9, 20, 40], kinds).astype(float)
    shares = np.maximum(luck.dirichlet(np.full(kinds, 0.5)), 0.005)
    shares /= shares.sum()
    truth = float(luck.choice([0, 0, 0.2, -0.3, 0.6]))
    gains, noise = luck.uniform(-1, 1, kinds), luck.choice([0, 0.2, 0.5], kinds)

    def both(shift: float) -> tuple[Array, Array]:
        return np.clip(gains + shift - noise, -1, 1), np.clip(gains + shift + noise, -1, 1)

    def mean(shift: float) -> float:
        return float((shares * sizes * sum(both(shift)) / 2).sum() / (shares * sizes).sum())

    shift = float(brentq(lambda shift: mean(shift) - truth, -3.0, 3.0))
    low, high = both(shift)
    kind = luck.choice(kinds, size=(REPLICATIONS, n), p=shares)
    of_kind = sizes[kind]
    totals = np.where(luck.random(kind.shape) < 0.5, low[kind], high[kind]) * of_kind
    # What no item can fall below is 1 + truth under the truth, and not more than 1 - truth above.
    above, below = (
        not_better(sign * (totals - truth * of_kind), of_kind * 0 + (1 + sign * truth) * sizes.max()) <= 0.025
        for sign in (1, -1)
    )
    return {
        "name": f"{k}: {n} clusters of {kinds} kinds, a true gain of {100 * truth:g} points",
        "replications": REPLICATIONS,
        "false_better": round(float(above.mean()), 4),
        "upper": upper(int(above.sum()), REPLICATIONS),
        "coverage": round(1 - float((above | below).mean()), 4),
    }


def main() -> None:
    tables: dict[str, list[dict[str, object]]] = {}
    rows: list[tuple[str, Callable[[], list[dict[str, object]]]]] = [
        *(("layouts", lambda name=name: measured(name, LAYOUTS[name])) for name in LAYOUTS),
        *(("at_random", lambda k=k: [at_random(k)]) for k in range(60)),
        *(("means", lambda name=name: [of_means(name, MEANS[name])]) for name in MEANS),
        *(("beyond", lambda name=name: [of_means(name, BEYOND[name])]) for name in BEYOND),
        *(("power", lambda name=name: [promised(name)]) for name in PLANS),
        *(("seldom", lambda rate=rate: [seldom_right(rate)]) for rate in (0.01, 0.02, 0.05, 0.1)),
        *(("cost", lambda n=n: [given_up(n)]) for n in (64, 256, 512)),
    ]
    for table, made in rows:
        tables.setdefault(table, []).extend(each := made())
        for row in each:
            print(table, *row.values(), sep="\t", flush=True)
        written(RESULTS / "verdict_levels.json", tables, indent=1, sort_keys=False)


if __name__ == "__main__":
    main()
