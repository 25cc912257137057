"""The forest of gains: by stratum with the overall one, and by cluster; the trained policy against its
rivals."""

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
from assay.rollout.evaluation.clusters import paired_cluster_differences
from assay.rollout.evaluation.measures import reader_of
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.figures.drawing import (
    AFTER,
    BEFORE,
    CONTROL,
    GREY,
    INK,
    RIVAL,
    bare_figure,
    new_figure,
    say_missing,
    styled,
)
from assay.verdict.evidence.figures.forest_rows import (
    ROW,
    ForestRow,
    draw_forest,
    name_sides,
    show_both_sides,
)
from assay.verdict.evidence.figures.paired_rows import labels_shown, point
from assay.verdict.evidence.formatting import difference_text, percent
from assay.verdict.evidence.labels import labelled
from assay.verdict.statistics.intervals import interval, wilson

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
    value_of = reader_of(measure)
    sums = paired_cluster_differences(before, after, value_of)
    if sums is None:
        return []
    counts: list[dict[str, list[float]]] = [{}, {}]
    for k, arm in enumerate((before, after)):
        for episode in arm:
            value = value_of(episode)
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
    """Return the gain of the primary metric in each stratum with the overall one as a diamond, above the
    gains of the clusters.

    Up to 40 clusters are named and have intervals from their own draws; more are counted by their gain. A
    claim that is not evaluable gives a figure that says so and shows no number.
    """
    if claim.verdict == "NOT EVALUABLE" or claim.difference is None or not gains:
        figure, panels = new_figure(1, 1, height=2.2)
        say_missing(
            panels[0],
            "gains by cluster" if claim.verdict != "NOT EVALUABLE" else "NOT EVALUABLE; gains by cluster",
        )
        return figure
    named = len(gains) <= NAMED_UP_TO
    what = claim.plan.cluster_name
    few, left_out = labels_shown(claim)
    rows = [
        ForestRow(labelled(name.replace("=", ": ")), each.difference, f"n = {each.n_clusters}")
        for name, each in few.items()
    ]
    n = counted(claim.n_clusters, what)
    rows = [*rows, ForestRow("all", claim.difference, f"n = {claim.n_clusters}", INK, whole=True)]
    heights = [0.2 + ROW * len(rows), 0.3 + 0.2 * len(gains) if named else 1.4]
    figure = bare_figure(height=sum(heights) + 1.35 + 0.15 * len(left_out))
    grid = figure.add_gridspec(2, 1, height_ratios=heights)
    upper, lower = (figure.add_subplot(grid[k, 0]) for k in (0, 1))
    said = "\n".join([f"after \u2212 before, points, 95 % intervals; n: {what}", *left_out])
    draw_forest(upper, rows, sides=("before", "after"), label=said)
    (_named if named else _counted)(lower, gains, what)
    counts = Counter(np.sign([each.gain.value or 0.0 for each in gains]).tolist())
    told = f"{counts[-1.0]} lost, {counts[0.0]} stayed, {counts[1.0]} gained"
    lower.set_title(f"{n}: {told}", fontsize=8.5)
    return figure


_LOOKS = {-1.0: (BEFORE, "v"), 0.0: (GREY, "o"), 1.0: (AFTER, "^")}


def _named(axes: Axes, gains: Sequence[ClusterGain], what: str) -> None:
    for k, each in enumerate(reversed(gains)):
        point(axes, k, each.gain, 100, *_LOOKS[float(np.sign(each.gain.value or 0.0))], what)
    names = [
        each.name if len(each.name) <= LONGEST_NAME else f"{each.name[: LONGEST_NAME - 1]}\u2026"
        for each in gains
    ]
    axes.set_yticks(range(len(names)), names[::-1], fontsize=8)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.grid(visible=False, axis="y")
    axes.axvline(0, color="black", lw=0.9)
    show_both_sides(axes)
    name_sides(axes, ("before", "after"), "gain of each, points, 95 % interval of its own draws")


def _counted(axes: Axes, gains: Sequence[ClusterGain], what: str) -> None:
    # One bar for each gain that occurs, or for each tenth of the axis where there are many.
    points = np.array([100 * (each.gain.value or 0.0) for each in gains])
    steps, counts = np.unique(points.round(6), return_counts=True)
    width = float(np.diff(steps).min(initial=25.0)) * 0.8
    if len(steps) > MOST_STEPS:
        edges = np.linspace(-105, 105, 22)  # none is a class of its own
        counts, steps, width = np.histogram(points, edges)[0], (edges[:-1] + edges[1:]) / 2, 8.0
    colours = [_LOOKS[float(np.sign(step.round(6)))][0] for step in steps]
    bars = axes.bar(steps, counts, width=width, color=colours, alpha=0.8)
    axes.bar_label(bars, labels=[str(n) if n else "" for n in counts], fontsize=8.5, padding=1.5)
    axes.margins(y=0.18)
    axes.set_ylabel(what)
    axes.grid(visible=False, axis="x")
    show_both_sides(axes)
    name_sides(axes, ("before", "after"), f"gain of each of the {what}, points")


def rival_rows(claim: Claim) -> list[ForestRow]:
    """Return the lead of the trained policy over each rival and the random-reward control, the strongest
    first, and over the base."""
    rows = [
        ForestRow(
            labelled(name),
            rival.difference,
            f"n = {counted(rival.difference.n, 'items')}",
            RIVAL,
            kind=f"{KINDS[rival.kind]}, {percent(rival.rate)} %",
        )
        for name, rival in claim.rivals.items()
    ]
    if (control := claim.random_reward) is not None and control.comparable:
        n, kind = f"n = {counted(control.n_items, 'items')}", f"control, {percent(control.after)} %"
        rows.append(ForestRow("random rewards", control.ahead, n, CONTROL, kind=kind))
    sign = 1 if claim.plan.direction == "higher" else -1
    rows.sort(key=lambda row: sign * ((row.difference.value if row.difference else None) or 0.0))
    if claim.difference is not None:
        kind = f"before, {percent(claim.before.value if claim.before else None)} %"
        n = f"n = {counted(claim.difference.n, 'items')}"
        rows.append(ForestRow("base", claim.difference, n, INK, whole=True, kind=kind))
    return rows


KINDS = {
    "trivial": "no skill",
    "scripted": "script",
    "instead of training": "base, untrained",
    "trained otherwise": "trained otherwise",
}


@styled
def rivals_forest(rows: Sequence[ForestRow], metric: str) -> Figure:
    """Return the trained policy minus each baseline, with intervals; `rows` are those of `rival_rows`."""
    figure, (axes,) = new_figure(1, 1, height=0.95 + ROW * max(1, len(rows)))
    if not rows:
        say_missing(axes, "baselines")
        return figure
    said = f"trained \u2212 baseline, {metric}, points, 95 % intervals"
    draw_forest(axes, rows, sides=("the baseline", "trained"), label=said)
    return figure


def rivals_frame(rows: Sequence[ForestRow]) -> pd.DataFrame:
    """Return what the figure of the baselines shows, as text."""
    cells = [(row.name, row.kind, difference_text(row.difference, rate=True), row.n) for row in rows]
    return pd.DataFrame(cells, columns=["baseline", "what it is", "trained \u2212 baseline, points", "n"])
