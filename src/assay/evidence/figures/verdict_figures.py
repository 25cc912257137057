"""Figures of one task alone, not drawn for others.

How sure a player is and how often rightly, and claims where there is nothing to find: of tasks whose episodes
carry the metric `confidence` and the flag `false_claim`. Validity and field F1 by stratum: of JSON output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assay.core.records import Episode, Interval
from assay.evaluation.clusters import cluster_sums
from assay.evidence.figures.drawing import AFTER, BEFORE, GREY, bare_figure, new_figure, say_missing, styled
from assay.evidence.figures.paired_rows import (
    PairedRow,
    draw_levels,
    draw_rows,
    legends_below,
    level_room,
    levels_of,
    row_places,
)
from assay.evidence.formatting import difference_text, interval_text
from assay.statistics.intervals import rate_interval
from assay.statistics.report import Report

FALSE_CLAIM, POWER, CONFIDENCE, SIGNIFICANCE = "false_claim_rate", "discovered_rate", "confidence", "global_z"
HIGHEST_Z = 6  # significance bins are one wide; the last holds all above
Arms = tuple[Sequence[Episode], Sequence[Episode]]
_LOOKS = ((BEFORE, "o", ""), (AFTER, "s", "///"))


def has_verdicts(episodes: Sequence[Episode]) -> bool:
    """Return whether the task asks how sure the player is, in worlds of which some hold nothing."""
    return any(e.metrics.get(CONFIDENCE) is not None and "false_claim" in e.flags for e in episodes)


def verdict_right(episode: Episode) -> bool | None:
    """Return whether the verdict was right, be it proven or not; None without one.

    On a null world any claim is wrong; elsewhere channel and mass have to be right, and "nothing there" is
    wrong.
    """
    if episode.metrics.get(CONFIDENCE) is None:
        return None
    false_claim = episode.flags.get("false_claim")
    if false_claim is not None:
        return not false_claim
    return bool(episode.flags.get("channel_correct")) and bool(episode.flags.get("mass_correct"))


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
def calibration(frame: pd.DataFrame, gaps: Mapping[str, Interval], reports: tuple[Report, Report]) -> Figure:
    """Return the share of right verdicts by stated confidence and of right claims by significance, both arms.

    Args:
        frame: What `calibration_frame` returns.
        gaps: Paired differences by measure; that of the Brier score stands in the title.
        reports: Before and after, for the Brier scores.
    """
    figure = bare_figure(height=5.6)
    grid = figure.add_gridspec(2, 2, height_ratios=[3, 1])
    brier = [interval_text(report.measures.get("metric.brier"), rate=False) for report in reports]
    change = difference_text(gaps.get("metric.brier"), rate=False)
    figure.suptitle(
        f"Brier score (lower is better): {brier[0]} \u2192 {brier[1]}; after \u2212 before {change}",
        fontsize=10,
        x=0.01,
        ha="left",
    )
    titles = ("Right verdicts by stated confidence", "Right claims by significance of the player's own data")
    units = ("stated confidence", "global significance at the claimed mass, \u03c3")
    for k, by in enumerate((CONFIDENCE, SIGNIFICANCE)):
        upper = figure.add_subplot(grid[0, k])
        lower = figure.add_subplot(grid[1, k], sharex=upper)
        upper.set_title(titles[k])
        upper.set_ylabel("share right, 95 % interval")
        lower.set_ylabel("episodes")
        lower.set_xlabel(units[k])
        upper.tick_params(labelbottom=False)
        own = frame[frame["by"] == by]
        if own.empty:
            say_missing(upper, "verdicts" if by == CONFIDENCE else "claims")
            say_missing(lower, "episodes")
            continue
        _shares(upper, lower, own, 0.02 if by == CONFIDENCE else 0.12)
        upper.set_ylim(-0.03, 1.03)
        if by == CONFIDENCE:
            upper.plot([0, 1], [0, 1], color=GREY, lw=1.1, ls=":", label="as sure as right")
            upper.set_xlim(-0.06, 1.06)
        else:
            edges = range(HIGHEST_Z + 1)
            lower.set_xlim(-0.6, HIGHEST_Z + 0.6)
            lower.set_xticks(
                list(edges), [f"{z}\u2013{z + 1}" if z < HIGHEST_Z else f"\u2265 {z}" for z in edges]
            )
        handles, labels = upper.get_legend_handles_labels()
        lower.legend(handles, labels, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.55))
    return figure


def _shares(upper: Axes, lower: Axes, frame: pd.DataFrame, shift: float) -> None:
    for (arm, own), (colour, marker, hatch), side in zip(
        ((arm, frame[frame["arm"] == arm]) for arm in ("before", "after")), _LOOKS, (-1, 1), strict=True
    ):
        x = own["bin"].to_numpy(np.float64) + side * shift
        y, low, high = (pd.to_numeric(own[name]).to_numpy(np.float64) for name in ("right", "low", "high"))
        upper.vlines(x, low, high, color=colour, lw=2.0, alpha=0.7)
        known = np.isfinite(low)
        total = int(own["n"].sum())
        upper.plot(x[known], y[known], marker, color=colour, ms=6, label=f"{arm}, n = {total}")
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
    figure, panels = new_figure(1, 2, height=2.64 + 0.44 * (places[-1] if places else 0), ratios=[1.25, 1])
    panels[0].set_title("Claims on null worlds, discoveries on signal worlds")
    panels[0].set_xlabel("% of episodes, 95 % interval")
    if not rows:
        for panel in panels:
            say_missing(panel, "null and signal worlds")
        return figure
    draw_rows(panels[0], panels[1], rows, rate=True, places=places)
    panels[1].set_title("Difference")
    for row, each in levels.items():
        draw_levels(panels[0], each, scale=100, row=places[row], named=True)
    panels[0].set_xlim(-3, 103)
    legends_below(figure, panels)
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
    heights = [1.0 + 0.42 * len(rows) for rows in (valid, field_f1)]
    figure = bare_figure(height=sum(heights) + 1.1)
    grid = figure.add_gridspec(2, 2, width_ratios=[1.25, 1], height_ratios=heights)
    for k, (rows, measure, title, unit) in enumerate(
        (
            (valid, VALID, "Answers that satisfy their schema", "% of episodes, 95 % interval"),
            (field_f1, FIELD_F1, "Field F1 of answers with a gold", "mean per episode, 95 % interval"),
        )
    ):
        arms, gaps = figure.add_subplot(grid[k, 0]), figure.add_subplot(grid[k, 1])
        rate = measure == VALID
        draw_rows(arms, gaps, rows, rate=rate)
        scale = 100.0 if rate else 1.0
        draw_levels(arms, levels_of(baselines, measure), scale=scale)
        arms.set_xlim(-0.03 * scale, 1.03 * scale)
        arms.set_title(title)
        arms.set_xlabel(unit)
        gaps.set_title("Difference")
        if k == 0:
            legends_below(figure, [arms, gaps])
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
