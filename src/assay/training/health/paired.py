"""Validations compared item by item: means, their changes with cluster-robust intervals, rank correlation."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats  # type: ignore[import-untyped,unused-ignore]

from assay.core.records import Episode
from assay.evaluation.clusters import cluster_sums
from assay.tasks.protocol import PartKind

REWARD, SUCCESS, OUTCOME = "reward", "success", "outcome"
MIN_ITEMS = 10  # fewer ranks say nothing about a correlation
PerItem = Mapping[str, float]


class Change(NamedTuple):
    """A mean change of paired items with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.3g} (95 % interval {self.low:+.3g} to {self.high:+.3g})"

    def is_flat(self, reference: float) -> bool:
        """Return whether this may be no rise at all and is certainly less than a rise elsewhere.

        Too few items to tell are not flat.

        >>> Change(0.0, -0.1, 0.1).is_flat(0.3), Change(0.0, -0.4, 0.4).is_flat(0.3), Change(-0.3, -0.4, -0.2).is_flat(0.3)
        (True, False, True)
        """
        return self.low <= 0.0 and self.high < reference


def part_key(part: str) -> str:
    """Return the name under which `item_means` gives a reward part."""
    return f"part {part}"


def item_means(episodes: Sequence[Episode], parts: Mapping[str, PartKind]) -> dict[str, dict[str, float]]:
    """Return reward, success, each part, and the sum of all outcome parts if there are any, by item, averaged
    over its draws.

    A part that an episode never earned is 0.
    """
    groups: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        groups[episode.item_id].append(episode)

    def means(value: Callable[[Episode], float]) -> dict[str, float]:
        return {item: math.fsum(map(value, group)) / len(group) for item, group in groups.items()}

    def earned(names: Sequence[str]) -> Callable[[Episode], float]:
        return lambda episode: math.fsum(episode.parts.get(name, 0.0) for name in names)

    found = {
        REWARD: means(lambda episode: episode.reward),
        SUCCESS: means(lambda episode: float(episode.success)),
    }
    outcomes = [part for part, kind in parts.items() if kind == "outcome"]
    if outcomes:
        found[OUTCOME] = means(earned(outcomes))
    return found | {part_key(part): means(earned([part])) for part in parts}


def change(before: PerItem, after: PerItem, clusters: Mapping[str, str], looks: int = 1) -> Change | None:
    """Return the mean of after - before over the items that both have, with its 95 % interval; None under two
    clusters.

    The interval is Student's t on as many clusters as there are, around the cluster-robust standard error;
    for one of several `looks` at such changes it is as much wider as Bonferroni asks for.
    """
    items = sorted(set(before) & set(after))
    sums = cluster_sums([after[item] - before[item] for item in items], [clusters[item] for item in items])
    if sums is None or len(sums.names) < 2:
        return None
    half = float(stats.t.ppf(1.0 - 0.025 / looks, len(sums.names) - 1)) * sums.standard_error
    return Change(sums.mean, sums.mean - half, sums.mean + half)


def rank_correlation(first: PerItem, second: PerItem) -> float | None:
    """Return Spearman's correlation over items as a share of the highest that their ties allow.

    Ties share the mean of their ranks. Most items of a weak policy tie at no success, and then even a perfect
    order would correlate by a half or less; hence the share. None where it is undefined: under ten items, or
    one side alike in all.

    >>> few = {str(k): float(k == 9) for k in range(10)}
    >>> round(rank_correlation({str(k): float(k) for k in range(10)}, few), 9)
    1.0
    """
    items = sorted(set(first) & set(second))
    if len(items) < MIN_ITEMS:
        return None
    ranks = [stats.rankdata([side[item] for item in items]) for side in (first, second)]
    if any(np.ptp(side) == 0.0 for side in ranks):
        return None
    highest = np.corrcoef(np.sort(ranks[0]), np.sort(ranks[1]))[0, 1]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1] / highest)
