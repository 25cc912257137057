"""Rows of a forest: a difference with its interval each, numbers beside it, the summary as a diamond, and on
which side of none each policy is favoured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from assay.core.records import Interval
from assay.verdict.evidence.figures.drawing import GREY
from assay.verdict.evidence.formatting import signed

ROW = 0.38  # inches of a row with two lines of text
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
    axes.axvline(0, color="black", lw=0.9, zorder=1)
    if margins is not None:
        axes.axvspan(-margins[0], margins[1], color="#EDEDED", lw=0, zorder=0)
    for k, row in enumerate(rows):
        _draw(axes, k, row, scale, places)
    names = [f"{row.name}\n{row.kind}" if row.kind else row.name for row in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=9)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")
    show_both_sides(axes)
    name_sides(axes, sides, label)


def show_both_sides(axes: Axes) -> None:
    """Widen the axis so that none is seen with room on either side."""
    low, high = axes.get_xlim()
    low, high = min(low, 0.0), max(high, 0.0)
    room = LEAST_SIDE * (high - low)
    axes.set_xlim(min(low, -room), max(high, room))


def name_sides(axes: Axes, sides: tuple[str, str], label: str) -> None:
    """Say under the axis who is favoured on either side of none, and what the axis shows."""
    for text, align, away in (
        (f"\u25c4 favours {sides[0]}", "right", -5),
        (f"favours {sides[1]} \u25ba", "left", 5),
    ):
        axes.annotate(
            text,
            (0, 0),
            xycoords=axes.get_xaxis_transform(),
            xytext=(away, -20),
            textcoords="offset points",
            ha=align,
            va="top",
            fontsize=8.5,
            annotation_clip=False,
        )
    axes.set_xlabel(label, labelpad=16)


def _draw(axes: Axes, y: float, row: ForestRow, scale: float, places: int) -> None:
    found = row.difference
    if found is None or found.value is None:
        axes.text(
            1.03,
            y,
            f"missing\n{row.n}".rstrip(),
            color=GREY,
            va="center",
            fontsize=8.5,
            transform=axes.get_yaxis_transform(),
        )
        return
    value, known = scale * found.value, found.low is not None and found.high is not None
    text = signed(found.value, scale, places)
    if found.low is not None and found.high is not None:
        low, high = scale * found.low, scale * found.high
        text += f" [{signed(found.low, scale, places)}, {signed(found.high, scale, places)}]"
        if row.whole:
            axes.fill([low, value, high, value], [y, y - 0.26, y, y + 0.26], color=row.colour, lw=0, zorder=3)
        else:
            axes.hlines(y, low, high, color=row.colour, lw=2.2, zorder=2)
    else:
        text += " [no interval]"
    if not (row.whole and known):
        face = row.colour if known else "white"
        axes.plot(value, y, "s", color=row.colour, mfc=face, ms=6, zorder=3)
    axes.text(
        1.03,
        y,
        f"{text}\n{row.n}",
        va="center",
        fontsize=8.5,
        fontweight="bold" if row.whole else "normal",
        transform=axes.get_yaxis_transform(),
    )
