"""One policy on one suite, as numbers with intervals; comparing two of them is the work of the evidence
room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Literal

import numpy as np
from pydantic import Field

from assay.core.records import Episode, Interval, Record, Split
from assay.core.seeds import rng as labelled_rng
from assay.rollout.dataset.suite import Suite
from assay.rollout.evaluation.clusters import Array, ClusterSums, cluster_sums
from assay.rollout.evaluation.measures import check_complete, is_rate, measure_names, reader_of
from assay.verdict.statistics.intervals import (
    grouped,
    median_interval,
    missing,
    rate_interval,
    resample_counts,
    studentised_interval,
)

Decoding = Literal["sampled", "greedy", "decoding not known"]


class Stratum(Record):
    """The same measures on the episodes that share one label."""

    n_episodes: int = Field(ge=1)
    n_items: int = Field(ge=1)
    n_clusters: int = Field(ge=1)
    measures: dict[str, Interval]


class Report(Record):
    """One policy on one suite."""

    policy_digest: str
    suite_digest: str
    split: Split
    decoding: Decoding
    draws: int = Field(ge=1, description="episodes per item")
    n_episodes: int = Field(ge=1)
    n_items: int = Field(ge=1)
    n_clusters: int = Field(ge=1)
    measures: dict[str, Interval] = Field(
        description="by name: mean_reward, median_reward, success_rate, <flag>_rate ..."
    )
    strata: dict[str, dict[str, Stratum]] = Field(description="label, then value of the label")


class Reports(Record):
    """What reports.json holds: the arms by the name of their episodes' file, and the scripted players by
    name."""

    arms: dict[str, Report]
    baselines: dict[str, Report]


def measure_columns(
    columns: Mapping[str, Sequence[float | None]],
    clusters: Sequence[str],
    rng: np.random.Generator,
    known: Mapping[str, ClusterSums | None] | None = None,
) -> dict[str, Interval]:
    """Return every measure with its interval, and the median of the reward.

    Args:
        columns: Measure → its value in every episode, None where it is not defined; [episodes].
        clusters: Of every episode.
        rng: Of the bootstrap.
        known: The sums of each measure by cluster, where they are at hand.
    """
    counts: dict[int, Array] = {}
    found: dict[str, Interval] = {}
    for name, values in columns.items():
        sums = cluster_sums(values, clusters) if known is None else known[name]
        if sums is None:
            found[name] = missing()
        elif is_rate(name):
            found[name] = rate_interval(sums)
        else:
            sums = grouped(sums, rng)
            n = len(sums.names)
            if n not in counts:
                counts[n] = resample_counts(n, rng)
            found[name] = studentised_interval(sums, counts[n])
        if name == "mean_reward":
            found["median_reward"] = median_interval(
                [value for value in values if value is not None], clusters
            )
    return found


def _of(sums: ClusterSums | None, homes: Set[str]) -> ClusterSums | None:
    """Return the sums of some clusters, None where the measure is defined in none of them."""
    kept = [] if sums is None else [k for k, name in enumerate(sums.names) if name in homes]
    if sums is None or not kept:
        return None
    return ClusterSums(tuple(sums.names[k] for k in kept), sums.totals[kept], sums.sizes[kept])


def summarise(
    episodes: Sequence[Episode],
    *,
    policy_digest: str,
    suite_digest: str,
    split: Split,
    decoding: Decoding,
    draws: int,
    rng: np.random.Generator,
    only: Collection[str] | None = None,
) -> Report:
    """Return the report of one policy on one suite; the order of the episodes does not matter.

    Rates have Wilson intervals at their effective sample size, means studentised cluster-bootstrap intervals
    (from `rng`), the median a Woodruff interval; n of an interval counts the episodes where the value is
    defined. `only` names the measures that are meant, where not all are.

    Raises:
        EvidenceError: the episodes are not a whole suite (see `check_complete`).
    """
    check_complete(episodes, draws, "summarise")
    ordered = sorted(episodes, key=lambda episode: (episode.item_id, episode.draw))
    clusters = [episode.cluster for episode in ordered]
    names = [name for name in measure_names(ordered) if only is None or name in only]
    columns = {name: list(map(reader_of(name), ordered)) for name in names}
    whole = {name: cluster_sums(column, clusters) for name, column in columns.items()}
    sizes = Counter(clusters)
    strata: dict[str, dict[str, Stratum]] = {}
    for label in sorted({label for episode in ordered for label in episode.strata}):
        strata[label] = {}
        for value in sorted({episode.strata[label] for episode in ordered if label in episode.strata}):
            part = [row for row, episode in enumerate(ordered) if episode.strata.get(label) == value]
            homes = [clusters[row] for row in part]
            nested = all(sizes[home] == n for home, n in Counter(homes).items())
            strata[label][value] = Stratum(
                n_episodes=len(part),
                n_items=len({ordered[row].item_id for row in part}),
                n_clusters=len(set(homes)),
                measures=measure_columns(
                    {name: [column[row] for row in part] for name, column in columns.items()},
                    homes,
                    rng,
                    {name: _of(sums, set(homes)) for name, sums in whole.items()} if nested else None,
                ),
            )
    return Report(
        policy_digest=policy_digest,
        suite_digest=suite_digest,
        split=split,
        decoding=decoding,
        draws=draws,
        n_episodes=len(ordered),
        n_items=len({episode.item_id for episode in ordered}),
        n_clusters=len(set(clusters)),
        measures=measure_columns(columns, clusters, rng, whole),
        strata=strata,
    )


def report_on(episodes: Sequence[Episode], suite: Suite, policy_digest: str, decoding: Decoding) -> Report:
    """Return the report of episodes of a suite; its bootstrap draws depend on the suite alone."""
    return summarise(
        episodes,
        policy_digest=policy_digest,
        suite_digest=suite.digest,
        split=suite.split,
        decoding=decoding,
        draws=suite.draws,
        rng=labelled_rng("report", suite.digest),
    )
