"""How two arms of paired episodes differ in one measure, and where a gain comes from."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import stdtrit  # type: ignore[import-untyped,unused-ignore]

from assay.core.errors import EvidenceError
from assay.core.records import Episode, Interval, Record
from assay.core.seeds import rng as labelled_rng
from assay.rollout.dataset.suite import FEWEST_CLUSTERS, WORST, Unseen
from assay.rollout.evaluation.clusters import ClusterSums, cluster_sums, paired_cluster_differences
from assay.rollout.evaluation.measures import is_rate, reader_of
from assay.verdict.statistics.bounded_mean import bounded_mean_test, clusters_needed
from assay.verdict.statistics.intervals import interval, mean_interval, median_difference_interval, missing
from assay.verdict.statistics.tests import FEWEST_OPEN, holm, open_mean_interval

FEW_CLUSTERS = 10  # below, the claim warns
USUAL = 0.05  # level of the intervals that stand everywhere: they are of 95 %
ROUNDING = 1e-9  # by which a sum of reward parts may miss the bounds of rewards


class Comparison(Record):
    """One measure in both arms. Without `p_holm` it is exploratory: one of many looks, not corrected for
    them."""

    measure: str
    before: float | None
    after: float | None
    difference: Interval = Field(description="after - before over paired items; n counts items")
    p: float | None = Field(description="two-sided p; null where descriptive only")
    p_holm: float | None = Field(
        description="p corrected for all measures tested beside it; null if exploratory"
    )
    cross_check: Interval = Field(description="studentised cluster bootstrap of the same difference")
    at_level: Interval | None = Field(
        default=None,
        description="the difference with its interval at the level of the claim; null: at 95 %, as above",
    )
    standard_error: float | None = Field(description="cluster-robust, unit of the measure")
    n_clusters: int = Field(ge=0)
    clusters_needed: int | None = Field(
        default=None, description="clusters like these that a test needs; null where there are enough"
    )


class GainSplit(Record):
    """A success gain split in two parts that add up to it; every value in shares of episodes."""

    parsed_before: float = Field(ge=0, le=1, description="share of episodes in which every completion parsed")
    parsed_after: float = Field(ge=0, le=1)
    correct_given_parsed_before: float | None = Field(description="null if no episode parsed")
    correct_given_parsed_after: float | None
    parse_part: Interval = Field(description="gain from parsing more often; interval by cluster jackknife")
    correct_part: Interval = Field(description="gain from being right more often, parsed or not")


def _mean(episodes: Sequence[Episode], measure: str) -> float | None:
    sums = cluster_sums(list(map(reader_of(measure), episodes)), [e.cluster for e in episodes])
    return None if sums is None else round(sums.mean, 10)


def compare_measure(
    before: Sequence[Episode],
    after: Sequence[Episode],
    measure: str,
    rng: np.random.Generator,
    *,
    unseen: Unseen = WORST,
    reward_range: tuple[float, float] | None = None,
    level: float | None = None,
) -> Comparison:
    """Return the paired difference of one measure; where clusters are too few, or one outweighs the others so
    much that nothing could be shown, without p and without interval. A measure whose bounds are not known has
    an interval at most: see `open_mean_interval`.

    `unseen` is the cluster that nobody saw; between `reward_range` lies the reward of every episode; `level`
    is that of the claim, where it is not the usual one.

    Raises:
        EvidenceError: the arms do not hold the same items.
    """
    sums = paired(before, after, measure)
    means = (_mean(before, measure), _mean(after, measure))
    nothing: dict[str, Any] = {
        "measure": measure,
        "before": means[0],
        "after": means[1],
        "p": None,
        "p_holm": None,
    }
    if sums is None:
        return Comparison(
            **nothing, difference=missing(), cross_check=missing(), standard_error=None, n_clusters=0
        )
    n = len(sums.names)
    error = round(sums.standard_error, 10) if n > 1 else None
    span = _span(before, after, measure, reward_range)
    p, difference = difference_within(sums, span, rng, unseen)
    needed = _needed(sums, span, unseen)
    cross_check = difference if n < needed else mean_interval(sums, rng)
    return Comparison(
        **(nothing | {"p": p}),
        difference=difference,
        cross_check=cross_check,
        at_level=None
        if level in (None, USUAL) or p is None
        else difference_within(sums, span, rng, unseen, alpha=level)[1],
        standard_error=error,
        n_clusters=n,
        clusters_needed=needed if n < needed else None,
    )


def with_holm(comparisons: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """Return the comparisons with `p_holm` filled in over all of them that have a p; same keys."""
    tested = {name: c.p for name, c in comparisons.items() if c.p is not None}
    adjusted = holm(tested)
    return {name: c.model_copy(update={"p_holm": adjusted.get(name)}) for name, c in comparisons.items()}


def compare_strata(
    before: Sequence[Episode], after: Sequence[Episode], measure: str, seed: int, *, unseen: Unseen = WORST
) -> dict[str, Comparison]:
    """Return the comparison within each stratum, keyed "label=value", Holm-corrected over strata of one
    label."""
    found: dict[str, Comparison] = {}
    for label in sorted({label for e in before for label in e.strata}):
        inside: dict[str, Comparison] = {}
        for value in sorted({e.strata[label] for e in before if label in e.strata}):
            arms = [[e for e in arm if e.strata.get(label) == value] for arm in (before, after)]
            inside[f"{label}={value}"] = compare_measure(
                arms[0], arms[1], measure, labelled_rng(seed, "stratum", label, value), unseen=unseen
            )
        found |= with_holm(inside)
    return found


def deltas(
    before: Sequence[Episode],
    after: Sequence[Episode],
    names: Sequence[str],
    seed: int,
    *,
    unseen: Unseen = WORST,
    reward_range: tuple[float, float] | None = None,
) -> dict[str, Interval]:
    """Return the paired difference of each measure, keyed by measure; median_reward by percentile
    bootstrap."""
    found: dict[str, Interval] = {}
    for name in names:
        if name == "median_reward":
            found[name] = median_difference_interval(
                [e.reward for e in before],
                [e.reward for e in after],
                ([e.cluster for e in before], [e.cluster for e in after]),
                labelled_rng(seed, "delta", name),
            )
        else:
            sums = paired(before, after, name)
            span = _span(before, after, name, reward_range)
            found[name] = difference_within(sums, span, labelled_rng(seed, "delta", name), unseen)[1]
    return found


def paired(before: Sequence[Episode], after: Sequence[Episode], measure: str) -> ClusterSums | None:
    """Return the differences after - before summed over each cluster; None where the measure is nowhere
    defined.

    Raises:
        EvidenceError: the arms do not hold the same items.
    """
    return paired_cluster_differences(before, after, reader_of(measure))


def _span(
    before: Sequence[Episode],
    after: Sequence[Episode],
    measure: str,
    reward_range: tuple[float, float] | None,
) -> float | None:
    """Return by how much two values of a measure can differ; None where that is not known, or a reward lies
    outside of what was said of rewards."""
    if is_rate(measure):
        return 1.0
    if measure != "mean_reward" or reward_range is None:
        return None
    low, high = reward_range
    inside = all(low - ROUNDING <= e.reward <= high + ROUNDING for arm in (before, after) for e in arm)
    return high - low if inside and low < high else None


def difference_within(
    sums: ClusterSums | None,
    span: float | None,
    rng: np.random.Generator,
    unseen: Unseen = WORST,
    *,
    alpha: float = USUAL,
) -> tuple[float | None, Interval]:
    """Return p and the mean difference with its (1 - alpha) interval; without p and interval where there are
    fewer clusters than needed.

    What lies between known bounds, `span` apart, is tested as a bounded mean, which takes any distribution.
    Nothing else is tested.
    """
    if sums is None:
        return None, missing()
    n = int(sums.sizes.sum())
    if len(sums.names) < _needed(sums, span, unseen):
        return None, interval(sums.mean, math.nan, math.nan, n)
    if span is None:
        return None, open_mean_interval(sums, rng)
    p, found = bounded_mean_test(replace(sums, totals=sums.totals / span), unseen=unseen, alpha=alpha)
    low, high = (math.nan if end is None else span * end for end in (found.low, found.high))
    return p, interval(sums.mean, low, high, n)


def _needed(sums: ClusterSums, span: float | None, unseen: Unseen) -> int:
    """Return how many clusters of such sizes a test or an interval needs: with fewer, no p can reach 0.05."""
    if span is None:
        return FEWEST_OPEN
    return max(FEWEST_CLUSTERS, clusters_needed(sums.sizes, unseen=unseen))


def _counts(episodes: Sequence[Episode], names: Sequence[str]) -> NDArray[np.float64]:
    index = {name: k for k, name in enumerate(names)}
    table = np.zeros((len(names), 2, 2))
    for episode in episodes:
        parsed = bool(episode.turns) and all(turn.outcome != "failed" for turn in episode.turns)
        table[index[episode.cluster], int(parsed), int(episode.success)] += 1
    return table


def _kitagawa(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    # [..., parsed, success] counts of both arms -> [..., (parse part, correct part)].
    # A group that is empty in one arm has no rate there: it takes the other arm's, so that the gap is all
    # composition.
    shares, rates = [], []
    for table in (before, after):
        group = table.sum(axis=-1)
        shares.append(group / group.sum(axis=-1, keepdims=True))
        with np.errstate(invalid="ignore"):
            rates.append(np.where(group > 0, table[..., 1] / group, np.nan))
    first = np.where(np.isnan(rates[0]), rates[1], rates[0])
    second = np.where(np.isnan(rates[1]), rates[0], rates[1])
    first, second = np.nan_to_num(first), np.nan_to_num(second)
    parse = ((shares[1] - shares[0]) * (first + second) / 2).sum(axis=-1)
    correct = ((shares[0] + shares[1]) / 2 * (second - first)).sum(axis=-1)
    return np.stack([parse, correct], axis=-1)


def gain_split(before: Sequence[Episode], after: Sequence[Episode]) -> GainSplit:
    """Return the success gain split into a part from parsing and a part from being right; the parts add up
    exactly.

    Intervals: delete-one-cluster jackknife with t quantiles; null under 6 clusters or without spread.
    Source: Kitagawa (1955), JASA 50:1168, two-component decomposition; Efron and Tibshirani (1993), eq. 11.5.
    """
    names = sorted({e.cluster for e in before} | {e.cluster for e in after})
    tables = [_counts(arm, names) for arm in (before, after)]
    sums = [table.sum(axis=0) for table in tables]
    whole = _kitagawa(sums[0], sums[1])
    n, ends = len(names), []
    if n >= FEWEST_CLUSTERS:
        left_out = _kitagawa(sums[0] - tables[0], sums[1] - tables[1])
        errors = np.sqrt((n - 1) / n * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
        ends = [float(stdtrit(n - 1, 0.975) * e) if e > 1e-12 else math.nan for e in errors]
    halves = ends or [math.nan, math.nan]
    n_items = len({e.item_id for e in before})
    parsed = [float(s[1].sum() / s.sum()) for s in sums]
    right = [float(s[1, 1] / s[1].sum()) if s[1].sum() else None for s in sums]
    return GainSplit(
        parsed_before=round(parsed[0], 10),
        parsed_after=round(parsed[1], 10),
        correct_given_parsed_before=None if right[0] is None else round(right[0], 10),
        correct_given_parsed_after=None if right[1] is None else round(right[1], 10),
        parse_part=interval(float(whole[0]), whole[0] - halves[0], whole[0] + halves[0], n_items),
        correct_part=interval(float(whole[1]), whole[1] - halves[1], whole[1] + halves[1], n_items),
    )


def success_changes(before: Sequence[Episode], after: Sequence[Episode]) -> dict[str, int]:
    """Return how many items succeed in more, fewer and equally many of their draws: better, worse, same."""
    wins: dict[str, int] = defaultdict(int)
    for sign, arm in ((-1, before), (1, after)):
        for episode in arm:
            wins[episode.item_id] += sign * episode.success
    better, worse = sum(w > 0 for w in wins.values()), sum(w < 0 for w in wins.values())
    return {"better": better, "worse": worse, "same": len(wins) - better - worse}


def measure_of_primary(primary: str) -> str:
    """Return the measure that a plan's primary metric names; "success" is short for "success_rate".

    Raises:
        EvidenceError: the primary metric is not a rate, so its effect has no percentage points (the plan's
            fault).

    >>> measure_of_primary("success"), measure_of_primary("valid_rate")
    ('success_rate', 'valid_rate')
    """
    measure = primary if primary.endswith("_rate") else f"{primary}_rate"
    if "." in measure or primary.startswith("mean_"):
        raise EvidenceError(
            "a rate, such as success", found=primary, where="plan.primary", fix="primary: success"
        )
    return measure
