"""The table of a model card: both arms as their reports have them, the difference as
before_after_metrics.json has it."""

from __future__ import annotations

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.core.errors import EvidenceError
from assay.core.records import Interval
from assay.evaluation.measures import column_name, is_rate
from assay.evidence.formatting import MISSING, difference_text, interval_text
from assay.evidence.tables.claim_tables import BeforeAfter, Row, main_measures
from assay.statistics.report import Report

WHERE = "before_after_metrics.json"


def before_after_frame(before: Report, after: Report, metrics: BeforeAfter) -> pd.DataFrame:
    """Return the main measures as text: measure, before, after, difference, n (episodes before and after).

    Raises:
        EvidenceError: The file holds another value of an arm than its report.
    """
    rows = []
    for name in main_measures(before, after):
        column = column_name(name)
        arms = []
        for report, row in ((before, metrics.pre), (after, metrics.post)):
            found = report.measures.get(name)
            if found is not None and row.get(column) != found.value:
                raise EvidenceError(
                    f"{column} = {found.value}, as the report has it",
                    found=str(row.get(column)),
                    where=WHERE,
                    fix="./run dvc repro render_evidence",
                )
            arms.append(found)
        rate = is_rate(name)
        counts = ", ".join(MISSING if arm is None else str(arm.n) for arm in arms)
        rows.append(
            (
                column,
                *(interval_text(arm, rate=rate) for arm in arms),
                difference_text(_of(metrics.delta, column), rate=rate),
                counts,
            )
        )
    return pd.DataFrame(rows, columns=["measure", "before", "after", "difference", "n"])


def _of(row: Row, column: str) -> Interval | None:
    """Return one measure of a flat row as an interval; how many stand behind it, the row does not say."""
    if column not in row:
        return None
    value, low, high = (row.get(f"{column}{end}") for end in ("", "_low", "_high"))
    return Interval(value=value, low=low, high=high, n=0)
