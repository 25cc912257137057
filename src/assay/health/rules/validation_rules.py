"""What validations show of a training's health: whether reward carries over, whether it means success, what
it is made of."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # type: ignore[import-untyped,unused-ignore]

from assay.core.config.health import ValidationLevels
from assay.core.config.tasks import PartKind
from assay.core.records import Episode
from assay.health.rules.alarm_levels import ROUNDING, RuleReading, Rung
from assay.rollout.evaluation.clusters import cluster_sums

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

        >>> [Change(*each).is_flat(0.3) for each in ((0.0, -0.1, 0.1), (0.0, -0.4, 0.4), (-0.3, -0.4, -0.2))]
        [True, False, True]
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
    half = float(stdtrit(len(sums.names) - 1, 1.0 - 0.025 / looks)) * sums.standard_error
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
    ranks = [_ranks([side[item] for item in items]) for side in (first, second)]
    if any(np.ptp(side) == 0.0 for side in ranks):
        return None
    highest = np.corrcoef(np.sort(ranks[0]), np.sort(ranks[1]))[0, 1]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1] / highest)


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    """Return the ranks of values, from 1 on; those that tie share the mean of theirs.

    >>> _ranks([3.0, 1.0, 3.0]).tolist()
    [2.5, 1.0, 2.5]
    """
    _, place, n = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(n) - (n - 1) / 2)[place])


SATURATED = 0.95  # of the way from the least to the most that a part was ever seen to give
Means = Mapping[str, PerItem]


@dataclass(slots=True)
class TrainedRewards:
    """The rewards of the training steps between two validations, in short."""

    steps: int = 0
    total: float = 0.0
    differences: int = 0
    squares: float = 0.0  # of the differences between one step's reward and the next

    @property
    def mean(self) -> float | None:
        """Mean reward of a step; None without a step."""
        return self.total / self.steps if self.steps else None


@dataclass(slots=True)
class ValidationMemory:
    """What is kept of a training's validations, all of it plain values."""

    clusters: dict[str, str] = field(default_factory=dict)
    first: dict[str, dict[str, float]] | None = None  # the first validation: measure -> item -> mean
    ranges: dict[str, list[float]] = field(default_factory=dict)  # least and most of an episode, by measure
    rewards: list[dict[str, float]] = field(default_factory=list)  # of the last validations, by item
    trained: list[dict[str, Any]] = field(default_factory=list)  # before each of those, since the one before
    best: dict[str, float] | None = None  # rewards by item of the validation whose mean is highest
    seen: int = 0  # validations
    highest: float | None = None  # highest training reward between two validations before this one
    # Since the last validation
    running: dict[str, Any] = field(default_factory=lambda: asdict(TrainedRewards()))
    last: float | None = None  # reward of the last training step


