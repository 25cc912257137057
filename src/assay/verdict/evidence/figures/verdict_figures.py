"""Figures of one task alone, not drawn for others.

How sure a player is and how often rightly, and claims where there is nothing to find: of tasks whose episodes
carry the metric `confidence` and the flag `false_claim`. Validity and field F1 by stratum: of JSON output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assay.core.records import Episode, Interval
from assay.rollout.evaluation.clusters import cluster_sums
from assay.verdict.evidence.details.confidence import verdict_right
from assay.verdict.evidence.figures.drawing import (
    AFTER,
    BEFORE,
    GREY,
    bare_figure,
    new_figure,
    say_missing,
    styled,
)
from assay.verdict.evidence.figures.forest_rows import ROW
from assay.verdict.evidence.figures.paired_rows import (
    PairedRow,
    draw_levels,
    draw_rows,
    entries,
    level_room,
    levels_of,
    row_places,
)
from assay.verdict.evidence.formatting import interval_text
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
    figure = bare_figure(height=5.9)
    grid = figure.add_gridspec(4, 1, height_ratios=[2.2, 0.8, 2.2, 0.8])
    titles = ("Right verdicts by stated confidence", "Right claims by significance of the player's own data")
    units = ("stated confidence", "global significance at the claimed mass, \u03c3")
    known: dict[str, Any] = {}
    for k, by in enumerate((CONFIDENCE, SIGNIFICANCE)):
        upper = figure.add_subplot(grid[2 * k, 0])
        lower = figure.add_subplot(grid[2 * k + 1, 0], sharex=upper)
        upper.set_ylabel("share right")
        lower.set_ylabel("episodes")
        lower.set_xlabel(units[k])
        upper.tick_params(labelbottom=False)
        own = frame[frame["by"] == by]
        counts = ", ".join(f"{arm} n = {n}" for arm, n in own.groupby("arm", sort=False)["n"].sum().items())
        upper.set_title(f"{titles[k]}\n{counts}" if counts else titles[k])
        if own.empty:
            say_missing(upper, "verdicts" if by == CONFIDENCE else "claims")
            say_missing(lower, "episodes")
            continue
        _shares(upper, lower, own, 0.02 if by == CONFIDENCE else 0.12)
        upper.set_ylim(-0.06, 1.06)
        if by == CONFIDENCE:
            upper.plot([0, 1], [0, 1], color=GREY, lw=1.1, ls=":", label="as sure as right")
            upper.set_xlim(-0.06, 1.06)
        else:
            edges = range(HIGHEST_Z + 1)
            lower.set_xlim(-0.6, HIGHEST_Z + 0.6)
            lower.set_xticks(
                list(edges), [f"{z}\u2013{z + 1}" if z < HIGHEST_Z else f"\u2265 {z}" for z in edges]
            )
        known |= {name: each for name, each in entries(upper).items() if not name.startswith("empty")}
    if known:
        figure.legend(list(known.values()), list(known), ncols=3, loc="outside lower left")
    return figure


def _shares(upper: Axes, lower: Axes, frame: pd.DataFrame, shift: float) -> None:
    for (arm, own), (colour, marker, hatch), side in zip(
        ((arm, frame[frame["arm"] == arm]) for arm in ("before", "after")), _LOOKS, (-1, 1), strict=True
    ):
        x = own["bin"].to_numpy(np.float64) + side * shift
        y, low, high = (pd.to_numeric(own[name]).to_numpy(np.float64) for name in ("right", "low", "high"))
        upper.vlines(x, low, high, color=colour, lw=2.0, alpha=0.7)
        known = np.isfinite(low)
        upper.plot(x[known], y[known], marker, color=colour, ms=6, label=arm)
        if not known.all():
            upper.plot(
                x[~known],
                y[~known],
                marker,
                color=colour,
                mfc="white",
                ms=6,
                label=f"{arm}, interval missing",
            )
        lower.bar(
            x,
            own["n"],
            width=2 * shift,
            color=colour,
            alpha=0.75,
            hatch=hatch,
            edgecolor="white",
            linewidth=0.5,
        )


@styled
def false_claims(
    null_rows: Sequence[PairedRow], signal_rows: Sequence[PairedRow], baselines: Mapping[str, Report]
) -> Figure:
    """Return false claims on null worlds and power on signal worlds, overall and by stratum, with paired
    differences.

    Scripted players stand as lines in the overall rows, with their names above. Either list of rows may be
    empty: then that part is missing.
    """
    rows = [*null_rows, *signal_rows]
    parts = ((null_rows, FALSE_CLAIM, 0), (signal_rows, POWER, len(null_rows)))
    levels = {row: levels_of(baselines, measure) for part, measure, row in parts if part}
    places = row_places(len(rows), {row: level_room(each) for row, each in levels.items()})
    figure, (axes,) = new_figure(1, 1, height=1.5 + ROW * (places[-1] if places else 0))
    axes.set_xlabel("% of episodes, 95 % interval")
    if not rows:
        say_missing(axes, "null and signal worlds")
        return figure
    draw_rows(axes, rows, rate=True, places=places)
    for row, each in levels.items():
        draw_levels(axes, each, scale=100, row=places[row], named=True)
    axes.set_xlim(-3, 103)
    return figure


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
def validity_by_stratum(
    valid: Sequence[PairedRow], field_f1: Sequence[PairedRow], baselines: Mapping[str, Report] | None = None
) -> Figure:
    """Return schema validity and field F1, overall and by stratum: both arms and, beside them, the paired
    differences.

    The rows come from `strata_rows`; scripted players stand as lines in the overall rows.
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
        draw_levels(axes, levels_of(baselines, measure), scale=scale)
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
