"""CSV tables: a missing value is an empty cell, a float is written so that it reads back to the same bits."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.core.errors import RecordError
from assay.core.storage.files import write_text


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise RecordError(
                "a finite number", found=repr(value), where="a CSV cell", fix="write None where undefined"
            )
        return repr(value)
    return str(value)


def csv_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    r"""Return rows as CSV with a header; every row must have exactly the columns.

    >>> csv_text([{"step": 1, "kl": None}], ["step", "kl"])
    'step,kl\n1,\n'
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        if set(row) != set(columns):
            odd = sorted(set(row) ^ set(columns))
            raise RecordError(
                f"columns {list(columns)}", found=f"a row that differs in {odd}", where="CSV", fix="a bug"
            )
        writer.writerow([_cell(row[name]) for name in columns])
    return buffer.getvalue()


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write rows as CSV atomically."""
    write_text(path, csv_text(rows, columns))
