"""Best of k over the items of a suite, with intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pydantic import Field

from assay.core.records import Episode, Interval, Record
from assay.core.seeds import rng
from assay.evaluation.clusters import cluster_sums
from assay.evaluation.measures import best_of
from assay.statistics.intervals import mean_interval, rate_interval


class BestOf(Record):
    """The best of k draws of an item, averaged over items; n of an interval counts items."""

    k: int = Field(ge=1)
    mean_reward: Interval
    success_rate: Interval = Field(description="share of items solved by at least one of k draws: pass@k")


def best_of_items(episodes: Sequence[Episode], k: int, suite_digest: str) -> BestOf:
    """Return the best of k over items, with the intervals of a rate and of a mean; bootstrap draws depend on
    the suite.

    Raises:
        EvidenceError: An item has fewer than k draws.
    """
    drawn: dict[tuple[str, str], list[Episode]] = defaultdict(list)
    for episode in episodes:
        drawn[episode.item_id, episode.cluster].append(episode)
    items = sorted(drawn)
    clusters = [cluster for _, cluster in items]
    rewards = [[episode.reward for episode in drawn[item]] for item in items]
    solved = [[float(episode.success) for episode in drawn[item]] for item in items]
    return best_of_values(rewards, solved, clusters, k, suite_digest)


def best_of_values(
    rewards: Sequence[Sequence[float]],
    solved: Sequence[Sequence[float]],
    clusters: Sequence[str],
    k: int,
    suite_digest: str,
) -> BestOf:
    """Return the same from the values of every draw, [items][draws], and the cluster of every item."""
    best = [[best_of(values, k) for values in items] for items in (rewards, solved)]
    return BestOf(
        k=k,
        mean_reward=mean_interval(cluster_sums(best[0], clusters), rng("best of", k, suite_digest)),
        success_rate=rate_interval(cluster_sums(best[1], clusters)),
    )
