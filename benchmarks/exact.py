"""The deciding p of the same differences under other names, in other orders and with other seeds; its
precision against closed forms, and what it takes.

`spread` is the largest relative difference of p over all of them, on the path of `assay judge` from rows to
p. `against` names what p is compared with, and `error` the largest relative difference. statsmodels is asked
where it is installed; it is no dependency. `ms` is of p and its interval, the middle of five calls.

    ./run bench exact    (half a minute on one core; writes results/exact.json)
"""

from __future__ import annotations

import importlib
import math
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, written
from benchmarks.judge_peers import Arms, make_arms, make_one
from benchmarks.verdict_layouts import Array
from scipy import stats

from assay.core.seeds import rng as labelled_rng
from assay.rollout.dataset.suite import WORST, Unseen
from assay.rollout.evaluation.clusters import ClusterSums
from assay.verdict.evidence.claim.differences import compare_measure
from assay.verdict.judge.rows import JudgedRow, as_episodes
from assay.verdict.statistics.bounded_mean import bounded_mean_test

NAMES = (
    *("q{:04d}", "Q{:d}", "{:d}", "item-{:x}", "{0:d}{0:d}", "question {:d}", "\u00e4{:d}", "z{:08d}"),
    *("{:b}", "a/b/{:d}", "#{:o}", "{:d}.0"),
)
ORDERS, SEEDS = 4, 3


def renamed(arms: Arms, form: str, order: int, seed: int) -> float:
    """Return p of the arms with other names, rows in another order, and another generator."""
    luck = labelled_rng("exact", order)
    places = {name: k for k, name in enumerate(luck.permutation(sorted(set(arms["item"]))).tolist())}
    homes = {name: k for k, name in enumerate(luck.permutation(sorted(set(arms["cluster"]))).tolist())}
    played = []
    for arm in ("before", "after"):
        rows = [
            JudgedRow(form.format(places[item]), draw, form.format(homes[home]), score, score, bool(score))
            for item, home, scores in zip(arms["item"], arms["cluster"], arms[arm], strict=True)
            for draw, score in enumerate(map(float, scores))
        ]
        played.append(as_episodes([rows[k] for k in luck.permutation(len(rows))]))
    found = compare_measure(*played, "success_rate", np.random.default_rng(seed), unseen=Unseen(loss=0.5))
    assert found.p is not None
    return found.p


def repeated() -> Iterator[dict[str, object]]:
    """Yield for each data set how far p differs between spellings, orders and seeds."""
    sets = {
        "judge_peers: 200 items in 50 clusters, 4 draws": (make_one(), ORDERS, SEEDS),
        "60 single items, 1 draw": (
            make_arms(3, clusters=60, size=1, draws=1, gain=0.1, spread=0.2), ORDERS, SEEDS
        ),
        "300 items in 40 clusters, 3 draws": (
            make_arms(5, clusters=40, size=7, draws=3, gain=0.05, spread=0.3), ORDERS, SEEDS
        ),
        "5,000 single items, 3 draws": (
            make_arms(7, clusters=5_000, size=1, draws=3, gain=0.01, spread=0.2), 1, 1
        ),
    }  # fmt: skip
    for name, (arms, orders, seeds) in sets.items():
        found = [
            renamed(arms, form, order, seed)
            for form in NAMES
            for order in range(orders)
            for seed in range(seeds)
        ]
        yield {
            "name": name,
            "names": len(NAMES),
            "orders": orders,
            "seeds": seeds,
            "p": found[0],
            "spread": (max(found) - min(found)) / min(found),
        }


def sums_of(totals: Array) -> ClusterSums:
    return ClusterSums(tuple(map(str, range(len(totals)))), totals, np.ones(len(totals)))


def agreed() -> Iterator[dict[str, object]]:
    """Yield how far p is from what others say of the same data."""
    wins = [(6, 6), (3, 20), (33, 64), (212, 400), (2131, 4096), (50_400, 100_000), (700, 1000)]
    ours = [bounded_mean_test(sums_of(np.repeat([1.0, -1.0], [k, n - k])))[0] for k, n in wins]
    theirs = [float(stats.binomtest(k, n).pvalue) for k, n in wins]
    yield {"against": "scipy.stats.binomtest", "cases": len(wins), "error": _error(ours, theirs)}
    try:
        tables = importlib.import_module("statsmodels.stats.contingency_tables")
    except ImportError:
        yield {"against": "statsmodels, not installed", "cases": 0, "error": None}
    else:
        theirs = [float(tables.mcnemar([[0, k], [n - k, 0]], exact=True).pvalue) for k, n in wins]
        name = f"statsmodels {version('statsmodels')}, McNemar's exact test"
        yield {"against": name, "cases": len(wins), "error": _error(ours, theirs)}
    gains = [(0.5, 10, 1.0), (0.05, 40, 0.5), (0.002, 1000, 1.0), (0.9, 500, 1.0), (0.0015, 100_000, 1.0)]
    ours = [bounded_mean_test(sums_of(np.full(n, g)), unseen=WORST._replace(loss=w))[0] for g, n, w in gains]
    theirs = [min(1.0, 2 * math.exp(-n * math.log1p(g / w))) for g, n, w in gains]
    yield {"against": "equal gains, (1 + g / w)^-n", "cases": len(gains), "error": _error(ours, theirs)}
    luck, far = labelled_rng("exact", "weightings"), []
    for n in (1, 5, 40, 300):
        totals = luck.normal(0.03, 0.3, n).clip(-1, 1)
        p = bounded_mean_test(sums_of(totals))[0] / 2
        weights = luck.standard_exponential((200_000, n + 1))
        low = np.mean(weights @ np.append(totals, -1.0) <= 0)
        high = np.mean(weights @ np.append(totals, 1.0) >= 0)
        share = min(low, high, 0.5)
        far.append(abs(p - share) / math.sqrt(max(p * (1 - p), 1e-9) / 200_000))
    yield {"against": "200,000 weightings, standard errors", "cases": len(far), "error": round(max(far), 2)}


def _error(ours: list[float], theirs: list[float]) -> float:
    return max(abs(a / b - 1) for a, b in zip(ours, theirs, strict=True))


def timed() -> Iterator[dict[str, object]]:
    """Yield what p and interval take."""
    luck = labelled_rng("exact", "time")
    kinds = {
        "different": lambda n: luck.normal(0.02, 0.3, n).clip(-1, 1),
        "yes and no": lambda n: luck.choice([-1.0, 0.0, 1.0], n, p=[0.2, 0.55, 0.25]),
    }
    for name, draw in kinds.items():
        for n in (64, 1_000, 4_096, 100_000):
            sums, taken = sums_of(draw(n)), []
            for _ in range(5):
                start = time.process_time()
                bounded_mean_test(sums)
                taken.append(1000 * (time.process_time() - start))
            yield {"values": name, "clusters": n, "ms": round(sorted(taken)[2], 1)}


def main() -> None:
    sets, times = list(repeated()), list(timed())
    table = {
        "spread": max(float(str(row["spread"])) for row in sets),
        "ms": next(row["ms"] for row in times if row["values"] == "different" and row["clusters"] == 1_000),
        "sets": sets,
        "agreement": list(agreed()),
        "times": times,
    }
    written(RESULTS / "exact.json", table, indent=1, sort_keys=False)
    print(table)


if __name__ == "__main__":
    main()
