"""What one number hides: how reliable success is, who answered, what collapsed, where a gain comes from.

None of it decides the verdict and none is corrected for the number of looks: all of it is exploratory.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from pydantic import Field

from assay.core.records import Episode, Interval, Record
from assay.rollout.dataset.suite import FEWEST_CLUSTERS, WORST, Unseen
from assay.rollout.evaluation.clusters import cluster_sums
from assay.rollout.evaluation.measures import best_of
from assay.verdict.evidence.details.confidence import StatedConfidence, stated_confidence
from assay.verdict.statistics.bounded_mean import bounded_mean_test
from assay.verdict.statistics.intervals import interval, missing

CONSTANT, VARIED = (
    0.9,
    0.7,
)  # from this share of answers on a value counts as constant; up to this one it varies
FEWEST_ANSWERS = 20


class Gap(Record):
    """One share in both arms and its paired difference over items."""

    before: float | None
    after: float | None
    difference: Interval
    n_clusters: int = Field(ge=0)


class AtK(Record):
    """Success in k draws of an item, drawn from those at hand without replacement."""

    k: int = Field(ge=1)
    any_right: Gap = Field(description="pass@k: at least one of k is right")
    all_right: Gap = Field(description="pass^k: all of k are right")


class Conditional(Record):
    """A share of those who answered, beside the share that did, and over all who could have."""

    flag: str
    among: str | None = Field(
        description="the flag that is asked wherever this one may be, whatever is said; null: all episodes"
    )
    answered_before: float = Field(ge=0, le=1)
    answered_after: float = Field(ge=0, le=1)
    of_those_who_answered: Gap
    silence_is_wrong: Gap = Field(
        description="over all items where it may be asked, no answer as a wrong one, in neither arm either"
    )


class Collapse(Record):
    """A field of the answer, or a metric, that is nearly constant after training and was not before."""

    name: str
    value: str
    share_before: float = Field(ge=0, le=1, description="of answers that hold it, share with this value")
    share_after: float = Field(ge=0, le=1)
    n_after: int = Field(ge=1, description="answers after training that hold it")


class Components(Record):
    """Standard deviations of paired differences, percentage points; null where the data cannot tell."""

    clusters: float | None = Field(description="of true gains between clusters")
    items: float | None = Field(description="of true gains between items of a cluster; null: one item each")
    draws: float | None = Field(
        description="of an item's difference by the luck of its draws; null: one draw"
    )
    standard_error: float | None = Field(description="of the mean difference")
    without_luck: float | None = Field(description="the same if each item were played without end")


class Changed(Record):
    """An item whose draws all changed, and the lines of its episodes in the files of both arms."""

    item_id: str
    cluster: str
    strata: dict[str, str]
    lines_before: tuple[int, ...]
    lines_after: tuple[int, ...]


class Details(Record):
    """What details.json holds."""

    at_k: tuple[AtK, ...]
    greedy: Gap = Field(description="success with greedy decoding")
    conditional: tuple[Conditional, ...]
    collapsed: tuple[Collapse, ...]
    components: Components
    by_base_success: dict[str, Gap] = Field(
        description="success by how many of one half of the base's draws were right; the other half is the"
        " arm before, and n counts halves"
    )
    broken: tuple[Changed, ...] = Field(description="right in all draws before, in none after")
    fixed: int = Field(ge=0, description="items right in no draw before, in all after")
    confidence: dict[str, StatedConfidence] = Field(
        default={}, description="of each arm, before and after; empty where the task asks for none"
    )


Values = Mapping[str, Sequence[float]]  # by item, one value for each of its draws
Place = tuple[str, int]  # an item, and which part of its draws
GapOf = Callable[[Mapping[Place, float], Mapping[Place, float]], Gap]


def details_of(
    before: Sequence[Episode],
    after: Sequence[Episode],
    greedy: tuple[Sequence[Episode], Sequence[Episode]],
    *,
    unseen: Unseen = WORST,
) -> Details:
    """Return the details of two arms that played the same items with the same draws.

    `before` and `after` stand in the order of their files; `greedy` holds both arms with greedy decoding;
    `unseen` is the cluster that nobody saw.
    """
    homes = {episode.item_id: episode.cluster for episode in before}
    wins = [_by_item(arm, lambda episode: float(episode.success)) for arm in (before, after)]
    draws = min(len(values) for arm in wins for values in arm.values())

    def gap(first: Mapping[Place, float], second: Mapping[Place, float]) -> Gap:
        return _gap(first, second, homes, unseen)

    def at(k: int) -> AtK:
        found = {
            name: gap(*({(item, 0): rule(v, k) for item, v in arm.items()} for arm in wins))
            for name, rule in (("any", best_of), ("all", _all_of))
        }
        return AtK(k=k, any_right=found["any"], all_right=found["all"])

    single = [_means(_by_item(arm, lambda episode: float(episode.success))) for arm in greedy]
    whole = {item: (sum(wins[0][item]), sum(wins[1][item])) for item in homes}
    strata = {episode.item_id: episode.strata for episode in before}
    full = {item: len(values) for item, values in wins[0].items()}
    lines = [_lines_of(arm) for arm in (before, after)]
    return Details(
        at_k=tuple(at(k) for k in range(1, draws + 1)),
        greedy=gap(*single),
        conditional=_conditional(before, after, gap),
        collapsed=_collapsed(before, after),
        components=_components(wins[0], wins[1], homes),
        by_base_success=_by_base_success(wins[0], wins[1], gap, draws),
        broken=tuple(
            Changed(
                item_id=item,
                cluster=homes[item],
                strata=strata[item],
                lines_before=tuple(lines[0][item]),
                lines_after=tuple(lines[1][item]),
            )
            for item, (b, a) in sorted(whole.items())
            if b == full[item] and a == 0
        ),
        fixed=sum(b == 0 and a == len(wins[1][item]) for item, (b, a) in whole.items()),
        confidence={
            name: found
            for name, arm in (("before", before), ("after", after))
            if (found := stated_confidence(arm))
        },
    )


def _by_item(arm: Sequence[Episode], value: Callable[[Episode], float | None]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for episode in sorted(arm, key=lambda each: (each.item_id, each.draw)):
        if (each := value(episode)) is not None:
            found[episode.item_id].append(each)
    return dict(found)


def _lines_of(arm: Sequence[Episode]) -> dict[str, list[int]]:
    """Return the lines of an arm's file by item, from 1."""
    found: dict[str, list[int]] = defaultdict(list)
    for number, episode in enumerate(arm, 1):
        found[episode.item_id].append(number)
    return found


