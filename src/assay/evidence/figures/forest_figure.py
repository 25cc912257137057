"""The forest of gains: each cluster's paired difference beside the overall one, and the same by stratum."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assay.core.counting import counted
from assay.core.records import Episode, Interval
from assay.evaluation.clusters import paired_cluster_differences
from assay.evaluation.measures import value_of
from assay.evidence.claim.claim import Claim
from assay.evidence.claim.differences import measure_of_primary
from assay.evidence.figures.drawing import AFTER, BEFORE, GREY, new_figure, say_missing, styled
from assay.evidence.figures.paired_rows import entries, name_rows, numbers_right, point
from assay.evidence.formatting import difference_text, p_text
from assay.statistics.intervals import interval, wilson

NAMED_UP_TO = 40  # clusters; more are drawn as a curve of sorted gains
MOST_STEPS = 24  # different gains that a table lists; more are put in classes
LONGEST_NAME = 22


@dataclass(frozen=True, slots=True)
class ClusterGain:
    """After - before of one cluster, a share; the interval says what its own draws leave open, not what other
    items would."""

    name: str
    gain: Interval


def newcombe(before: tuple[int, int], after: tuple[int, int]) -> Interval:
    """Return the 95 % interval of a difference of two independent shares, each as (successes, trials); n
    counts trials.

    Source: Newcombe (1998), Statistics in Medicine 17:873, method 10 (from two Wilson intervals).

    >>> found = newcombe((48, 80), (56, 70))
    >>> found.value, round(found.low, 4), round(found.high, 4)
    (0.2, 0.0524, 0.3339)
    """
    first, second = wilson(*before), wilson(*after)
    if first.value is None or second.value is None:
        return interval(None, math.nan, math.nan, 0)
    assert (
        first.low is not None
        and first.high is not None
        and second.low is not None
        and second.high is not None
    )
    gap = second.value - first.value
    low = gap - math.hypot(second.value - second.low, first.high - first.value)
    high = gap + math.hypot(second.high - second.value, first.value - first.low)
    return interval(gap, low, high, before[1] + after[1])


def cluster_gains(before: Sequence[Episode], after: Sequence[Episode], measure: str) -> list[ClusterGain]:
    """Return the paired difference of each cluster, smallest first; an interval where both arms drew yes or
    no twice.

    Raises:
        EvidenceError: the arms hold different items.
    """
    sums = paired_cluster_differences(before, after, lambda episode: value_of(episode, measure))
    if sums is None:
        return []
    counts: list[dict[str, list[float]]] = [{}, {}]
    for k, arm in enumerate((before, after)):
        for episode in arm:
            value = value_of(episode, measure)
            if value is not None:
                counts[k].setdefault(episode.cluster, []).append(value)
    found = []
    for name, total, size in zip(sums.names, sums.totals, sums.sizes, strict=True):
        own = [arm.get(name, []) for arm in counts]
        gain = interval(float(total / size), math.nan, math.nan, sum(map(len, own)))
        if all(len(values) > 1 and set(values) <= {0.0, 1.0} for values in own):
            free = newcombe((int(sum(own[0])), len(own[0])), (int(sum(own[1])), len(own[1])))
            if free.value is not None and gain.value is not None and abs(free.value - gain.value) < 1e-9:
                gain = free
        found.append(ClusterGain(name, gain))
    return sorted(found, key=lambda each: (each.gain.value or 0.0, each.name))


def forest_frame(claim: Claim, gains: Sequence[ClusterGain]) -> pd.DataFrame:
    """Return what the forest shows: of, clusters, difference as text; overall, strata, then clusters.

    Up to 40 clusters have a row each, more are counted by their gain.
    """
    rows = [("all", claim.n_clusters, difference_text(claim.difference, rate=True))]
    rows += [
        (name, found.n_clusters, difference_text(found.difference, rate=True))
        for name, found in claim.strata.items()
    ]
    if len(gains) <= NAMED_UP_TO:
        rows += [(each.name, 1, difference_text(each.gain, rate=True)) for each in gains]
        return pd.DataFrame(rows, columns=["of", "clusters", "difference, points"])
    points = np.array([100 * (each.gain.value or 0.0) for each in gains])
    counts = Counter(points.round(1).tolist())
    if len(counts) <= MOST_STEPS:
        rows += [("clusters that gained", n, f"{gain:+.1f}") for gain, n in sorted(counts.items())]
    else:
        edges = np.linspace(-100, 100, 21)
        classes = zip(np.histogram(points, edges)[0], edges, edges[1:], strict=False)
        rows += [
            ("clusters that gained", int(n), f"{low:+.0f} to {high:+.0f}") for n, low, high in classes if n
        ]
    return pd.DataFrame(rows, columns=["of", "clusters", "difference, points"])


@styled
def forest(claim: Claim, gains: Sequence[ClusterGain]) -> Figure:
    """Return the gains of the primary metric by cluster, sorted, beside the overall gain and its strata.

    Up to 40 clusters are named and have intervals from their own draws; more are one curve. A claim that is
    not evaluable gives a figure that says so and shows no number.
    """
    if claim.verdict == "NOT EVALUABLE" or claim.difference is None or not gains:
        figure, panels = new_figure(1, 1, height=2.2)
        say_missing(
            panels[0],
            "gains by cluster" if claim.verdict != "NOT EVALUABLE" else "NOT EVALUABLE; gains by cluster",
        )
        return figure
    named = len(gains) <= NAMED_UP_TO
    strata = [
        ("all", claim.difference),
        *((name.replace("=", " "), c.difference) for name, c in claim.strata.items()),
    ]
    if len(strata) > NAMED_UP_TO:
        strata = strata[:1]
    height = max(1.8 + 0.24 * len(gains) if named else 4.6, 1.8 + 0.42 * len(strata))
    figure, panels = new_figure(1, 2, height=height, ratios=[1.25, 1])
    _overall(panels[0], claim.difference)
    (_named if named else _curve)(panels[0], gains)
    what = measure_of_primary(claim.plan.primary)
    counts = Counter(np.sign([each.gain.value or 0.0 for each in gains]).tolist())
    panels[0].set_title(
        f"{what} by cluster, {counted(len(gains), claim.plan.cluster_name)}:\n"
        f"{counts[1.0]} better, {counts[0.0]} same, {counts[-1.0]} worse"
    )
    panels[0].set_xlabel(f"after \u2212 before, points{', 95 % interval of its own draws' if named else ''}")
    for k, (_, gap) in enumerate(strata):
        point(panels[1], k, gap, 100, "black" if k == 0 else GREY, "D", "all" if k == 0 else "stratum")
    name_rows(panels[1], [f"{name}, n = {gap.n}\n{difference_text(gap, rate=True)}" for name, gap in strata])
    numbers_right(panels[1])
    panels[1].set_title(f"All and by stratum, K = {claim.draws}, {p_text(claim.p)}")
    panels[1].set_xlabel("after \u2212 before, points, 95 % interval by cluster")
    found = entries(panels[0])
    figure.legend(list(found.values()), list(found), ncols=4, loc="outside lower left")
    return figure


def _overall(axes: Axes, gap: Interval) -> None:
    axes.axvline(0, color="black", lw=0.9)
    if gap.value is None:
        return
    axes.axvline(
        100 * gap.value, color="black", lw=1.2, ls="--", label=f"all: {difference_text(gap, rate=True)}"
    )
    if gap.low is not None and gap.high is not None:
        axes.axvspan(
            100 * gap.low, 100 * gap.high, color="#DADADA", lw=0, zorder=0, label="its 95 % interval"
        )


def _named(axes: Axes, gains: Sequence[ClusterGain]) -> None:
    for k, each in enumerate(reversed(gains)):
        looks = {-1.0: (BEFORE, "v", "worse"), 0.0: (GREY, "o", "same"), 1.0: (AFTER, "^", "better")}
        point(axes, k, each.gain, 100, *looks[float(np.sign(each.gain.value or 0.0))])
    names = [
        each.name if len(each.name) <= LONGEST_NAME else f"{each.name[: LONGEST_NAME - 1]}\u2026"
        for each in gains
    ]
    name_rows(axes, names[::-1])


def _curve(axes: Axes, gains: Sequence[ClusterGain]) -> None:
    # Bars from zero without gaps between them: one outline, however many clusters.
    points = np.array([100 * (each.gain.value or 0.0) for each in gains])
    starts = np.concatenate([[0], np.flatnonzero(np.diff(points)) + 1])
    edges, points = np.append(starts, len(points)), points[starts]
    for shown, colour, hatch, label in (
        (points < 0, BEFORE, "////", "worse"),
        (points > 0, AFTER, "", "better"),
    ):
        if shown.any():
            part = np.where(shown, points, 0.0)
            axes.stairs(
                part,
                edges,
                orientation="horizontal",
                fill=True,
                label=label,
                color=colour,
                alpha=0.45,
                hatch=hatch,
            )
    axes.stairs(
        points,
        edges,
        orientation="horizontal",
        baseline=None,
        color="black",
        lw=1.1,
        label="gain of each cluster",
    )
    axes.set_ylabel(f"{counted(len(gains), 'clusters')}, by gain")
    axes.set_ylim(0, len(gains))
