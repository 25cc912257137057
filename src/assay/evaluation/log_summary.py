"""Logs in short: what the numbers of a training were over its steps, and what episodes of any file came to."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from assay.evaluation.clusters import cluster_sums
from assay.evaluation.report import is_rate, measure_names, value_of
from assay.evaluation.statistics import mean_interval, median_interval, rate_interval
from assay.evaluation.timing import block_interval
from assay.records import Episode, HealthEvent, HealthLevel, HealthRule, HealthSummary, Interval
from assay.seeds import Label, rng

# These run on over the steps: what they were first and last is all that can be said of them.
CUMULATIVE = frozenset({"epoch", "num_tokens", "wall_time_s"})


@dataclass(frozen=True, slots=True)
class Series:
    """One number of a log over the steps in which it was measured, in its own unit; None where it never was.

    `mean` has a block-bootstrap interval: neighbouring steps are not independent, and another training is no further step
    of this one, so it describes this series and tests nothing. The percentiles are measured values: the smallest that 50,
    95 or 99 % of the steps do not exceed (p50: the mean of the middle two for an even number).
    """

    name: str
    n_rows: int
    first: float | None
    last: float | None
    mean: Interval | None
    p50: float | None
    p95: float | None
    p99: float | None
    largest: float | None

    @property
    def n(self) -> int:
        """Steps in which it was measured; where it only runs on, there is no mean and no n but that of the rows."""
        return self.n_rows if self.mean is None else self.mean.n

    @property
    def is_time(self) -> bool:
        """Whether it is a time in seconds that each step took."""
        return self.name.endswith("_s") and self.name not in CUMULATIVE


def series_of(name: str, values: Sequence[float | None], *labels: Label) -> Series:
    """Return one number of a log in short; equal values and labels give equal intervals.

    >>> found = series_of("loss", [3.0, None, 1.0], "doctest")
    >>> found.first, found.last, found.mean.value, found.mean.n, found.n_rows
    (3.0, 1.0, 2.0, 2, 3)
    """
    known = [value for value in values if value is not None]
    first, last = (known[0], known[-1]) if known else (None, None)
    if not known or name in CUMULATIVE:
        mean = Interval(value=None, low=None, high=None, n=0) if not known else None
        return Series(name, len(known) if mean is None else len(values), first, last, mean, None, None, None, None)
    mean = block_interval(known, rng("log summary", *labels), 2000)
    p95, p99 = (float(np.quantile(known, share, method="inverted_cdf")) for share in (0.95, 0.99))
    return Series(name, len(values), first, last, mean, round(float(np.median(known)), 10), p95, p99, max(known))


def step_seconds(steps: Sequence[int], wall: Sequence[float | None]) -> list[float | None]:
    """Return how long each step took by a clock that runs on; None where the step before it is not in the log.

    >>> step_seconds([1, 2, 4], [1.5, 4.0, 9.0])
    [None, 2.5, None]
    """
    found: list[float | None] = [None] if steps else []
    for (before, then), (step, now) in pairwise(zip(steps, wall, strict=True)):
        known = step == before + 1 and then is not None and now is not None
        found.append(round(now - then, 6) if known and now is not None and then is not None else None)
    return found


@dataclass(frozen=True, slots=True)
class Ending:
    """The episodes that stopped for one reason: how many, their share of all, and what they earned."""

    name: str
    n: int
    share: Interval
    mean_reward: Interval


@dataclass(frozen=True, slots=True)
class EpisodesSummary:
    """Episodes of one policy, with intervals over clusters; n of an interval counts episodes in which it is defined."""

    n_episodes: int
    n_items: int
    n_clusters: int
    measures: dict[str, Interval]
    endings: tuple[Ending, ...]


def episodes_summary(episodes: Sequence[Episode], *labels: Label) -> EpisodesSummary:
    """Return what episodes came to: rates as Wilson intervals at their effective number, means studentised over clusters.

    They need not be a whole suite; the order does not matter.

    Args:
        episodes: At least one.
        labels: Of the resampling.
    """
    ordered = sorted(episodes, key=lambda each: (each.item_id, each.draw))
    clusters = [each.cluster for each in ordered]
    found: dict[str, Interval] = {}
    for name in measure_names(ordered):
        sums = cluster_sums([value_of(each, name) for each in ordered], clusters)
        found[name] = rate_interval(sums) if is_rate(name) else mean_interval(sums, rng("log summary", *labels, name))
        if name == "mean_reward":
            found["median_reward"] = median_interval([each.reward for each in ordered], clusters)
    endings = []
    for name, n in sorted(Counter(each.ending for each in ordered).items()):
        share = rate_interval(cluster_sums([float(each.ending == name) for each in ordered], clusters))
        earned = [each.reward if each.ending == name else None for each in ordered]
        reward = mean_interval(cluster_sums(earned, clusters), rng("log summary", *labels, "ending", name))
        endings.append(Ending(name, n, share, reward))
    return EpisodesSummary(
        len(ordered), len({each.item_id for each in ordered}), len(set(clusters)), found, tuple(endings)
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class AlarmRate:
    """One rule of training health: its worst level, how often it left GREEN, and in how many of the logged steps it was."""

    rule: HealthRule
    worst: HealthLevel
    times: int
    n_steps: int
    of_steps: int

    @property
    def share(self) -> float | None:
        """The share of logged steps in which it was not GREEN."""
        return self.n_steps / self.of_steps if self.of_steps else None


def alarm_rates(events: Sequence[HealthEvent], steps: Sequence[int]) -> list[AlarmRate]:
    """Return how much of a training each rule that rang was not GREEN, in the order in which they first did.

    Args:
        events: Oldest first; one holds from its step until the next of its rule.
        steps: Those that were logged.
    """
    found = []
    for rule in HealthSummary.of(events).rules:
        told = [event for event in events if event.rule == rule.rule]
        at: Mapping[int, str] = {event.step: event.level for event in told}
        level, beyond = "GREEN", 0
        changes = sorted(at)
        place = 0
        for step in steps:
            while place < len(changes) and changes[place] <= step:
                level = at[changes[place]]
                place += 1
            beyond += level != "GREEN"
        found.append(AlarmRate(rule.rule, rule.level, rule.times, beyond, len(steps)))
    return found


def finite(value: float) -> bool:
    """Return whether a number can be summed with others like it without running over."""
    return math.isfinite(value) and abs(value) < 1e100


def longest_rising(steps: Sequence[int], *, each_once: bool) -> list[int]:
    """Return the places of the longest series of steps that go up, so that an absurd one costs itself and none after it.

    Args:
        steps: As they stand in a log.
        each_once: Whether a step may stand there only once.

    Source: Fredman (1975), Discrete Mathematics 11:29 (longest increasing subsequence by patience sorting).

    >>> longest_rising([1, 2, 999, 3, 3, 4], each_once=True), longest_rising([0, 0, 9, 5], each_once=False)
    ([0, 1, 3, 5], [0, 1, 3])
    """
    search = bisect_left if each_once else bisect_right
    ends: list[int] = []  # the smallest last step of a series of each length
    places: list[int] = []  # where it stands
    above: list[int] = []  # the place before each place, -1 for none
    for place, step in enumerate(steps):
        length = search(ends, step)
        above.append(places[length - 1] if length else -1)
        if length == len(ends):
            ends.append(step)
            places.append(place)
        elif step < ends[length]:  # of two equal ones the first stays
            ends[length], places[length] = step, place
    kept, place = [], places[-1] if places else -1
    while place >= 0:
        kept.append(place)
        place = above[place]
    return kept[::-1]
