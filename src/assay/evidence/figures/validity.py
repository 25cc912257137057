"""The comparison that users of JSON output ask for: validity and field F1 by stratum, before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from matplotlib.figure import Figure

from assay.core.records import Interval
from assay.evidence.figures.drawing import bare_figure, styled
from assay.evidence.figures.paired_rows import PairedRow, draw_levels, draw_rows, legends_below
from assay.evidence.formatting import interval_text
from assay.statistics.report import Report

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
        players = (baselines or {}).items()
        levels = [
            (name, report.measures[measure].value if measure in report.measures else None)
            for name, report in players
        ]
        draw_levels(arms, levels, scale=scale)
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