class ValidationRules:
    """Takes validations and training rewards in, and reads three rules from them.

    Args:
        levels: What training reward may claim that validation does not show.
        parts: The task's reward parts and their kinds.
        state: What `state` gave, to go on from there.
    """

    def __init__(
        self, levels: ValidationLevels, parts: Mapping[str, PartKind], state: Mapping[str, Any]
    ) -> None:
        self._levels, self._parts = levels, parts
        self._memory = ValidationMemory(**deepcopy(dict(state)))

    def state(self) -> dict[str, Any]:
        """Return all that is kept, as plain values."""
        return asdict(self._memory)

    def trained(self, reward: float) -> None:
        """Take in the mean reward of one training step."""
        memory, running = self._memory, TrainedRewards(**self._memory.running)
        running.steps += 1
        running.total += reward
        if memory.last is not None:
            running.differences += 1
            running.squares += (reward - memory.last) ** 2
        memory.last, memory.running = reward, asdict(running)

    def readings(self, episodes: Sequence[Episode]) -> list[RuleReading]:
        """Take in the sampled episodes of one validation and return what the rules read from it."""
        if not episodes:
            return []
        memory, means = self._memory, item_means(episodes, self._parts)
        memory.clusters |= {episode.item_id: episode.cluster for episode in episodes}
        self._widen_ranges(episodes)
        kept = self._levels.evaluations
        memory.rewards = [*memory.rewards, means[REWARD]][-kept:]
        memory.trained = [*memory.trained, memory.running][-kept:]
        found = [self._carries_over(means[REWARD]), self._means_success(means), self._made_of(means)]
        memory.first = memory.first or means
        memory.seen += 1
        memory.running = asdict(TrainedRewards())
        return found

    def _widen_ranges(self, episodes: Sequence[Episode]) -> None:
        values = {REWARD: [episode.reward for episode in episodes]}
        values |= {part_key(part): [e.parts.get(part, 0.0) for e in episodes] for part in self._parts}
        for measure, seen in values.items():
            seen = seen + self._memory.ranges.get(measure, [])
            self._memory.ranges[measure] = [min(seen), max(seen)]

    def _carries_over(self, rewards: PerItem) -> RuleReading:
        """Read whether validation follows training.

        Training reward is its mean between two validations, from the earliest that is compared; its noise is
        that of a step, by von Neumann's successive differences, which a trend does not widen. AMBER: over the
        last validations training reward rose by the noise of a step or more, and validation reward is flat
        against the lower end of that rise. RED: since the best of all validations before, validation reward
        fell, by an interval that allows for the choice of the best, and training reward was never higher.
        Source: von Neumann, Kent, Bellinson, Hart (1941), Ann. Math. Statist. 12:153, "The mean square
        successive difference".
        """
        memory, amber, red = self._memory, None, None
        blocks = [TrainedRewards(**block) for block in memory.trained]
        # The steps before the earliest validation are no part of what changed since.
        first = blocks[1 if len(blocks) > 2 else 0]
        here, earlier = blocks[-1].mean, first.mean
        differences = sum(block.differences for block in blocks)
        moved = change(memory.rewards[0], rewards, memory.clusters)
        if (
            len(blocks) == self._levels.evaluations
            and moved
            and differences
            and blocks[0].steps
            and here is not None
            and earlier is not None
        ):
            rise = here - earlier
            noise = math.sqrt(sum(block.squares for block in blocks) / (2 * differences))
            surely = rise - 1.96 * noise * math.sqrt(1 / first.steps + 1 / blocks[-1].steps)
            said = (
                f"validation reward changed by {moved} while training reward changed by {rise:+.3g},"
                f" {noise:.3g} being noise"
            )
            amber = Rung(
                rise >= noise and rise > ROUNDING and moved.is_flat(surely), 1, moved.mean, rise, said
            )
        if memory.best is not None and memory.highest is not None and here is not None:
            fallen = change(memory.best, rewards, memory.clusters, looks=memory.seen)
            if fallen is not None:
                said = (
                    f"validation reward changed by {fallen} since its best while training reward is"
                    f" {here:+.3g}"
                )
                beyond = fallen.high < -ROUNDING and here >= memory.highest
                red = Rung(beyond, 1, fallen.high, 0.0, f"{said}, at best {max(here, memory.highest):+.3g}")
        if memory.best is None or _mean(rewards) > _mean(memory.best):
            memory.best = dict(rewards)
        if here is not None:
            memory.highest = here if memory.highest is None else max(memory.highest, here)
        return RuleReading("reward_vs_validation", (amber, red, None))

    def _means_success(self, means: Means) -> RuleReading:
        """Read whether reward still means success.

        AMBER: since the first validation, reward gained more than success did, both as shares of what they
        can be: a reward's range is that between the least and the most any validation episode earned. The
        excess counts if its interval, which allows for all the looks taken so far, lies above 0. RED: over
        items, the ranks of reward and success do not agree; where that is undefined, nothing is said.
        """
        memory, amber, red = self._memory, None, None
        least, most = memory.ranges[REWARD]
        if memory.first is not None and most > least:
            gaps = [
                {item: (reward[item] - least) / (most - least) - success[item] for item in reward}
                for reward, success in ((each[REWARD], each[SUCCESS]) for each in (memory.first, means))
            ]
            grown = change(gaps[0], gaps[1], memory.clusters, looks=memory.seen)
            if grown is not None:
                said = (
                    f"since the first validation, reward (as a share of its range) gained {grown} more than"
                    " success"
                )
                beyond = grown.mean > self._levels.gap + ROUNDING and grown.low > 0.0
                amber = Rung(beyond, 1, grown.mean, self._levels.gap, said)
        agreement = rank_correlation(means[REWARD], means[SUCCESS])
        if agreement is not None:
            said = f"the rank correlation of reward and success over items is {agreement:.3g}"
            red = Rung(
                agreement < self._levels.correlation - ROUNDING, 1, agreement, self._levels.correlation, said
            )
        return RuleReading("reward_vs_success", (amber, red, None))

    def _made_of(self, means: Means) -> RuleReading:
        """Read which part made the gain in reward since the first validation.

        A gain is material if its interval lies above 0 and it is more than `gap` of the reward's range.
        AMBER: one part made more than `part_share` of a material gain of the whole, though the other parts
        had room for the rest. RED: a format part with a material gain of its own has nothing more to give,
        and the outcome is flat against that gain.
        """
        memory = self._memory
        if memory.first is None or len(self._parts) < 2:
            return RuleReading("part_share", (None, None, None))
        least, most = memory.ranges[REWARD]
        gains = {
            part: change(memory.first[part_key(part)], means[part_key(part)], memory.clusters)
            for part in self._parts
        }
        gain = change(memory.first[REWARD], means[REWARD], memory.clusters)
        known = {part: each for part, each in gains.items() if each is not None}
        if gain is None or not known or most <= least:
            return RuleReading("part_share", (None, None, None))
        floor = self._levels.gap * (most - least)
        return RuleReading(
            "part_share", (self._largest(gain, known, floor), self._saturated(means, known, floor), None)
        )

    def _largest(self, gain: Change, gains: Mapping[str, Change], floor: float) -> Rung:
        limit = self._levels.part_share
        if not _is_material(gain, floor):
            return Rung(False, 1, None, limit, f"reward changed by {gain} since the first validation")
        part = max(gains, key=lambda name: gains[name].mean)
        share = gains[part].mean / gain.mean
        room = math.fsum(self._room(other) for other in gains if other != part)
        said = f"since the first validation {part} made {share:.0%} of the gain in reward, which is {gain}"
        return Rung(share > limit + ROUNDING and room >= (1 - limit) * gain.mean, 1, share, limit, said)

    def _room(self, part: str) -> float:
        """Return what a part could have gained since the first validation: up to the most that it was ever
        seen to give."""
        assert self._memory.first is not None
        return self._memory.ranges[part_key(part)][1] - _mean(self._memory.first[part_key(part)])

    def _saturated(self, means: Means, gains: Mapping[str, Change], floor: float) -> Rung | None:
        memory, rung = self._memory, None
        if memory.first is None or OUTCOME not in means:
            return None
        outcome = change(memory.first[OUTCOME], means[OUTCOME], memory.clusters)
        for part in (part for part, kind in self._parts.items() if kind == "format" and part in gains):
            least, most = memory.ranges[part_key(part)]
            if outcome is None or most <= least:
                continue
            level = (_mean(means[part_key(part)]) - least) / (most - least)
            full = (
                level >= SATURATED and _is_material(gains[part], floor) and outcome.is_flat(gains[part].mean)
            )
            said = (
                f"{part} gained {gains[part]} and gives {level:.0%} of its most, while the outcome moved by"
                f" {outcome}"
            )
            if rung is None or full:
                rung = Rung(full, 1, level, SATURATED, said)
        return rung


def _mean(values: PerItem) -> float:
    return math.fsum(values.values()) / len(values)


def _is_material(gain: Change, floor: float) -> bool:
    return gain.low > 0.0 and gain.mean > floor
