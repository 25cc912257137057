"""Figures of one comparison: both arms with their difference, and the reward distributions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from assay.evaluation.report import Report, is_rate
from assay.evidence.claim import Claim
from assay.evidence.differences import measure_of_primary
from assay.evidence.figures import AFTER, BEFORE, GREY, always_zero_said, legend, new_figure, say_missing, styled
from assay.evidence.wording import counted, p_text, split_word
from assay.records import Episode, Interval

MOST_VALUES = 12  # of one label; a figure with a row for each of two hundred would show none of them


def _point(axes: Axes, y: float, found: Interval | None, scale: float, colour: str, marker: str, label: str) -> None:
    if found is None or found.value is None:
        axes.text(0.02, y, "missing", color="#B00000", va="center", fontsize=8, transform=axes.get_yaxis_transform())
        return
    face = "white"
    if found.low is not None and found.high is not None:
        axes.hlines(y, scale * found.low, scale * found.high, color=colour, lw=2.4, alpha=0.8)
        face = colour
    axes.plot(scale * found.value, y, marker, color=colour, mfc=face, ms=6.5, label=label)


def _entries(axes: Axes) -> dict[str, Any]:
    """Return one legend entry a label, filled as where there is an interval; one more says what an empty marker means."""
    found: dict[str, Any] = {}
    empty = False
    for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
        bare = isinstance(handle, Line2D) and handle.get_markerfacecolor() == "white"
        empty = empty or bare
        if not bare or label not in found:
            found[label] = handle
    if empty:
        found["empty: interval missing"] = Line2D([], [], color=GREY, marker="o", mfc="white", ls="", ms=6.5)
    return found


def _is_zero(found: Interval | None) -> bool:
    return found is not None and found.value == 0.0


def _names(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.grid(visible=False, axis="y")


@styled
def before_after_summary(
    claim: Claim,
    before: Report,
    after: Report,
    gaps: Mapping[str, Interval],
    *,
    baselines: Mapping[str, Report] | None = None,
) -> Figure:
    """Return both arms with 95 % intervals and, beside them, the paired differences: primary, its strata, other rates.

    A label with more than 12 values is left to the tables, and the figure says so; rates that are 0 in both arms are named
    in one line. `gaps` are paired differences by measure. Baselines are short lines across the row of the primary metric.
    A claim that is not evaluable gives a figure that says so and shows no number.
    """
    measure = measure_of_primary(claim.plan.primary)
    if claim.verdict == "NOT EVALUABLE":
        figure, panels = new_figure(1, 1, width=9.0, height=2.2)
        say_missing(panels[0], "NOT EVALUABLE; before against after")
        return figure
    rates = [name for name in before.measures if is_rate(name) and name != measure]
    zero = [n for n in rates if all(_is_zero(rows.get(n)) for rows in (before.measures, after.measures, gaps))]
    rates = [name for name in rates if name not in zero]
    counts = Counter(name.partition("=")[0] for name in claim.strata)
    strata = [name for name in claim.strata if counts[name.partition("=")[0]] <= MOST_VALUES]
    rows = [measure, *strata, *rates]
    figure, panels = new_figure(1, 2, width=11.5, height=1.9 + 0.42 * len(rows), ratios=[1.35, 1])
    for k, name in enumerate(rows):
        label, _, value = name.partition("=")
        for report, shift, colour, marker, arm in (
            (before, -0.13, BEFORE, "o", "before"),
            (after, 0.13, AFTER, "s", "after"),
        ):
            home = report.strata.get(label, {}).get(value) if name in claim.strata else report
            found = None if home is None else home.measures.get(measure if name in claim.strata else name)
            _point(panels[0], k + shift, found, 100, colour, marker, arm)
        gap = claim.difference if k == 0 else claim.strata[name].difference if name in claim.strata else gaps.get(name)
        _point(panels[1], k, gap, 100, "black" if k == 0 else GREY, "D", "primary" if k == 0 else "exploratory")
    for k, (name, report) in enumerate((baselines or {}).items()):
        level = report.measures[measure].value if measure in report.measures else None
        if level is None:
            panels[0].plot([], [], " ", label=f"{name}: missing")
        else:
            style = (":", "--", "-.", (0, (6, 2)), (0, (1, 3)))[k % 5]
            panels[0].vlines(100 * level, -0.5, 0.45, color="black", ls=style, lw=1.3, label=f"{name} ({measure})")
    shown = [measure, *(f"  {name.replace('=', ' ')}" for name in strata), *rates]
    _names(panels[0], shown)
    _names(panels[1], [""] * len(rows))
    for label, count in counts.items():
        if count > MOST_VALUES:
            panels[0].plot([], [], " ", label=f"{label}: {count} values, see the table")
    panels[0].set_xlim(-3, 103)
    said = f"\n{always_zero_said(zero, 72)}" if zero else ""
    panels[0].set_xlabel(f"% of episodes, 95 % interval{said}")
    items = counted(before.n_items, "items")
    panels[0].set_title(f"{split_word(claim.split)}, {claim.decoding}: {items}, K = {claim.draws}")
    matters = claim.plan.smallest_effect_points
    panels[1].axvspan(-matters, matters, color="#EDEDED", lw=0, zorder=0, label=f"under {matters:g} points")
    panels[1].axvline(0, color="black", lw=0.9)
    panels[1].set_xlabel("after \u2212 before, points, 95 % interval")
    panels[1].set_title(f"{claim.verdict}, {p_text(claim.p)}, {counted(claim.n_clusters, claim.plan.cluster_name)}")
    places: tuple[Any, Any] = ("outside lower left", "outside lower right")
    for axes, place in zip(panels, places, strict=True):
        entries = _entries(axes)
        figure.legend(list(entries.values()), list(entries), ncols=4, loc=place)
    return figure


@styled
def reward_distribution(before: Sequence[Episode], after: Sequence[Episode]) -> Figure:
    """Return the rewards of all episodes of both arms on common bins, as shares, with medians and running shares."""
    figure, panels = new_figure(1, 2, width=10.5, height=4.0)
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
    edges = np.histogram_bin_edges(np.concatenate(arms), bins=30)
    for arm, name, colour, style in zip(arms, names, (BEFORE, AFTER), ("-", "--"), strict=True):
        short = name.partition(",")[0]
        share = np.histogram(arm, edges)[0] / len(arm)
        panels[0].stairs(share, edges, fill=True, color=colour, alpha=0.25)
        panels[0].stairs(share, edges, color=colour, lw=1.6, ls=style, label=name)
        median = float(np.median(arm))
        panels[0].axvline(median, color=colour, ls=style, lw=1.1, label=f"median {short} {median:.3g}")
        x = np.sort(arm)
        panels[1].step(
            np.concatenate([[edges[0]], x]),
            np.arange(len(x) + 1) / len(x),
            where="post",
            color=colour,
            ls=style,
            label=name,
        )
    legend(panels[0])
    legend(panels[1])
    return figure