def _means(values: Values) -> dict[Place, float]:
    return {(item, 0): math.fsum(each) / len(each) for item, each in values.items()}


def _all_of(values: Sequence[float], k: int) -> float:
    """Return the probability that k of these draws, 0 or 1, taken without replacement, are all 1.

    Source: Yao et al. (2024), tau-bench, arXiv 2406.12045, section 4: pass^k = C(c, k) / C(n, k).
    """
    return math.comb(round(sum(values)), k) / math.comb(len(values), k)


def _gap(
    first: Mapping[Place, float], second: Mapping[Place, float], homes: Mapping[str, str], unseen: Unseen
) -> Gap:
    items = sorted(first.keys() & second.keys())
    clusters = [homes[item] for item, _ in items]
    sums = cluster_sums([second[item] - first[item] for item in items], clusters)
    arms = [
        round(math.fsum(arm[i] for i in items) / len(items), 10) if items else None for arm in (first, second)
    ]
    if sums is None:
        return Gap(before=None, after=None, difference=missing(), n_clusters=0)
    found = interval(sums.mean, math.nan, math.nan, len(items))
    if len(sums.names) >= FEWEST_CLUSTERS:
        found = bounded_mean_test(sums, unseen=unseen)[1]
    return Gap(before=arms[0], after=arms[1], difference=found, n_clusters=len(sums.names))


def _conditional(before: Sequence[Episode], after: Sequence[Episode], gap: GapOf) -> tuple[Conditional, ...]:
    """Return the flags that are asked of some answers only: not in the same episodes of both arms.

    Each is seen among the episodes where it may be asked: those of the narrowest flag that is asked wherever
    it is, and of the same plays in both arms, so that the item decides and no answer.
    """
    arms = (before, after)
    names = sorted({flag for arm in arms for episode in arm for flag in episode.flags})
    asked = {
        name: frozenset(
            (k, episode.item_id, episode.draw)
            for k, arm in enumerate(arms)
            for episode in arm
            if episode.flags.get(name) is not None
        )
        for name in names
    }
    plays = {
        name: [{(item, draw) for k, item, draw in told if k == arm} for arm in (0, 1)]
        for name, told in asked.items()
    }
    same = {name: of[0] == of[1] for name, of in plays.items()}
    found = []
    for name in names:
        if same[name]:
            continue
        wider = [other for other in names if same[other] and asked[name] < asked[other]]
        among = min(wider, key=lambda other: (len(asked[other]), other), default=None)
        sizes = [sum(k == arm for arm, *_ in asked[among]) if among else len(arms[k]) for k in (0, 1)]
        told = [_means(_by_item(arm, partial(_flag, name=name))) for arm in arms]
        whole = [_means(_by_item(arm, partial(_flag_or_wrong, name=name, among=among))) for arm in arms]
        found.append(
            Conditional(
                flag=name,
                among=among,
                answered_before=round(len(plays[name][0]) / max(1, sizes[0]), 10),
                answered_after=round(len(plays[name][1]) / max(1, sizes[1]), 10),
                of_those_who_answered=gap(*told),
                silence_is_wrong=gap(*whole),
            )
        )
    return tuple(found)


