"""Episodes summed by cluster, the unit of independent evidence: what every interval and test starts from."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.core.errors import EvidenceError
from assay.core.records import Episode

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ClusterSums:
    """What one measure amounts to in each cluster: totals and numbers of observations (or pairs), both
    [clusters]."""

    names: tuple[str, ...]
    totals: Array
    sizes: Array

    @property
    def mean(self) -> float:
        """Total over all clusters / number of observations; dimension of the measure."""
        return float(self.totals.sum() / self.sizes.sum())

    @property
    def residuals(self) -> Array:
        """Total minus what a cluster of its size would have at the overall mean, [clusters]."""
        return self.totals - self.mean * self.sizes

    @property
    def standard_error(self) -> float:
        """Cluster-robust standard error of the mean; nan under two clusters.

        Source: Cochran (1977), Sampling Techniques, eq. 9A.3 (variance of a ratio of cluster totals).
        """
        n = len(self.names)
        if n < 2:
            return math.nan
        return float(math.sqrt(n / (n - 1) * float((self.residuals**2).sum())) / self.sizes.sum())

    @property
    def has_spread(self) -> bool:
        """Whether clusters differ at all; without spread the data say nothing about uncertainty."""
        scale = float(np.abs(self.totals).max(initial=0.0)) + abs(self.mean) * float(self.sizes.max())
        return bool(np.abs(self.residuals).max() > 1e-12 * scale)


def cluster_sums(values: Sequence[float | None], clusters: Sequence[str]) -> ClusterSums | None:
    """Return the sums of defined values by cluster, clusters sorted by name; None if no value is defined.

    >>> cluster_sums([1.0, 0.0, None], ["b", "a", "c"]).names
    ('a', 'b')
    """
    found: dict[str, list[float]] = defaultdict(list)
    for value, cluster in zip(values, clusters, strict=True):
        if value is not None:
            found[cluster].append(value)
    if not found:
        return None
    names = tuple(sorted(found))
    totals = np.array([math.fsum(found[name]) for name in names])
    return ClusterSums(names, totals, np.array([float(len(found[name])) for name in names]))


def paired_cluster_differences(
    before: Sequence[Episode], after: Sequence[Episode], value: Callable[[Episode], float | None]
) -> ClusterSums | None:
    """Return after - before by cluster; an item is one pair, averaged over its draws in each arm.

    Draws where the value is None are left out of their item's average; an item undefined in either arm makes
    no pair. Returns None if no item makes a pair.

    Raises:
        EvidenceError: the arms hold different items, or an item changed cluster (the caller mixed suites).
    """
    arms: list[dict[str, list[float]]] = [defaultdict(list), defaultdict(list)]
    clusters: list[dict[str, str]] = [{}, {}]
    for k, episodes in enumerate((before, after)):
        for episode in episodes:
            clusters[k][episode.item_id] = episode.cluster
            found = value(episode)
            if found is not None:
                arms[k][episode.item_id].append(float(found))
    if clusters[0] != clusters[1]:
        odd = sorted(set(clusters[0].items()) ^ set(clusters[1].items()))
        raise EvidenceError(
            "the same items in the same clusters in both arms",
            found=f"{len(odd)} (item, cluster) pairs in one arm only, first {odd[0]}",
            where="paired_cluster_differences",
            fix="evaluate both policies on one suite",
        )
    items = sorted(item for item in clusters[0] if arms[0].get(item) and arms[1].get(item))
    means = [{item: math.fsum(arm[item]) / len(arm[item]) for item in items} for arm in arms]
    return cluster_sums(
        [means[1][item] - means[0][item] for item in items], [clusters[0][item] for item in items]
    )
