"""What another reward changes within groups: their order, the signs of advantages, agreement with success.

An interval stands over items, since groups of one item at several steps are not independent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from assay.core.records import Interval, Record
from assay.core.seeds import rng
from assay.evaluation.clusters import Array, ClusterSums
from assay.statistics.intervals import mean_interval, rate_interval
from assay.tools.rescore.rewards import Rewarded, Scored

EXACT = 1e-9  # of the largest reward: what rewards may differ by and still be equal


class Counted(Record):
    """How many of something, and their share with its interval over items."""

    count: int = Field(ge=0)
    share: Interval


class GroupChange(Record):
    """One group: what the other reward changes in it."""

    group: str
    item: str
    n: int = Field(ge=2)
    order: str = Field(description="same, reversed (a pair changed places) or ties (only equal ones changed)")
    flips: int = Field(ge=0, description="advantages whose sign changed to the other one")
    lost: int = Field(ge=0, description="advantages that are 0 now")
    gained: int = Field(ge=0, description="advantages that were 0")
    auc_before: float | None
    auc_after: float | None


class Comparison(Record):
    """What another reward changes over all groups."""

    groups: int = Field(ge=1)
    members: int = Field(ge=2)
    alone: int = Field(ge=0, description="completions without another one to be compared with")
    order_changed: Counted = Field(
        description="groups in which some pair is ordered otherwise, ties included"
    )
    order_reversed: Counted = Field(description="groups in which some pair changed places")
    flips: Counted = Field(description="advantages whose sign changed to the other one")
    lost: Counted = Field(description="advantages that are 0 now: nothing is learned from them any more")
    gained: Counted = Field(description="advantages that were 0")
    silent_before: Counted = Field(description="groups in which all earned the same")
    silent_after: Counted
    pairs: int = Field(ge=0, description="of a success and a failure in one group; ties count half")
    auc_before: Interval = Field(description="share of these pairs in which the success earned more")
    auc_after: Interval
    auc_gain: Interval
    spread_before: dict[str, float] = Field(description="share of each part in the spread within groups")
    spread_after: dict[str, float]


@dataclass(slots=True)
class _Sums:
    """Totals and sizes of a ratio, by item."""

    totals: dict[str, float]
    sizes: dict[str, float]

    @classmethod
    def empty(cls) -> _Sums:
        return cls(defaultdict(float), defaultdict(float))

    def add(self, cluster: str, total: float, size: float) -> None:
        self.totals[cluster] += total
        self.sizes[cluster] += size

    def sums(self) -> ClusterSums | None:
        names = tuple(sorted(name for name, size in self.sizes.items() if size))
        if not names:
            return None
        totals, sizes = ([of[name] for name in names] for of in (self.totals, self.sizes))
        return ClusterSums(names, np.array(totals), np.array(sizes))

    def counted(self) -> Counted:
        return Counted(count=round(sum(self.totals.values())), share=rate_interval(self.sums()))


RATES = ("order_changed", "order_reversed", "silent_before", "silent_after", "flips", "lost", "gained")


def compare_rewards(
    rows: Sequence[Scored], after: Sequence[Rewarded], luck: str
) -> tuple[Comparison | None, list[GroupChange]]:
    """Return what changes, and each group; None where no group has two members.

    Args:
        rows: As they were rewarded.
        after: What each earns now.
        luck: What the resampling of the interval of the gain is drawn by.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        groups[row.group].append(place)
    of_two = {name: places for name, places in groups.items() if len(places) > 1}
    if not of_two:
        return None, []
    old = np.array([row.reward for row in rows])
    new = np.array([each.reward for each in after])
    scales = [float(np.abs(each).max()) or 1.0 for each in (old, new)]
    found = {name: _Sums.empty() for name in RATES}
    aucs = [_Sums.empty(), _Sums.empty(), _Sums.empty()]
    changes = []
    for name, places in of_two.items():
        cluster, n = rows[places[0]].cluster, len(places)
        orders = [_signs(each[places], scale) for each, scale in zip((old, new), scales, strict=True)]
        apart = orders[0] != orders[1]
        reversed_ = bool((orders[0] * orders[1] < 0).any())
        gains = [
            _advantage_signs(each[places], scale) for each, scale in zip((old, new), scales, strict=True)
        ]
        flips = int((gains[0] * gains[1] < 0).sum())
        lost, gained = (int(((gains[a] != 0) & (gains[1 - a] == 0)).sum()) for a in (0, 1))
        for key, value, size in (
            ("order_changed", bool(apart.any()), 1),
            ("order_reversed", reversed_, 1),
            ("silent_before", not orders[0].any(), 1),
            ("silent_after", not orders[1].any(), 1),
            ("flips", flips, n),
            ("lost", lost, n),
            ("gained", gained, n),
        ):
            found[key].add(cluster, float(value), size)
        told = [rows[place].success for place in places]
        pairs, right = _agreement(told, orders)
        for sums, total in zip(aucs, (*right, right[1] - right[0]), strict=True):
            sums.add(cluster, total, pairs)
        changes.append(
            GroupChange(
                group=name,
                item=rows[places[0]].item,
                n=n,
                order="reversed" if reversed_ else "ties" if apart.any() else "same",
                flips=flips,
                lost=lost,
                gained=gained,
                auc_before=right[0] / pairs if pairs else None,
                auc_after=right[1] / pairs if pairs else None,
            )
        )
    members = sum(map(len, of_two.values()))
    return (
        Comparison(
            groups=len(of_two),
            members=members,
            alone=len(rows) - members,
            **{name: sums.counted() for name, sums in found.items()},
            pairs=round(sum(aucs[0].sizes.values())),
            auc_before=rate_interval(aucs[0].sums()),
            auc_after=rate_interval(aucs[1].sums()),
            auc_gain=mean_interval(aucs[2].sums(), rng("rescore", luck)),
            spread_before=_spread([row.parts for row in rows], old, of_two.values()),
            spread_after=_spread([each.parts for each in after], new, of_two.values()),
        ),
        changes,
    )


