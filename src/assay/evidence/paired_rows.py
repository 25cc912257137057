"""Rows of two arms and, beside them, their differences: what the figures of a comparison are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from assay.evidence.figures import AFTER, BEFORE, GREY
from assay.evidence.wording import difference_text
from assay.records import Interval

RED = "#B00000"


@dataclass(frozen=True, slots=True)
class PairedRow:
    """One measure of two arms; `difference` is after - before, paired, in the unit of the arms."""

    name: str
    before: Interval | None
    after: Interval | None
    difference: Interval | None
    primary: bool = False


def draw_rows(
    arms: Axes, gaps: Axes, rows: Sequence[PairedRow], *, rate: bool, words: tuple[str, str] = ("all", "stratum")
) -> None:
    """Draw the rows: both arms with intervals on the left; on the right the differences, their numbers written beside.

    Rates are drawn in per cent and points, others in their own unit. `words` are the legend of rows that are primary
    and of the others.
    """
    scale = 100.0 if rate else 1.0
    for k, row in enumerate(rows):
        point(arms, k - 0.14, row.before, scale, BEFORE, "o", "before")
        point(arms, k + 0.14, row.after, scale, AFTER, "s", "after")
        colour, label = ("black", words[0]) if row.primary else (GREY, words[1])
        point(gaps, k, row.difference, scale, colour, "D", label)
    name_rows(arms, [row.name for row in rows])
    name_rows(gaps, [_numbers(row.difference, rate) for row in rows])
    numbers_right(gaps)
    gaps.set_xlabel(f"after \u2212 before{', points' if rate else ''}, 95 % interval")


def numbers_right(axes: Axes) -> None:
    """Put the names of the rows to the right of a panel of differences, and a line at none."""
    axes.yaxis.tick_right()
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.axvline(0, color="black", lw=0.9)


def _numbers(found: Interval | None, rate: bool) -> str:
    said = difference_text(found, rate=rate).replace("[interval missing]", "[no interval]")
    return said if found is None or found.value is None else f"{said}\nn = {found.n} pairs"


def point(axes: Axes, y: float, found: Interval | None, scale: float, colour: str, marker: str, label: str) -> None:
    """Draw one value with its interval at height y: filled where there is an interval, and "missing" where no value is."""
    if found is None or found.value is None:
        axes.text(0.02, y, "missing", color=RED, va="center", fontsize=8, transform=axes.get_yaxis_transform())
        return
    face = "white"
    if found.low is not None and found.high is not None:
        axes.hlines(y, scale * found.low, scale * found.high, color=colour, lw=2.4, alpha=0.8)
        face = colour
    axes.plot(scale * found.value, y, marker, color=colour, mfc=face, ms=6.5, label=label)


def entries(axes: Axes) -> dict[str, Any]:
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


def legends_below(figure: Figure, panels: Sequence[Axes], columns: Sequence[int] = (3, 2)) -> None:
    """Draw the legends of the two panels under the figure, the first on the left and the second on the right."""
    places: tuple[Any, Any] = ("outside lower left", "outside lower right")
    for axes, place, n in zip(panels, places, columns, strict=True):
        found = entries(axes)
        if found:
            figure.legend(list(found.values()), list(found), ncols=n, loc=place)


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Name the rows from the top down."""
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.grid(visible=False, axis="y")


def draw_levels(axes: Axes, levels: Sequence[tuple[str, float | None]], *, scale: float, row: int = 0, what: str = "") -> None:
    """Draw reference values, such as those of scripted players, as short lines across one row; a missing one is named.

    `what` says in the legend what was measured.
    """
    for k, (name, level) in enumerate(levels):
        if level is None:
            axes.plot([], [], " ", label=f"{name}: missing")
            continue
        style = (":", "--", "-.", (0, (6, 2)), (0, (1, 3)))[k % 5]
        axes.vlines(scale * level, row - 0.5, row + 0.45, color="black", ls=style, lw=1.3, label=f"{name}{what}")
