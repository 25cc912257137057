"""The comparison that users of structured output ask for: validity and field F1 by stratum, before and after."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.evaluation.report import Report
from assay.evidence.wording import interval_text
from assay.records import Interval

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
            rows.append(_row(f"{label}={value}", stratum.n_items, stratum.measures, {} if other is None else other.measures))
    return pd.DataFrame(rows)


def _row(name: str, items: int, before: Mapping[str, Interval], after: Mapping[str, Interval]) -> dict[str, str | int]:
    return {
        "stratum": name,
        "items": items,
        "valid before, %": interval_text(before.get(VALID), rate=True),
        "valid after, %": interval_text(after.get(VALID), rate=True),
        "field F1 before": interval_text(before.get(FIELD_F1), rate=False),
        "field F1 after": interval_text(after.get(FIELD_F1), rate=False),
    }
