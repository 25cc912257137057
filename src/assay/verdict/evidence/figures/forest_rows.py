"""Rows of a forest: a difference with its interval each, numbers beside it, the summary as a diamond, and on
which side of none each policy is favoured."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from assay.core.records import Interval
from assay.verdict.evidence.figures.drawing import GREY
from assay.verdict.evidence.formatting import signed

ROW = 0.38  # inches of a row: its head, and under it what is drawn
HEAD = -0.44  # of a row: how far above what is drawn its head stands
LINE = 14.7  # characters of small text on an inch
LEAST_SIDE = 0.12  # of the panel that either side of none has at least


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One difference; `n` says on how much it rests, `kind` stands under its name, `whole` makes it the
    diamond of a summary."""

    name: str
    difference: Interval | None
    n: str
    colour: str = GREY
    whole: bool = False
    kind: str = ""


def draw_forest(
    axes: Axes,
    rows: Sequence[ForestRow],
    *,
    sides: tuple[str, str],
    label: str,
    scale: float = 100.0,
    places: int = 1,
    margins: tuple[float, float] | None = None,
) -> None:
    """Draw the rows from the top down.

    Args:
        axes: The panel.
        rows: A row without a value says so.
        sides: Who is favoured left and right of none.
        label: Of the axis, with its unit.
        scale: Of the differences: 100 for shares that are shown as points.
        places: Digits behind the point.
        margins: What matters on either side, in the unit of the axis, as a grey band.
    """
    for k in range(len(rows)):  # not through the heads
        axes.vlines(0, k - 0.26, k + 0.34, color="black", lw=0.9, zorder=1)
    if margins is not None:
        axes.axvspan(-margins[0], margins[1], color="#EDEDED", lw=0, zorder=0)
    for k, row in enumerate(rows):
        _draw(axes, k, row, scale)
    heads = [f"{row.name} ({row.kind})" if row.kind else row.name for row in rows]
    said, note = n_once([row.n for row in rows])
    ends = [
        ", ".join(filter(None, (_numbers(row, scale, places), n))) for row, n in zip(rows, said, strict=True)
    ]
    head_rows(axes, heads, ends, bold=[k for k, row in enumerate(rows) if row.whole])
    show_both_sides(axes)
    width = int(LINE * axes.figure.bbox.width / axes.figure.dpi)
    said = "; ".join(filter(None, (label, note))).split("\n")
    name_sides(axes, sides, "\n".join(textwrap.fill(line, width) for line in said))


def n_once(told: Sequence[str]) -> tuple[list[str], str]:
    """Return what each row says of its n, and what is said of all: an n that most rows have is said once.

    >>> n_once(["n = 9 items", "n = 9 items", "n = 4 items"])
    (['', '', 'n = 4 items'], 'n = 9 items')
    """
    usual = max(dict.fromkeys(told), key=list(told).count, default="")
    if 2 * list(told).count(usual) <= len(told):
        return list(told), ""
    return ["" if n == usual else n for n in told], usual


def head_rows(
    axes: Axes, names: Sequence[str], numbers: Sequence[str], *, bold: Collection[int] = ()
) -> None:
    """Head each row with its name on the left and its numbers on the right, inside the panel, so that the
    panel is as wide as the figure; what is drawn of row k stands at k."""
    places = [k + HEAD for k in range(len(names))]
    axes.set_yticks(places, names, fontsize=8.5)
    axes.tick_params(axis="y", length=0, direction="in", pad=-3)
    for text in axes.get_yticklabels():
        text.set_horizontalalignment("left")
        text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.6})
    for k, said in enumerate(numbers):
        axes.text(
            0.99,
            k + HEAD,
            said,
            ha="right",
            va="center",
            fontsize=8.5,
            fontweight="bold" if k in bold else "normal",
            transform=axes.get_yaxis_transform(),
        )
    axes.set_ylim(len(names) - 0.6, -0.75)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")


def show_both_sides(axes: Axes) -> None:
    """Widen the axis so that none is seen with room on either side."""
    low, high = axes.get_xlim()
    low, high = min(low, 0.0), max(high, 0.0)
    room = LEAST_SIDE * (high - low)
    axes.set_xlim(min(low, -room), max(high, room))


def name_sides(axes: Axes, sides: tuple[str, str], label: str) -> None:
    """Say under the axis who is favoured on either side of none, and what the axis shows."""
    for text, place in ((f"\u25c4 favours {sides[0]}", 0), (f"favours {sides[1]} \u25ba", 1)):
        axes.annotate(
            text,
            (place, 0),
            xycoords="axes fraction",
            xytext=(0, -20),
            textcoords="offset points",
            ha=("left", "right")[place],
            va="top",
            fontsize=8.5,
            annotation_clip=False,
        )
    axes.set_xlabel(label, labelpad=16, fontsize=8.5)


def _numbers(row: ForestRow, scale: float, places: int) -> str:
    found = row.difference
    if found is None or found.value is None:
        return "missing"
    if found.low is None or found.high is None:
        return f"{signed(found.value, scale, places)} [no interval]"
    value, low, high = (signed(each, scale, places) for each in (found.value, found.low, found.high))
    return f"{value} [{low}, {high}]"


def _draw(axes: Axes, y: float, row: ForestRow, scale: float) -> None:
    found = row.difference
    if found is None or found.value is None:
        return
    value, known = scale * found.value, found.low is not None and found.high is not None
    if found.low is not None and found.high is not None:
        low, high = scale * found.low, scale * found.high
        if row.whole:
            axes.fill([low, value, high, value], [y, y - 0.18, y, y + 0.18], color=row.colour, lw=0, zorder=3)
        else:
            axes.hlines(y, low, high, color=row.colour, lw=2.2, zorder=2)
    if not (row.whole and known):
        face = row.colour if known else "white"
        axes.plot(value, y, "s", color=row.colour, mfc=face, ms=5, zorder=3)
