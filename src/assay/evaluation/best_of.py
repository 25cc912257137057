"""Best of k: what the best of k answers to one item is worth, estimated without bias from n >= k draws."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from pydantic import Field

from assay.errors import EvidenceError
from assay.evaluation.clusters import cluster_sums
from assay.evaluation.statistics import mean_interval, rate_interval
from assay.records import Episode, Interval, Record
from assay.seeds import rng


class BestOf(Record):
    """The best of k draws of an item, averaged over items; n of an interval counts items."""

    k: int = Field(ge=1)
    mean_reward: Interval
    success_rate: Interval = Field(description="share of items solved by at least one of k draws: pass@k")


def best_of(values: Sequence[float], k: int) -> float:
    """Return the expected maximum of k of these values, drawn without replacement.

    The i-th smallest of n is the maximum of C(i - 1, k - 1) of the C(n, k) choices. For values of 0 and 1 this is
    pass@k, 1 - C(n - c, k) / C(n, k) with c ones.
    Source: Chen et al. (2021), "Evaluating Large Language Models Trained on Code", arXiv 2107.03374, eq. 1.

    >>> best_of([1, 0, 0, 0], 2), best_of([3.0, 1.0, 2.0], 1), best_of([3.0, 1.0, 2.0], 3)
    (0.5, 2.0, 3.0)

    Raises:
        EvidenceError: k is under 1 or over the number of values.
    """
    n = len(values)
    if not 1 <= k <= n:
        raise EvidenceError(f"k from 1 to {n}, the draws of an item", found=str(k), where="best_of", fix="play more draws")
    choices = math.comb(n, k)
    return math.fsum(math.comb(i, k - 1) / choices * value for i, value in enumerate(sorted(values)) if i >= k - 1)


def best_of_items(episodes: Sequence[Episode], k: int, suite_digest: str) -> BestOf:
    """Return the best of k over items, with the intervals of a rate and of a mean; bootstrap draws depend on the suite.

    Raises:
        EvidenceError: An item has fewer than k draws.
    """
    drawn: dict[tuple[str, str], list[Episode]] = defaultdict(list)
    for episode in episodes:
        drawn[episode.item_id, episode.cluster].append(episode)
    items = sorted(drawn)
    clusters = [cluster for _, cluster in items]
    rewards = [best_of([episode.reward for episode in drawn[item]], k) for item in items]
    solved = [best_of([float(episode.success) for episode in drawn[item]], k) for item in items]
    return BestOf(
        k=k,
        mean_reward=mean_interval(cluster_sums(rewards, clusters), rng("best of", k, suite_digest)),
        success_rate=rate_interval(cluster_sums(solved, clusters)),
    )
