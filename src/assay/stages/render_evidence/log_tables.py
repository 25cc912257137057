"""The tables of a training, read strictly: a bad line fails the reader and is not skipped."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import pandas as pd

from assay.core.errors import RecordError
from assay.core.storage.files import read_text
from assay.pipeline.project import Project

FIX = "./run dvc repro train"
LARGEST = 1e100  # beyond it sums of squares overflow, and no log of a training has such a number


def log_table(project: Project, name: str, *needed: str, texts: Sequence[str] = ()) -> pd.DataFrame:
    """Return a table of a training whose every cell is a finite number or empty, in the order of its steps.

    One row a step; of a table with texts, such as ids, many.

    Args:
        project: Where it lies.
        name: Of the file.
        needed: Columns it has to have.
        texts: Columns that hold text.

    Raises:
        RecordError: It is anything else; names the line.
    """
    text = read_text(project.results(name), fix=FIX)
    try:
        rows = list(csv.reader(io.StringIO(text), strict=True))
    except csv.Error as error:
        raise RecordError("a table", found=str(error), where=name, fix=FIX) from None
    missing = [column for column in needed if not rows or column not in rows[0]]
    if missing or len(rows) < 2:
        found = f"no {', '.join(missing)}" if missing else "no rows"
        raise RecordError(f"columns {', '.join(needed)} and rows", found=found, where=name, fix=FIX)
    for k, row in enumerate(rows[1:], 2):
        numbers = [cell for cell, column in zip(row, rows[0], strict=False) if column not in texts]
        if len(row) != len(rows[0]) or not all(cell == "" or _is_number(cell) for cell in numbers):
            found, where = ",".join(row)[:60], f"{name}, line {k}"
            raise RecordError(f"{len(rows[0])} cells, numbers or empty", found=found, where=where, fix=FIX)
    if not text.endswith("\n"):
        raise RecordError("a whole last line", found="one that is cut off", where=name, fix=FIX)
    frame = pd.read_csv(
        io.StringIO(text), dtype=dict.fromkeys(texts, str), keep_default_na=False, na_values=[""]
    )
    apart = frame["step"].diff().dropna()
    if frame["step"].isna().any() or not (apart >= 0 if texts else apart > 0).all():
        raise RecordError("steps in order, each once", found="others", where=f"{name}, column step", fix=FIX)
    return frame


def _is_number(cell: str) -> bool:
    try:
        return abs(float(cell)) < LARGEST
    except ValueError:
        return False
