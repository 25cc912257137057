"""Figures of one task alone, not drawn for others.

How sure a player is and how often rightly, and claims where there is nothing to find: of tasks whose episodes
carry the metric `confidence` and the flag `false_claim`. Validity and field F1 by stratum: of JSON output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assay.core.records import Episode, Interval
from assay.rollout.evaluation.clusters import cluster_sums
from assay.verdict.evidence.details.confidence import verdict_right
from assay.verdict.evidence.figures.drawing import (
    AFTER,
    BEFORE,
    GREY,
    INK,
    bare_figure,
    new_figure,
    say_missing,
    styled,
)
from assay.verdict.evidence.figures.forest_rows import ROW
from assay.verdict.evidence.figures.paired_rows import PairedRow, draw_rows
from assay.verdict.evidence.formatting import interval_text
from assay.verdict.evidence.labels import labelled
from assay.verdict.statistics.intervals import rate_interval
from assay.verdict.statistics.report import Report

FALSE_CLAIM, POWER, CONFIDENCE, SIGNIFICANCE = "false_claim_rate", "discovered_rate", "confidence", "global_z"
HIGHEST_Z = 6  # significance bins are one wide; the last holds all above
_LOOKS = ((BEFORE, "o", ""), (AFTER, "s", "///"))


def calibration_frame(before: Sequence[Episode], after: Sequence[Episode]) -> pd.DataFrame:
    """Return the share of right verdicts by what was stated and by what the data said.

    Columns: arm, by (`confidence`, or `global_z` of claims), bin (centre: confidence to the nearest tenth;
    lower edge in sigma), n episodes, right, low, high (95 %, by cluster; missing under two clusters), mean
    (of the stated values).
    """
    rows = []
    for arm, episodes in (("before", before), ("after", after)):
        for by in (CONFIDENCE, SIGNIFICANCE):
            bins: dict[float, list[Episode]] = {}
            for episode in episodes:
                value = episode.metrics.get(by)
                if value is not None and verdict_right(episode) is not None:
                    place = (
                        round(10 * value) / 10
                        if by == CONFIDENCE
                        else float(min(HIGHEST_Z, max(0, int(value))))
                    )
                    bins.setdefault(place, []).append(episode)
            for place, own in sorted(bins.items()):
                found = rate_interval(
                    cluster_sums([float(bool(verdict_right(e))) for e in own], [e.cluster for e in own])
                )
                mean = float(np.mean([e.metrics[by] for e in own]))
                rows.append((arm, by, place, len(own), found.value, found.low, found.high, round(mean, 6)))
    return pd.DataFrame(rows, columns=["arm", "by", "bin", "n", "right", "low", "high", "mean"])


@styled
def calibration(frame: pd.DataFrame) -> Figure:
    """Return the share of right verdicts by stated confidence and of right claims by significance, both arms.

    Args:
        frame: What `calibration_frame` returns.
    """
    figure = bare_figure(height=5.8)
    grid = figure.add_gridspec(2, 1)
    halves = [figure.add_subfigure(grid[k, 0]) for k in (0, 1)]
    titles = ("Verdicts that were right, by stated confidence", "Claims that were right, by significance")
    units = ("stated confidence", "global significance at the claimed mass, \u03c3")
    named: dict[str, Artist] = {}
    for half, by, title, unit in zip(halves, (CONFIDENCE, SIGNIFICANCE), titles, units, strict=True):
        axes, rug = half.subplots(2, 1, sharex=True, height_ratios=[3.2, 1])
        axes.set_title(title)
        axes.set_ylabel("share right")
        own = frame[frame["by"] == by]
        if own.empty:
            rug.set_visible(False)
            say_missing(axes, "verdicts" if by == CONFIDENCE else "claims")
            continue
        counts = [f"{arm} n = {n}" for arm, n in own.groupby("arm", sort=False)["n"].sum().items()]
        rug.set_xlabel(f"{unit}\n{', '.join(counts)}")
        rug.set_ylabel("episodes")
        _shares(axes, rug, own, 0.02 if by == CONFIDENCE else 0.12)
        axes.set_ylim(-0.06, 1.06)
        if by == CONFIDENCE:
            axes.plot([0, 1], [0, 1], color=GREY, lw=1.1, ls=":", label="perfect calibration")
            axes.set_xlim(-0.06, 1.06)
        else:
            edges = range(HIGHEST_Z + 1)
            axes.set_xlim(-0.6, HIGHEST_Z + 0.6)
            axes.set_xticks(
                list(edges), [f"{z}\u2013{z + 1}" if z < HIGHEST_Z else f"\u2265 {z}" for z in edges]
            )
        named |= dict(reversed(pair) for pair in zip(*axes.get_legend_handles_labels(), strict=True))
    if named:
        figure.legend(
            list(named.values()),
            list(named),
            ncols=len(named),
            loc="outside upper left",
            handlelength=1.4,
            handletextpad=0.3,
            columnspacing=1.0,
        )
    return figure


def _shares(axes: Axes, rug: Axes, frame: pd.DataFrame, shift: float) -> None:
    for (arm, own), (colour, marker, hatch), side in zip(
        ((arm, frame[frame["arm"] == arm]) for arm in ("before", "after")), _LOOKS, (-1, 1), strict=True
    ):
        x = own["bin"].to_numpy(np.float64) + side * shift
        y, low, high = (pd.to_numeric(own[name]).to_numpy(np.float64) for name in ("right", "low", "high"))
        axes.vlines(x, low, high, color=colour, lw=2.0)
        known = np.isfinite(low)
        axes.plot(x[known], y[known], marker, color=colour, ms=5.5, label=arm)
        if not known.all():
            said = f"{arm}, no interval"
            axes.plot(x[~known], y[~known], marker, color=colour, mfc="white", ms=5.5, label=said)
        rug.bar(x, own["n"], width=2 * shift, color=colour, alpha=0.6, hatch=hatch, edgecolor="white", lw=0.5)


@styled
def false_claims(null: PairedRow, signal: PairedRow, baselines: Mapping[str, Report]) -> Figure:
    """Return discoveries on worlds that hold something over false claims on worlds that do not: both arms
    with their intervals, and the scripted players."""
    figure, (axes,) = new_figure(1, 1, height=3.9)
    axes.set_xlabel("false claims where there is nothing, % (fewer is better)")
    axes.set_ylabel("discoveries where there is something, %")
    axes.set_xlim(-4, 104)
    axes.set_ylim(-4, 108)
    arms = [
        (name, x, y, colour, marker)
        for name, x, y, colour, marker in (
            ("before", null.before, signal.before, BEFORE, "o"),
            ("after", null.after, signal.after, AFTER, "s"),
        )
        if x is not None and y is not None and x.value is not None and y.value is not None
    ]
    if not arms:
        say_missing(axes, "null and signal worlds")
        return figure
    for name, reached in _both(baselines):
        axes.plot(*reached, "^", color=GREY, ms=5.5)
        _name_point(axes, name, reached)
    for name, x, y, colour, marker in arms:
        place = 100 * (x.value or 0.0), 100 * (y.value or 0.0)
        for line, across, end in ((axes.hlines, place[1], x), (axes.vlines, place[0], y)):
            if end.low is not None and end.high is not None:
                line(across, 100 * end.low, 100 * end.high, color=colour, lw=2.0)
        axes.plot(*place, marker, color=colour, ms=7, zorder=3)
        axes.annotate(
            name,
            place,
            xytext=(0, 14),
            textcoords="offset points",
            ha="left" if place[0] < 15 else "center",
            color=colour,
            weight="bold",
        )
    if len(arms) == 2:
        ends = [(100 * (x.value or 0.0), 100 * (y.value or 0.0)) for _, x, y, *_ in arms]
        axes.annotate(
            "", ends[1], ends[0], arrowprops={"arrowstyle": "->", "color": INK, "shrinkA": 8, "shrinkB": 8}
        )
    return figure


def _both(baselines: Mapping[str, Report]) -> list[tuple[str, tuple[float, float]]]:
    found: dict[tuple[float, float], str] = {}
    for name, report in baselines.items():
        x, y = (
            report.measures[each].value if each in report.measures else None for each in (FALSE_CLAIM, POWER)
        )
        if x is not None and y is not None:
            place = 100 * x, 100 * y
            found[place] = f"{found[place]}, {labelled(name)}" if place in found else labelled(name)
    return [(name, place) for place, name in found.items()]


def _name_point(axes: Axes, name: str, place: tuple[float, float]) -> None:
    right = place[0] < 65
    axes.annotate(
        name,
        place,
        xytext=(8 if right else -8, 0),
        textcoords="offset points",
        ha="left" if right else "right",
        va="center",
        fontsize=9,
        color=GREY,
    )


VALID, FIELD_F1 = "schema_valid_rate", "metric.field_f1"


def validity_frame(before: Report, after: Report) -> pd.DataFrame | None:
    """Return both measures with 95 % intervals as text, all items first, then by stratum.

    None if the task has no schema that an answer could satisfy.
    """
    if VALID not in before.measures:
        return None
    rows = [_row("all", before.n_items, before.measures, after.measures)]
    for label, values in before.strata.items():
        for value, stratum in values.items():
            other = after.strata.get(label, {}).get(value)
            rows.append(
                _row(
                    f"{label}={value}",
                    stratum.n_items,
                    stratum.measures,
                    {} if other is None else other.measures,
                )
            )
    return pd.DataFrame(rows)


@styled
def validity_by_stratum(valid: Sequence[PairedRow], field_f1: Sequence[PairedRow]) -> Figure:
    """Return schema validity and field F1, overall and by stratum: both arms and, beside them, the paired
    differences.

    The rows come from `strata_rows`.
    """
    heights = [0.6 + ROW * len(rows) for rows in (valid, field_f1)]
    figure = bare_figure(height=sum(heights) + 0.9)
    grid = figure.add_gridspec(2, 1, height_ratios=heights)
    for k, (rows, measure, unit) in enumerate(
        (
            (valid, VALID, "answers that satisfy their schema, % of episodes"),
            (field_f1, FIELD_F1, "field F1 of answers with a gold, mean per episode"),
        )
    ):
        axes, rate = figure.add_subplot(grid[k, 0]), measure == VALID
        scale = 100.0 if rate else 1.0
        draw_rows(axes, rows, rate=rate)
        axes.set_xlim(-0.03 * scale, 1.03 * scale)
        axes.set_xlabel(f"{unit}, 95 % interval")
    return figure


def _row(
    name: str, items: int, before: Mapping[str, Interval], after: Mapping[str, Interval]
) -> dict[str, str | int]:
    return {
        "stratum": name,
        "items": items,
        "valid before, %": interval_text(before.get(VALID), rate=True),
        "valid after, %": interval_text(after.get(VALID), rate=True),
        "field F1 before": interval_text(before.get(FIELD_F1), rate=False),
        "field F1 after": interval_text(after.get(FIELD_F1), rate=False),
    }
