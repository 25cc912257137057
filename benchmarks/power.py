"""Items that find a true gain with power 0.8: by the deciding test, and by tests that hold their level under
fewer layouts (benchmarks/verdict_levels.py shows under which they do not).

`items` are those of the deciding test with what a plan chooses for clusters of so many draws
(`worst_cluster`), `at` what it needs with other values. Beside it a t test over clusters, McNemar's exact
test where every cluster is one yes or no, and where clusters are few other `published` tests. `ratio` is to
the t test, `worst_ratio` the largest of rows in which that needs 40 clusters or more. Base rates lie between
5 and 35 %, true gains of clusters differ by 15 points (sd). All tests meet the same experiments; power is a
line on the normal scale over the root of the number of clusters, fitted to sizes between 0.6 and 0.95.

    ./run bench power    (two minutes on one core; writes results/power.json)
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, written
from benchmarks.published_tests import PUBLISHED
from benchmarks.verdict_layouts import Array
from benchmarks.verdict_levels import found
from scipy import stats
from scipy.special import ndtri

from assay.core.seeds import rng as labelled_rng
from assay.rollout.dataset.suite import Unseen
from assay.verdict.evidence.claim.plan import usual_worst

POWER, LEVEL, SPREAD, NOISE, FEWEST = 0.8, 0.025, 0.15, 0.35, 40  # NOISE: variance of one draw, both arms
CELLS, EXPERIMENTS = 400_000, 1_500
AROUND = (0.75, 0.85, 0.95, 1.05, 1.15, 1.3, 1.5, 1.75, 2.1)  # times the clusters of a t test
OTHERS = (100.0, 50.0, 25.0)
SIZES, GAINS = (1, 4, 8, 16), (0.15, 0.088, 0.044, 0.026)
Test = Callable[[Array], Array]  # totals [experiments, clusters] to shown [experiments]


def experiments(n: int, size: int, draws: int, gain: float) -> Array:
    """Return what clusters of so many items gained, [experiments, clusters]; the mean true gain is `gain`."""
    luck = labelled_rng("power", size, draws, str(gain))
    rates = luck.uniform(0.05, 0.35, (max(200, min(EXPERIMENTS, CELLS // n)), n))
    after = rates + gain + SPREAD * luck.normal(size=rates.shape)
    for _ in range(20):  # what is cut off at 0 and 1 is made up for
        after += gain - (np.clip(after, 0, 1) - rates).mean()
    after = np.clip(after, 0, 1)
    return np.asarray((luck.binomial(size * draws, after) - luck.binomial(size * draws, rates)) / draws)


def by_mcnemar(totals: Array) -> Array:
    better, worse = (totals > 0).sum(axis=1), (totals < 0).sum(axis=1)
    return np.asarray(stats.binom.cdf(worse, better + worse, 0.5) <= LEVEL)


def by_assay(size: int, worst: float) -> Test:
    return lambda totals: found(totals, np.full(totals.shape, float(size)), Unseen(loss=worst / 100))


def needed(test: Test, totals: Array, clusters: Array) -> float | None:
    """Return how many clusters find it with the power; None where that lies outside of what was tried."""
    power = np.array([test(totals[:, :n]).mean() for n in clusters])
    inside = (power > 0.6) & (power < 0.95)
    if inside.sum() < 3 or not (power < POWER).any() or not (power > POWER).any():
        return None
    slope, start = np.polyfit(np.sqrt(clusters[inside]), ndtri(power[inside]), 1)
    return float(((ndtri(POWER) - start) / slope) ** 2)


def measured(size: int, draws: int, gain: float) -> dict[str, object] | None:
    """Return a row; None where a t test needs fewer than 20 clusters or more than 2,000."""
    usual = 7.85 * (SPREAD**2 + NOISE / (size * draws)) / gain**2
    if not 20 < usual < 2_000:
        return None
    clusters = np.unique(np.round(usual * np.array(AROUND)).astype(int))
    totals = experiments(int(clusters[-1]), size, draws, gain)

    def items(test: Test) -> int | None:
        n = needed(test, totals, clusters)
        return None if n is None else round(size * n)

    most = float(size)
    published = {
        name: items(lambda totals, test=test: test(totals, most))
        for name, test in PUBLISHED.items()
        if name == "cluster t" or usual < 200
    }
    worst, t = usual_worst(size * draws), published["cluster t"]
    if t is None:
        return None
    own = items(by_assay(size, worst))
    return {
        "draws": draws,
        "cluster_size": size,
        "gain_points": round(100 * gain, 1),
        "clusters": round(t / size),  # of a t test
        "worst_cluster": worst,
        "items": own,
        "cluster_t": t,
        "published": {name: published.get(name) for name in PUBLISHED if name != "cluster t"},
        "mcnemar": items(by_mcnemar) if size * draws == 1 else None,
        "at": {f"{other:g}": items(by_assay(size, other)) for other in OTHERS},
        "ratio": None if own is None else round(own / t, 3),
        "experiments": len(totals),
    }


def main() -> None:
    rows = []
    for draws in (1, 4):
        for size in SIZES:
            for gain in GAINS:
                if row := measured(size, draws, gain):
                    rows.append(row)
                    print(*row.values(), sep="\t", flush=True)
    counted = [row["ratio"] for row in rows if row["clusters"] >= FEWEST and row["ratio"] is not None]  # type: ignore[operator]
    table = {"worst_ratio": max(counted), "rows_counted": len(counted), "rows": rows}
    written(RESULTS / "power.json", table, indent=1, sort_keys=False)


if __name__ == "__main__":
    main()
