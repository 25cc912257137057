"""One policy on one suite, as numbers with intervals; comparing two of them is the work of the evidence room."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from assay.errors import EvidenceError
from assay.evaluation.clusters import Array, cluster_sums
from assay.evaluation.statistics import median_interval, missing, rate_interval, resample_counts, studentised_interval
from assay.evaluation.suite import Suite
from assay.records import Episode, Interval, Record, Split
from assay.seeds import rng as labelled_rng

Decoding = Literal["sampled", "greedy"]
_FIRST_FLAGS = ("mass_correct", "channel_correct")


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


class Baselines(Record):
    """Reports of scripted players on one suite, by name."""

    reports: dict[str, Report]


def _fraction(yes: Iterable[bool], n: int) -> float | None:
    return sum(yes) / n if n else None


_FIXED: dict[str, Callable[[Episode], float | None]] = {
    "mean_reward": lambda episode: episode.reward,
    "success_rate": lambda episode: float(episode.success),
    "parsed_rate": lambda episode: _fraction((t.outcome != "failed" for t in episode.turns), len(episode.turns)),
    "truncated_rate": lambda episode: _fraction((t.truncated for t in episode.turns), len(episode.turns)),
    "mean_n_steps": lambda episode: float(len(episode.turns)),
    "mean_tokens": lambda episode: float(episode.n_tokens),
    "mean_tokens_per_completion": lambda episode: episode.n_tokens / len(episode.turns) if episode.turns else None,
}


def value_of(episode: Episode, measure: str) -> float | None:
    """Return what one episode contributes to a measure (see `measure_names`); None where the question does not arise.

    A reward part that an episode never earned is an empty sum, 0; an absent flag or metric is None.
    """
    return _reader(measure)(episode)


def _reader(measure: str) -> Callable[[Episode], float | None]:
    kind, _, name = measure.partition(".")
    if measure in _FIXED:
        return _FIXED[measure]
    if kind == "part" and name:
        return lambda episode: episode.parts.get(name, 0.0)
    if kind == "metric" and name:
        return lambda episode: episode.metrics.get(name)
    flag = measure.removesuffix("_rate")
    return lambda episode: None if (found := episode.flags.get(flag)) is None else float(found)


def is_rate(measure: str) -> bool:
    """Return whether a measure is a share in [0, 1].

    >>> is_rate("success_rate"), is_rate("part.mass"), is_rate("metric.odd_rate")
    (True, False, False)
    """
    return measure.endswith("_rate") and "." not in measure


def measure_names(episodes: Sequence[Episode]) -> tuple[str, ...]:
    """Return every measure of these episodes except the median.

    Fixed ones first, then `<flag>_rate`, `part.<name>`, `metric.<name>`.
    """
    flags = sorted({name for episode in episodes for name in episode.flags}, key=_flag_order)
    parts = sorted({name for episode in episodes for name in episode.parts})
    metrics = sorted({name for episode in episodes for name in episode.metrics})
    fixed = list(_FIXED)
    names = [*fixed[:2], *(f"{flag}_rate" for flag in flags), *fixed[2:]]
    return (*names, *(f"part.{part}" for part in parts), *(f"metric.{metric}" for metric in metrics))


def _flag_order(flag: str) -> tuple[bool, int, str]:
    place = _FIRST_FLAGS.index(flag) if flag in _FIRST_FLAGS else len(_FIRST_FLAGS)
    return not flag.endswith("_correct"), place, flag


def column_name(measure: str) -> str:
    """Return the column that a measure has in tables: `<x>_correct_rate` becomes `<x>_acc`, others keep their name.

    >>> column_name("mass_correct_rate"), column_name("discovered_rate")
    ('mass_acc', 'discovered_rate')
    """
    return measure.removesuffix("_correct_rate") + "_acc" if measure.endswith("_correct_rate") else measure


def check_complete(episodes: Sequence[Episode], draws: int, where: str) -> None:
    """Refuse episodes that are not a whole suite: each item with draws 0..draws-1 exactly once, all numbers finite.

    Raises:
        EvidenceError: missing or repeated draws, an item in two clusters or strata, a non-finite number.
    """

    def refuse(expected: str, found: str) -> EvidenceError:
        return EvidenceError(expected, found=found, where=where, fix="evaluate the whole suite again; drop nothing")

    if not episodes:
        raise refuse("at least one episode", "none")
    counts = Counter((episode.item_id, episode.draw) for episode in episodes)
    repeated = [key for key, n in counts.items() if n > 1]
    if repeated:
        raise refuse("each draw of each item once", f"{len(repeated)} repeated, first {min(repeated)}")
    wanted = {(item, draw) for item, _ in counts for draw in range(draws)}
    if odd := wanted ^ set(counts):
        kind = "missing" if wanted - set(counts) else "beyond the plan"
        raise refuse(f"draws 0..{draws - 1} of every item", f"{len(odd)} {kind}, first {min(odd)}")
    homes = {(episode.item_id, episode.cluster, *sorted(episode.strata.items())) for episode in episodes}
    if len(homes) != len({episode.item_id for episode in episodes}):
        raise refuse("one cluster and one set of strata per item", "an item with two")
    for episode in episodes:
        numbers = [episode.reward, *episode.parts.values(), *(m for m in episode.metrics.values() if m is not None)]
        if not all(math.isfinite(number) for number in numbers):
            raise refuse("finite rewards, parts and metrics", f"item {episode.item_id} draw {episode.draw} is not")


def _measure(
    columns: Mapping[str, Sequence[float | None]], clusters: Sequence[str], rng: np.random.Generator
) -> dict[str, Interval]:
    counts: dict[int, Array] = {}
    found: dict[str, Interval] = {}
    for name, values in columns.items():
        sums = cluster_sums(values, clusters)
        if sums is None:
            found[name] = missing()
        elif is_rate(name):
            found[name] = rate_interval(sums)
        else:
            n = len(sums.names)
            if n not in counts:
                counts[n] = resample_counts(n, rng)
            found[name] = studentised_interval(sums, counts[n])
        if name == "mean_reward":
            found["median_reward"] = median_interval([value for value in values if value is not None], clusters)
    return found


def summarise(
    episodes: Sequence[Episode],
    *,
    policy_digest: str,
    suite_digest: str,
    split: Split,
    decoding: Decoding,
    draws: int,
    rng: np.random.Generator,
) -> Report:
    """Return the report of one policy on one suite; the order of the episodes does not matter.

    Rates have Wilson intervals at their effective sample size, means studentised cluster-bootstrap intervals (from
    `rng`), the median a Woodruff interval; n of an interval counts the episodes where the value is defined.

    Raises:
        EvidenceError: the episodes are not a whole suite (see `check_complete`).
    """
    check_complete(episodes, draws, "summarise")
    ordered = sorted(episodes, key=lambda episode: (episode.item_id, episode.draw))
    clusters = [episode.cluster for episode in ordered]
    columns = {name: list(map(_reader(name), ordered)) for name in measure_names(ordered)}
    strata: dict[str, dict[str, Stratum]] = {}
    for label in sorted({label for episode in ordered for label in episode.strata}):
        strata[label] = {}
        for value in sorted({episode.strata[label] for episode in ordered if label in episode.strata}):
            part = [row for row, episode in enumerate(ordered) if episode.strata.get(label) == value]
            homes = [clusters[row] for row in part]
            strata[label][value] = Stratum(
                n_episodes=len(part),
                n_items=len({ordered[row].item_id for row in part}),
                n_clusters=len(set(homes)),
                measures=_measure({name: [column[row] for row in part] for name, column in columns.items()}, homes, rng),
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
        measures=_measure(columns, clusters, rng),
        strata=strata,
    )


def report_on(
    episodes: Sequence[Episode], suite: Suite, policy_digest: str, decoding: Decoding
) -> Report:
    """Return the report of episodes of a suite; its bootstrap draws depend on the suite alone."""
    return summarise(
        episodes, policy_digest=policy_digest, suite_digest=suite.digest, split=suite.split, decoding=decoding,
        draws=suite.draws, rng=labelled_rng("report", suite.digest),
    )  # fmt: skip
