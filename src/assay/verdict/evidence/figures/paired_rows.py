"""Rows of two arms and, beside them, their differences, overall and by stratum: what the figures of a
comparison are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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
from assay.verdict.evidence.figures.forest_rows import head_rows, n_once
from assay.verdict.evidence.formatting import difference_text, interval_text
from assay.verdict.evidence.labels import in_order, labelled
from assay.verdict.statistics.report import Report


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


def draw_rows(axes: Axes, rows: Sequence[PairedRow], *, rate: bool, legend: bool = True) -> None:
    """Draw the rows: both arms with intervals, joined, and above them the paired difference in numbers.

    Rates are drawn in per cent and points, others in their own unit. `legend`: whether it stands over this
    panel.
    """
    scale = 100.0 if rate else 1.0
    for k, row in enumerate(rows):
        ends = [each.value for each in (row.before, row.after) if each is not None and each.value is not None]
        if len(ends) == 2:
            axes.hlines(k, scale * min(ends), scale * max(ends), color="#DADADA", lw=4, zorder=0)
        point(axes, k - 0.1, row.before, scale, BEFORE, "o", "before")
        point(axes, k + 0.1, row.after, scale, AFTER, "s", "after")
    said, note = n_once(
        [f"n = {counted(row.difference.n, 'pairs')}" if row.difference is not None else "" for row in rows]
    )
    numbers = [
        ", ".join(filter(None, (_numbers(row.difference, rate), n)))
        for row, n in zip(rows, said, strict=True)
    ]
    heads = [
        f"{labelled(row.name.strip())} ({row.role})" if row.role else labelled(row.name.strip())
        for row in rows
    ]
    head_rows(axes, heads, numbers, bold=[k for k, row in enumerate(rows) if row.primary])
    unit = "difference, points" if rate else "difference"
    axes.set_title(", ".join(filter(None, (unit, note))), loc="right", fontsize=8.5, color=GREY)
    # What has no interval says so in its numbers.
    found = {name: each for name, each in entries(axes).items() if name in ("before", "after")}
    if found and legend:
        axes.legend(
            list(found.values()),
            list(found),
            ncols=2,
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            borderaxespad=0.1,
            handletextpad=0.2,
            columnspacing=1.0,
        )


def _numbers(found: Interval | None, rate: bool) -> str:
    return difference_text(found, rate=rate).replace("[interval missing]", "[no interval]")


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
        axes.hlines(y, scale * found.low, scale * found.high, color=colour, lw=2.0)
        face = colour
    axes.plot(scale * found.value, y, marker, color=colour, mfc=face, ms=5, label=label)


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


MOST_VALUES = 12  # of one label; a figure with a row for each of two hundred would show none of them


def labels_shown(claim: Claim) -> tuple[dict[str, Comparison], list[str]]:
    """Return the strata of the labels that have few values, and of each other label what to say instead."""
    values = Counter(name.partition("=")[0] for name in claim.strata)
    few = {
        name: claim.strata[name]
        for name in in_order(claim.strata)
        if values[name.partition("=")[0]] <= MOST_VALUES
    }
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
        for value in in_order(values) if len(values) <= MOST_VALUES else ():
            stratum = values[value]
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
                "measure": labelled(row.name.strip()),
                "before": interval_text(row.before, rate=rate),
                "after": interval_text(row.after, rate=rate),
                "difference": difference_text(row.difference, rate=rate),
                "n": 0 if row.difference is None else row.difference.n,
            }
            for row in rows
        ],
        columns=["measure", "before", "after", "difference", "n"],
    )