def _flag(episode: Episode, name: str) -> float | None:
    found = episode.flags.get(name)
    return None if found is None else float(found)


def _flag_or_wrong(episode: Episode, name: str, among: str | None) -> float | None:
    if among is not None and episode.flags.get(among) is None:
        return None
    return _flag(episode, name) or 0.0


def _collapsed(before: Sequence[Episode], after: Sequence[Episode]) -> tuple[Collapse, ...]:
    said = [_said(arm) for arm in (before, after)]
    found = []
    for name, counts in sorted(said[1].items()):
        value, n = counts.most_common(1)[0]
        total, before_total = counts.total(), said[0][name].total() if name in said[0] else 0
        if total < FEWEST_ANSWERS or before_total < FEWEST_ANSWERS:
            continue
        shares = said[0][name][value] / before_total, n / total
        most_before = said[0][name].most_common(1)[0][1] / before_total
        if shares[1] >= CONSTANT and most_before <= VARIED:
            found.append(
                Collapse(
                    name=name,
                    value=value,
                    share_before=round(shares[0], 10),
                    share_after=round(shares[1], 10),
                    n_after=total,
                )
            )
    return tuple(found)


def _said(arm: Sequence[Episode]) -> dict[str, Counter[str]]:
    """Return how often each value was said, by metric and by field of the last answer, if that has fields."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for episode in arm:
        for name, number in episode.metrics.items():
            if number is not None:
                found[name][f"{number:g}"] += 1
        for name, field in _fields(episode).items():
            if isinstance(field, str | int | float | bool):
                found[f"field {name}"][json.dumps(field)] += 1
    return found


def _fields(episode: Episode) -> dict[str, object]:
    action = episode.turns[-1].action if episode.turns else None
    try:
        found = json.loads(action) if action else None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _components(first: Values, second: Values, homes: Mapping[str, str]) -> Components:
    """Return the components by analysis of variance of items nested in clusters.

    Source: Searle, Casella and McCulloch (1992), Variance Components, section 3.6 (unbalanced one-way
    layout); what the draws add is the mean of their sample variances over K, and is taken off.
    """
    items = sorted(homes)
    means = [_means(arm) for arm in (first, second)]
    gaps = np.array([means[1][item, 0] - means[0][item, 0] for item in items])
    sums = cluster_sums(list(gaps), [homes[item] for item in items])
    assert sums is not None
    luck = None
    if all(len(arm[item]) > 1 for arm in (first, second) for item in items):
        luck = float(
            np.mean([sum(np.var(arm[i], ddof=1) / len(arm[i]) for arm in (first, second)) for i in items])
        )
    n, sizes = len(items), sums.sizes
    if len(sizes) < 2:
        return Components(clusters=None, items=None, draws=_sd(luck), standard_error=None, without_luck=None)
    between = float((sizes * (sums.totals / sizes - gaps.mean()) ** 2).sum()) / (len(sizes) - 1)
    usual = (n - float((sizes**2).sum()) / n) / (len(sizes) - 1)
    within = None
    if n > len(sizes):
        places = {name: k for k, name in enumerate(sums.names)}
        own = np.array([(sums.totals / sizes)[places[homes[item]]] for item in items])
        within = float(((gaps - own) ** 2).sum()) / (n - len(sizes))
    rest = within if within is not None else (luck or 0.0)
    error = sums.standard_error**2
    return Components(
        clusters=_sd(max(0.0, (between - rest) / usual)),
        items=None if within is None or luck is None else _sd(max(0.0, within - luck)),
        draws=_sd(luck),
        standard_error=_sd(error),
        without_luck=None if luck is None else _sd(max(0.0, error - luck / n)),
    )


def _sd(variance: float | None) -> float | None:
    return None if variance is None or math.isnan(variance) else round(100 * math.sqrt(variance), 6)


def _by_base_success(first: Values, second: Values, gap: GapOf, draws: int) -> dict[str, Gap]:
    """Return success by difficulty: items are sorted by one half of the base's draws and measured by the
    other, and the other way round. By the same draws, hard ones would seem to gain by luck alone."""
    half = draws // 2
    found = {}
    for count in range(half + 1) if half else ():
        sides: tuple[dict[Place, float], dict[Place, float]] = ({}, {})
        for item, values in first.items():
            halves = values[:half], values[half : 2 * half]
            for k, (sorting, measuring) in enumerate((halves, halves[::-1])):
                if round(sum(sorting)) == count:  # each half on its own: so it is as likely as it ought to be
                    sides[0][item, k] = math.fsum(measuring) / half
                    sides[1][item, k] = math.fsum(second[item]) / len(second[item])
        if sides[0]:
            name = f"{count} of {half} right"
            found[name] = gap(*sides)
    return found
