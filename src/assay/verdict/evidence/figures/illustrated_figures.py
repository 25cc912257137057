"""Figures of what was done, for tasks that show it: what both arms had in hand in one world, where their
budgets went, and where their answers lie."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, ScalarFormatter

from assay.core.counting import counted
from assay.core.records import Episode
from assay.core.seeds import rng
from assay.rollout.evaluation.clusters import cluster_sums, paired_cluster_differences
from assay.rollout.tasks.protocol import Mark, Panel, Picture
from assay.verdict.evidence.claim.differences import difference_within
from assay.verdict.evidence.figures.drawing import AFTER, BEFORE, GREY, INK, bare_figure, new_figure, styled
from assay.verdict.evidence.figures.forest_rows import ROW
from assay.verdict.evidence.figures.paired_rows import PairedRow, draw_rows, entries
from assay.verdict.evidence.labels import labelled
from assay.verdict.statistics.intervals import rate_interval

WRONG = "#B00000"
WIDE_RANGE = 5.0  # an axis whose ends are further apart than this is logarithmic
PANEL = 1.05  # inches
Arms = tuple[Sequence[Episode], Sequence[Episode]]
Pictures = tuple[Sequence[Picture], Sequence[Picture]]


@dataclass(frozen=True, slots=True)
class Illustrations:
    """What an illustrated task shows of both arms, a value an episode: marks, and what was spent on what."""

    plane: tuple[str, str]
    kinds: Mapping[str, bool | None]
    marks: tuple[Sequence[Mark | None], Sequence[Mark | None]]
    spent: tuple[Sequence[Mapping[str, Mapping[str, float]]], Sequence[Mapping[str, Mapping[str, float]]]]


def share_rows(
    arms: Arms, values: tuple[Sequence[float | None], Sequence[float | None]], name: str, seed: int
) -> PairedRow:
    """Return the mean of a share in [0, 1] in both arms, over episodes that have one, and the difference."""
    pairs = [list(zip(arm, own, strict=True)) for arm, own in zip(arms, values, strict=True)]
    means = [rate_interval(cluster_sums([v for _, v in own], [e.cluster for e, _ in own])) for own in pairs]
    told = {id(episode): value for own in pairs for episode, value in own}
    sums = paired_cluster_differences(*arms, lambda episode: told[id(episode)])
    gap = difference_within(sums, 1.0, rng(seed, "delta", "mean_reward"))[1]
    return PairedRow(name, means[0], means[1], gap)


def spending_rows(arms: Arms, shows: Illustrations, seed: int) -> dict[str, list[PairedRow]]:
    """Return a row a use of each budget."""
    uses: dict[str, dict[str, None]] = {}
    for budgets in shows.spent[0]:
        for budget, shares in budgets.items():
            uses.setdefault(budget, {}).update(dict.fromkeys(shares))

    def row(budget: str, use: str) -> PairedRow:
        before, after = ([each.get(budget, {}).get(use) for each in own] for own in shows.spent)
        return share_rows(arms, (before, after), use, seed)

    return {budget: [row(budget, use) for use in uses[budget]] for budget in sorted(uses)}


def mark_rows(arms: Arms, shows: Illustrations, seed: int) -> list[PairedRow]:
    """Return in which share of all episodes each kind of mark was made, and before them any that is wrong.

    What was there and not named is no wrong finding.
    """

    def row(name: str, kinds: Collection[str]) -> PairedRow:
        before, after = (
            [float(each is not None and each.kind in kinds) for each in own] for own in shows.marks
        )
        return share_rows(arms, (before, after), name, seed)

    wrong = [kind for kind, right in shows.kinds.items() if right is False]
    return [row("wrong findings", wrong), *(row(kind, [kind]) for kind in shows.kinds)]


@styled
def spending(budgets: Mapping[str, Sequence[PairedRow]]) -> Figure:
    """Return where the budgets of both arms went, a panel a budget, over one axis."""
    heights = [ROW * len(rows) for rows in budgets.values()]
    figure = bare_figure(height=sum(heights) + 0.32 * len(heights) + 0.75)
    grid, panels = figure.add_gridspec(len(heights), 1, height_ratios=heights), list[Axes]()
    for k, (budget, rows) in enumerate(budgets.items()):
        axes = figure.add_subplot(grid[k, 0], sharex=panels[0] if panels else None)
        draw_rows(axes, rows, rate=True, legend=False)
        axes.set_title(f"{budget[:1].upper()}{budget[1:]}", fontsize=9, fontweight="bold")
        axes.tick_params(labelbottom=k == len(heights) - 1)
        panels.append(axes)
    panels[0].set_xlim(-3, 103)
    panels[-1].set_xlabel("% of each, 95 % intervals")
    arms = {name: each for name, each in entries(panels[0]).items() if name in ("before", "after")}
    figure.legend(list(arms.values()), list(arms), ncols=2, loc="outside upper left")
    return figure


@styled
def plane(shows: Illustrations, arms: Arms) -> Figure:
    """Return where the answers of the first draw of every item lie, an arm above the other on common axes."""
    figure, panels = new_figure(2, 1, height=5.6)
    drawn: dict[str, list[tuple[Any, int]]] = {}
    panels[1].sharex(panels[0])
    panels[1].sharey(panels[0])
    for axes, arm, marks, name, colour in zip(
        panels, arms, shows.marks, ("before", "after"), (BEFORE, AFTER), strict=True
    ):
        own = [mark for episode, mark in zip(arm, marks, strict=True) if episode.draw == 0]
        axes.set_title(f"{name}, n = {counted(len(own), 'items')}, one episode each")
        for kind, looks in _looks(shows.kinds, colour).items():
            found = [mark for mark in own if mark is not None and mark.kind == kind]
            line = axes.plot([each.x for each in found], [each.y for each in found], ls="", **looks)
            drawn.setdefault(kind, []).append((line[0], len(found)))
        drawn.setdefault("none there, none named", []).append((Line2D([], [], ls=""), own.count(None)))
        axes.set_ylabel(shows.plane[1], fontsize=8.5)
    figure.legend(
        [own[-1][0] for own in drawn.values()],
        [f"{kind}: " + " \u2192 ".join(str(n) for _, n in own) for kind, own in drawn.items()],
        ncols=2,
        loc="outside lower center",
        fontsize=8,
        handletextpad=0.1,
        columnspacing=0.8,
    )
    places = [mark.x for marks in shows.marks for mark in marks if mark is not None]
    if places and min(places) > 0 and max(places) > WIDE_RANGE * min(places):
        panels[1].set_xscale("log")
        panels[1].xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        panels[1].xaxis.set_major_formatter(ScalarFormatter())
        panels[1].xaxis.set_minor_formatter(NullFormatter())
    panels[0].tick_params(labelbottom=False)
    panels[1].set_xlabel(shows.plane[0])
    return figure


def _looks(kinds: Mapping[str, bool | None], colour: str) -> dict[str, dict[str, Any]]:
    """Return how marks look: found in the colour of the arm, wrong as crosses, missed in grey."""
    left = {True: [("o", colour), ("o", "none")], False: [("x", WRONG), ("+", WRONG)], None: [("v", "none")]}
    found = {}
    for kind, right in kinds.items():
        marker, face = left[right].pop(0) if len(left[right]) > 1 else left[right][0]
        ink = {True: colour, False: WRONG, None: GREY}[right]
        found[kind] = {"marker": marker, "color": ink, "mfc": face, "ms": 4.2, "mew": 0.9}
    return found


def panels_shown(pictures: Pictures) -> list[int]:
    """Return the places of the panels in which either arm measured, or something was named or is sought."""
    ends = [own[-1].panels for own in pictures]

    def shown(panel: Panel) -> bool:
        return any(panel.expected) or panel.named is not None or panel.right is not None

    return [k for k, both in enumerate(zip(*ends, strict=True)) if any(map(shown, both))]


def highest(panels: Sequence[Panel]) -> float:
    """Return how high an axis has to reach for all that was measured or expected."""
    return max(1.0, *(max(*panel.measured, *panel.expected) for panel in panels))


@styled
def side_by_side(pictures: Pictures) -> Figure:
    """Return what both arms had in hand at the end of their episodes in one world, panel beside panel."""
    places = panels_shown(pictures)
    figure, grid = new_figure(len(places), 2, height=1.15 + PANEL * len(places))
    for column, (own, colour) in enumerate(zip(pictures, (BEFORE, AFTER), strict=True)):
        last = own[-1]
        for row, place in enumerate(places):
            axes = grid[2 * row + column]
            _panel(axes, last.panels[place], colour)
            if column:
                axes.sharey(grid[2 * row])
                axes.tick_params(labelleft=False)
            axes.set_ylim(0, 1.08 * highest([each[-1].panels[place] for each in pictures]))
            axes.set_title(labelled(last.panels[place].name), fontsize=8)
            axes.tick_params(labelbottom=row == len(places) - 1, labelsize=8)
            axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
            axes.yaxis.set_major_locator(MaxNLocator(nbins=3))
    figure.supxlabel(last.x_name, fontsize=9.5)
    figure.supylabel(last.y_name, fontsize=9.5)
    entries = {
        "before": Patch(facecolor=BEFORE, alpha=0.45),
        "after": Patch(facecolor=AFTER, alpha=0.45),
        "expected": Line2D([], [], color=INK, lw=1.0),
        "the answer": Patch(facecolor=WRONG, alpha=0.22),
        "the truth": Line2D([], [], color=INK, lw=1.2, ls="--"),
    }
    figure.legend(
        list(entries.values()),
        list(entries),
        ncols=5,
        loc="outside upper center",
        handlelength=1.4,
        columnspacing=1.0,
    )
    return figure


def _panel(axes: Axes, panel: Panel, colour: str) -> None:
    if any(panel.expected):
        axes.stairs(panel.measured, panel.edges, fill=True, color=colour, alpha=0.45)
        axes.stairs(panel.expected, panel.edges, color=INK, lw=1.0, baseline=None)
    if panel.named is not None:
        axes.axvspan(*panel.named, color=WRONG, alpha=0.22, lw=0)
    if panel.right is not None:
        axes.axvline(panel.right, color=INK, ls="--", lw=1.2)
    axes.set_xlim(panel.edges[0], panel.edges[-1])


def panels_frame(pictures: Pictures) -> pd.DataFrame:
    """Return the numbers of `side_by_side`: panel, from, to, then measured and expected of both arms."""
    before, after = (own[-1].panels for own in pictures)
    return pd.DataFrame(
        [
            (before[k].name.partition(",")[0], *rest)
            for k in panels_shown(pictures)
            for rest in zip(
                before[k].edges,
                before[k].edges[1:],
                before[k].measured,
                before[k].expected,
                after[k].measured,
                after[k].expected,
                strict=False,
            )
        ],
        columns=["panel", "from", "to", "before", "expected before", "after", "expected after"],
    )
