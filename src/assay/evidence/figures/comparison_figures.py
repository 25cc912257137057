"""Figures of one comparison: both arms with their difference, and the reward distributions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assay.core.counting import counted
from assay.core.records import Episode, Interval
from assay.evaluation.measures import is_rate
from assay.evidence.claim.claim import Claim
from assay.evidence.claim.differences import measure_of_primary
from assay.evidence.figures.drawing import (
    AFTER,
    BEFORE,
    GREY,
    always_zero_said,
    bare_figure,
    legend,
    new_figure,
    say_missing,
    styled,
)
from assay.evidence.figures.paired_rows import (
    MOST_VALUES,
    PairedRow,
    draw_levels,
    draw_rows,
    legends_below,
    level_room,
    levels_of,
    name_rows,
    point,
    row_places,
)
from assay.evidence.formatting import difference_text, p_text, split_word
from assay.statistics.report import Report


def _is_zero(found: Interval | None) -> bool:
    return found is not None and found.value == 0.0


def summary_rows(
    claim: Claim, before: Report, after: Report, gaps: Mapping[str, Interval]
) -> list[PairedRow]:
    """Return the rows of `before_after_summary`: the primary metric, its strata, then the other rates that
    are not always 0.

    What the claim judged has the claim's own difference and role; the others are differences of `gaps`. None
    if the claim is not evaluable.
    """
    if claim.verdict == "NOT EVALUABLE":
        return []
    measure = measure_of_primary(claim.plan.primary)
    counts = _values_by_label(claim)
    strata = [name for name in claim.strata if counts[name.partition("=")[0]] <= MOST_VALUES]
    zero = _always_zero(measure, before, after, gaps)
    rates = [name for name in before.measures if is_rate(name) and name != measure and name not in zero]
    return [_row(name, claim, before, after, gaps, measure=measure) for name in (measure, *strata, *rates)]


def _values_by_label(claim: Claim) -> Counter[str]:
    return Counter(name.partition("=")[0] for name in claim.strata)


def _always_zero(measure: str, before: Report, after: Report, gaps: Mapping[str, Interval]) -> list[str]:
    rates = [name for name in before.measures if is_rate(name) and name != measure]
    return [
        n for n in rates if all(_is_zero(rows.get(n)) for rows in (before.measures, after.measures, gaps))
    ]


@styled
def before_after_summary(
    claim: Claim,
    before: Report,
    after: Report,
    gaps: Mapping[str, Interval],
    *,
    baselines: Mapping[str, Report] | None = None,
) -> Figure:
    """Return both arms with 95 % intervals and, beside them, the paired differences: primary, its strata,
    other rates.

    A label with more than 12 values is left to the tables, and the figure says so; rates that are 0 in both
    arms are named in one line. `gaps` are paired differences by measure. Baselines are short lines across the
    row of the primary metric, with their names above it. Rates that the plan names as secondary or as
    guardrails are marked as such. A claim that is not evaluable gives a figure that says so and shows no
    number.
    """
    measure = measure_of_primary(claim.plan.primary)
    if claim.verdict == "NOT EVALUABLE":
        figure, panels = new_figure(1, 1, width=9.0, height=2.2)
        say_missing(panels[0], "NOT EVALUABLE; before against after")
        return figure
    zero = _always_zero(measure, before, after, gaps)
    paired = summary_rows(claim, before, after, gaps)
    levels = levels_of(baselines, measure)
    places = row_places(len(paired), {0: level_room(levels)})
    figure, panels = new_figure(1, 2, height=2.34 + 0.44 * places[-1], ratios=[1.25, 1])
    draw_rows(panels[0], panels[1], paired, rate=True, words=("primary", "exploratory"), places=places)
    draw_levels(panels[0], levels, scale=100, row=places[0], what=f" ({measure})", named=True)
    for label, count in _values_by_label(claim).items():
        if count > MOST_VALUES:
            panels[0].plot([], [], " ", label=f"{label}: {count} values, see the table")
    panels[0].set_xlim(-3, 103)
    said = f"\n{always_zero_said(zero, 60)}" if zero else ""
    panels[0].set_xlabel(f"% of episodes, 95 % interval{said}")
    items = counted(before.n_items, "items")
    panels[0].set_title(f"{split_word(claim.split)}, {claim.decoding}: {items}, K = {claim.draws}")
    matters = claim.plan.smallest_effect_points
    panels[1].axvspan(-matters, matters, color="#EDEDED", lw=0, zorder=0, label=f"under {matters:g} points")
    panels[1].set_title(
        f"{claim.verdict}, {p_text(claim.p)},\n{counted(claim.n_clusters, claim.plan.cluster_name)}"
    )
    legends_below(figure, panels)
    return figure


def _row(
    name: str, claim: Claim, before: Report, after: Report, gaps: Mapping[str, Interval], *, measure: str
) -> PairedRow:
    label, _, value = name.partition("=")
    if name in claim.strata:
        homes = [report.strata.get(label, {}).get(value) for report in (before, after)]
        arms = [None if home is None else home.measures.get(measure) for home in homes]
        return PairedRow(f"  {label} {value}", arms[0], arms[1], claim.strata[name].difference)
    gap, role = gaps.get(name), ""
    if name == measure:
        gap = claim.difference
    elif name in claim.secondary:
        gap, role = claim.secondary[name].difference, "confirmatory"
    else:
        for guardrail in claim.guardrails:
            if guardrail.measure == name:
                gap, role = guardrail.difference, "guardrail"
    return PairedRow(name, before.measures.get(name), after.measures.get(name), gap, name == measure, role)


def reward_histogram(before: Sequence[Episode], after: Sequence[Episode], bins: int = 30) -> pd.DataFrame:
    """Return the rewards of both arms on common bins: low, high, before, after, before_share, after_share.

    The last bin holds its upper end; shares are of the episodes of an arm, missing for an arm without any.
    """
    arms = [np.array([e.reward for e in arm], np.float64) for arm in (before, after)]
    edges = np.histogram_bin_edges(np.concatenate(arms), bins=bins)
    counts = [np.histogram(arm, edges)[0] for arm in arms]
    shares = [
        count / len(arm) if len(arm) else np.full(bins, np.nan)
        for count, arm in zip(counts, arms, strict=True)
    ]
    columns = {"low": edges[:-1], "high": edges[1:], "before": counts[0], "after": counts[1]}
    return pd.DataFrame(columns | {"before_share": shares[0], "after_share": shares[1]})


@styled
def reward_distribution(
    before: Sequence[Episode], after: Sequence[Episode], gaps: Mapping[str, Interval] | None = None
) -> Figure:
    """Return the rewards of all episodes of both arms on common bins, as shares, with medians and running
    shares.

    `gaps` are differences by measure; those of mean_reward (the mean over paired items) and of median_reward
    (after - before of the medians of all episodes) are drawn under the distributions.
    """
    shown = {name: (gaps or {}).get(name) for name in ("mean_reward", "median_reward")}
    figure = bare_figure(height=4.0 if gaps is None else 5.7)
    grid = figure.add_gridspec(1 if gaps is None else 2, 2, height_ratios=[1] if gaps is None else [1, 0.4])
    panels = [figure.add_subplot(grid[0, k]) for k in range(2)]
    if gaps is not None:
        _shift(figure.add_subplot(grid[1, :]), shown)
    arms = [np.array([e.reward for e in arm], np.float64) for arm in (before, after)]
    names = [f"{name}, n = {len(arm)}" for name, arm in zip(("before", "after"), arms, strict=True)]
    panels[0].set_title("Reward per episode, common bins")
    panels[1].set_title("Share of episodes with at most this reward")
    for panel in panels:
        panel.set_xlabel("reward per episode")
        panel.set_ylabel("share of episodes")
    if not len(arms[0]) or not len(arms[1]):
        for panel in panels:
            say_missing(panel, "rewards of an arm")
        return figure
    table = reward_histogram(before, after)
    edges = np.array([*table["low"], table["high"].iloc[-1]])
    for arm, name, colour, style in zip(arms, names, (BEFORE, AFTER), ("-", "--"), strict=True):
        short = name.partition(",")[0]
        share = table[f"{short}_share"].to_numpy(np.float64)
        panels[0].stairs(share, edges, fill=True, color=colour, alpha=0.25)
        panels[0].stairs(share, edges, color=colour, lw=1.6, ls=style, label=name)
        median = float(np.median(arm))
        panels[0].axvline(median, color=colour, ls=style, lw=1.1, label=f"median {short} {median:.3g}")
        values, counts = np.unique(arm, return_counts=True)
        x, y = np.concatenate([[edges[0]], values]), np.concatenate([[0.0], np.cumsum(counts) / len(arm)])
        panels[1].step(x, y, where="post", color=colour, ls=style, label=name)
    legend(panels[0])
    legend(panels[1])
    return figure


def _shift(axes: Axes, gaps: Mapping[str, Interval | None]) -> None:
    names = []
    for k, (name, gap) in enumerate(gaps.items()):
        point(axes, k, gap, 1.0, GREY, "D", "difference")
        # Medians cannot be paired item by item, so theirs counts episodes of an arm and the other counts
        # items.
        what, unit = ("medians", "episodes an arm") if name == "median_reward" else ("means", "paired items")
        n = "n missing" if gap is None else f"n = {gap.n} {unit}"
        names.append(f"difference of {what},\n{n}\n{difference_text(gap, rate=False)}")
    name_rows(axes, names)
    axes.axvline(0, color="black", lw=0.9)
    axes.set_xlabel("after \u2212 before, reward per episode, 95 % interval")
