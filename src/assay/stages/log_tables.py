"""The tables of a training, read strictly: a bad line fails the reader and is not skipped."""

from __future__ import annotations

import csv
import io

import pandas as pd

from assay.errors import RecordError
from assay.stages.project import Project
from assay.storage.files import read_text

FIX = "./run dvc repro train"
LARGEST = 1e100  # beyond it sums of squares overflow, and no log of a training has such a number


def log_table(project: Project, name: str, *needed: str) -> pd.DataFrame:
    """Return a table of evidence/results whose every cell is a finite number or empty, one row a step, in order.

    Args:
        project: Where it lies.
        name: Of the file.
        needed: Columns it has to have.

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
        if len(row) != len(rows[0]) or not all(cell == "" or _is_number(cell) for cell in row):
            found, where = ",".join(row)[:60], f"{name}, line {k}"
            raise RecordError(f"{len(rows[0])} cells, numbers or empty", found=found, where=where, fix=FIX)
    if not text.endswith("\n"):
        raise RecordError("a whole last line", found="one that is cut off", where=name, fix=FIX)
    frame = pd.read_csv(io.StringIO(text))
    if frame["step"].isna().any() or not (frame["step"].diff().dropna() > 0).all():
        raise RecordError("steps in order, each once", found="others", where=f"{name}, column step", fix=FIX)
    return frame


def _is_number(cell: str) -> bool:
    try:
        return abs(float(cell)) < LARGEST
    except ValueError:
        return False
