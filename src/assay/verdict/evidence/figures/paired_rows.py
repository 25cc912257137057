"""Rows of two arms and, beside them, their differences, overall and by stratum: what the figures of a
comparison are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from assay.core.counting import counted
from assay.core.records import Episode, Interval
from assay.core.seeds import rng
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.differences import Comparison, compare_measure
from assay.verdict.evidence.figures.drawing import AFTER, BEFORE, GREY
from assay.verdict.evidence.formatting import difference_text, interval_text
from assay.verdict.statistics.report import Report

TIER = 0.27  # of a row: the height of one line of small text
CHARACTER = 4.3  # of a hundredth of a panel's width: one character of such text
_TURN = (
    60.0  # per cent: names of higher levels stand to the left of their line, or they would leave the panel
)


@dataclass(frozen=True, slots=True)
class PairedRow:
    """One measure of two arms; `difference` is after - before, paired, in the unit of the arms.

    `role` is what the plan calls a measure that is not the primary one: "confirmatory", "guardrail", or ""
    where it does not name it.
    """

    name: str
    before: Interval | None
    after: Interval | None
    difference: Interval | None
    primary: bool = False
    role: str = ""


def draw_rows(
    axes: Axes, rows: Sequence[PairedRow], *, rate: bool, places: Sequence[float] | None = None
) -> None:
    """Draw the rows: both arms with intervals, joined, and to the right the paired difference in numbers.

    Rates are drawn in per cent and points, others in their own unit. `places` are the heights of the rows
    from the top down, as `row_places` gives them.
    """
    scale = 100.0 if rate else 1.0
    places = range(len(rows)) if places is None else places
    for k, row in zip(places, rows, strict=True):
        ends = [each.value for each in (row.before, row.after) if each is not None and each.value is not None]
        if len(ends) == 2:
            axes.hlines(k, scale * min(ends), scale * max(ends), color="#DADADA", lw=4, zorder=0)
        point(axes, k - 0.14, row.before, scale, BEFORE, "o", "before")
        point(axes, k + 0.14, row.after, scale, AFTER, "s", "after")
        axes.text(
            1.03,
            k,
            _numbers(row.difference, rate),
            va="center",
            fontsize=8.5,
            fontweight="bold" if row.primary else "normal",
            transform=axes.get_yaxis_transform(),
        )
    name_rows(axes, [f"{row.name}\n({row.role})" if row.role else row.name for row in rows], places)
    axes.annotate(
        "difference, points" if rate else "difference",
        (1.03, 1.0),
        xycoords="axes fraction",
        xytext=(0, 5),
        textcoords="offset points",
        fontsize=8.5,
        color=GREY,
    )
    # What has no interval says so in its numbers.
    found = {name: each for name, each in entries(axes).items() if name in ("before", "after")}
    if found:
        axes.legend(
            list(found.values()),
            list(found),
            ncols=2,
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            borderaxespad=0.1,
            handletextpad=0.2,
            columnspacing=1.0,
        )


def _numbers(found: Interval | None, rate: bool) -> str:
    said = difference_text(found, rate=rate).replace("[interval missing]", "[no interval]")
    return said if found is None or found.value is None else f"{said}\nn = {counted(found.n, 'pairs')}"


def point(
    axes: Axes, y: float, found: Interval | None, scale: float, colour: str, marker: str, label: str
) -> None:
    """Draw one value with its interval at height y: filled where there is an interval, and "missing" where no
    value is."""
    if found is None or found.value is None:
        axes.text(
            0.02, y, "missing", color=GREY, va="center", fontsize=8, transform=axes.get_yaxis_transform()
        )
        return
    face = "white"
    if found.low is not None and found.high is not None:
        axes.hlines(y, scale * found.low, scale * found.high, color=colour, lw=2.4, alpha=0.8)
        face = colour
    axes.plot(scale * found.value, y, marker, color=colour, mfc=face, ms=6.5, label=label)


def entries(axes: Axes) -> dict[str, Any]:
    """Return one legend entry a label, filled as where there is an interval; one more says what an empty
    marker means."""
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


def name_rows(axes: Axes, names: Sequence[str], places: Sequence[float] | None = None) -> None:
    """Name the rows from the top down; `places` are their heights, one apart where none are given."""
    places = range(len(names)) if places is None else places
    axes.set_yticks(list(places), names, fontsize=9)
    axes.set_ylim((places[-1] if len(names) else -1) + 0.55, -0.55)
    axes.grid(visible=False, axis="y")


def row_places(n: int, rooms: Mapping[int, float]) -> list[float]:
    """Return the heights of n rows from the top down, each with its room, in rows, for names of levels above
    it.

    >>> row_places(3, {1: 0.5})
    [0.0, 1.5, 2.5]
    """
    return [k + sum((room for row, room in rooms.items() if row <= k), 0.0) for k in range(n)]


def levels_of(players: Mapping[str, Report] | None, measure: str) -> list[tuple[str, float | None]]:
    """Return what players reached in a measure, as levels to draw; None where it is not defined."""
    return [
        (name, report.measures[measure].value if measure in report.measures else None)
        for name, report in (players or {}).items()
    ]


def level_room(levels: Sequence[tuple[str, float | None]]) -> float:
    """Return how much room, in rows, the names of these levels of a rate need above their row."""
    return TIER * max((1 + tier for *_, tier in _level_names(levels)), default=0)


def _level_names(levels: Sequence[tuple[str, float | None]]) -> list[tuple[str, float, int]]:
    # (text, level in per cent, tier): what stands at one place shares a text; what would overlap goes higher.
    # A text runs away from its own line over its neighbours, so it is placed after them: no line then runs
    # through a text.
    found: list[tuple[str, float]] = []
    for name, level in sorted(((n, 100 * v) for n, v in levels if v is not None), key=lambda each: each[1]):
        if found and level - found[-1][1] < 1.0:
            found[-1] = (f"{found[-1][0]}, {name}", found[-1][1])
        else:
            found.append((name, level))
    placed: list[tuple[str, float, int]] = []
    spaces: list[tuple[float, float]] = []
    for text, level in [
        *(each for each in found[::-1] if each[1] <= _TURN),
        *(each for each in found if each[1] > _TURN),
    ]:
        width = CHARACTER * len(text) + 1.0
        start, end = (level - width, level) if level > _TURN else (level, level + width)
        below = [
            other[2]
            for other, space in zip(placed, spaces, strict=True)
            if space[0] <= end and start <= space[1]
        ]
        placed.append((text, level, 1 + max(below, default=-1)))
        spaces.append((start, end))
    return placed


def draw_levels(
    axes: Axes,
    levels: Sequence[tuple[str, float | None]],
    *,
    scale: float,
    row: float = 0,
    what: str = "",
    named: bool = False,
) -> None:
    """Draw reference values, such as those of scripted players, as short lines across one row; a missing one
    is named.

    `what` says in the legend what was measured. `named` writes the names of a rate's levels above the row
    too, into the room that `level_room` asks for.
    """
    for k, (name, level) in enumerate(levels):
        if level is None:
            axes.plot([], [], " ", label=f"{name}: missing")
            continue
        style = (":", "--", "-.", (0, (6, 2)), (0, (1, 3)))[k % 5]
        axes.vlines(
            scale * level, row - 0.5, row + 0.45, color="black", ls=style, lw=1.3, label=f"{name}{what}"
        )
    for text, place, tier in _level_names(levels) if named else ():
        top = row - 0.5 - TIER * tier
        axes.vlines(place, top - 0.2, row - 0.5, color="black", lw=0.6)
        side = "right" if place > _TURN else "left"
        axes.annotate(
            text,
            (place, top),
            xytext=(-3 if side == "right" else 3, 0.5),
            textcoords="offset points",
            ha=side,
            va="bottom",
            fontsize=7.5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.3},
            zorder=4,
        )


MOST_VALUES = 12  # of one label; a figure with a row for each of two hundred would show none of them


def labels_shown(claim: Claim) -> tuple[dict[str, Comparison], list[str]]:
    """Return the strata of the labels that have few values, and of each other label what to say instead."""
    values = Counter(name.partition("=")[0] for name in claim.strata)
    few = {name: each for name, each in claim.strata.items() if values[name.partition("=")[0]] <= MOST_VALUES}
    return few, [f"{label}: {n} values, see the table" for label, n in values.items() if n > MOST_VALUES]


def strata_rows(
    reports: tuple[Report, Report],
    arms: tuple[Sequence[Episode], Sequence[Episode]],
    measure: str,
    whole: Interval | None,
    *,
    name: str,
    seed: int,
    within: str = "",
) -> list[PairedRow]:
    """Return the overall row, called `name`, then one a stratum; what holds no value, or all values, is left
    out.

    `whole` is the paired difference over all items, as the tables say it. `within` is said before each
    stratum: where rows of two measures stand together, it says of which these are.
    """
    before, after = reports
    rows = [PairedRow(name, before.measures.get(measure), after.measures.get(measure), whole, primary=True)]
    everything = [0 if arm is None else arm.n for arm in (rows[0].before, rows[0].after)]
    for label, values in before.strata.items():
        for value, stratum in values.items() if len(values) <= MOST_VALUES else ():
            other = after.strata.get(label, {}).get(value)
            found = (stratum.measures.get(measure), None if other is None else other.measures.get(measure))
            n = [0 if each is None else each.n for each in found]
            if n in ([0, 0], everything):
                continue
            inside = [[e for e in arm if e.strata.get(label) == value] for arm in arms]
            gap = compare_measure(inside[0], inside[1], measure, rng(seed, measure, label, value)).difference
            rows.append(PairedRow(f"  {within}{label} {value}", *found, gap))
    return rows


def rows_frame(rows: Sequence[PairedRow], *, rate: bool) -> pd.DataFrame:
    """Return the rows as text: measure, before, after, difference, n (pairs)."""
    return pd.DataFrame(
        [
            {
                "measure": row.name.strip(),
                "before": interval_text(row.before, rate=rate),
                "after": interval_text(row.after, rate=rate),
                "difference": difference_text(row.difference, rate=rate),
                "n": 0 if row.difference is None else row.difference.n,
            }
            for row in rows
        ],
        columns=["measure", "before", "after", "difference", "n"],
    )