def _signs(rewards: Array, scale: float) -> Array:
    """Return for each pair which one earned more: 1 the first, -1 the second, 0 neither, [n, n]."""
    apart = rewards[:, None] - rewards[None, :]
    return np.where(np.abs(apart) <= EXACT * scale, 0.0, np.sign(apart))


def _advantage_signs(rewards: Array, scale: float) -> Array:
    """Return the sign of each reward less the group's mean, which is that of GRPO's advantage."""
    apart = rewards - rewards.mean()
    return np.where(np.abs(apart) <= EXACT * scale, 0.0, np.sign(apart))


def _agreement(success: Sequence[float | None], orders: Sequence[Array]) -> tuple[int, list[float]]:
    """Return the pairs of a better and a worse one by success, and in how many each reward agrees."""
    if any(each is None for each in success):
        return 0, [0.0, 0.0]
    told = np.array(success, dtype=float)
    better = told[:, None] > told[None, :]
    return int(better.sum()), [float(((order[better] + 1) / 2).sum()) for order in orders]


def _spread(
    parts: Sequence[Mapping[str, float]], rewards: Array, groups: Iterable[list[int]]
) -> dict[str, float]:
    """Return the share of each part in the variance of rewards within groups: its covariance with the reward
    over that variance. Shares sum to 1, and one below 0 pulls against the rest; none without variance."""
    names = sorted({name for each in parts for name in each})
    values = np.array([[each.get(name, 0.0) for name in names] for each in parts]).reshape(len(parts), -1)
    total, shares = 0.0, np.zeros(len(names))
    for places in groups:
        apart = rewards[places] - rewards[places].mean()
        total += float(apart @ apart)
        shares += apart @ (values[places] - values[places].mean(axis=0))
    if total <= 0.0:
        return {}
    return {name: round(float(share) / total, 6) for name, share in zip(names, shares, strict=True)}
