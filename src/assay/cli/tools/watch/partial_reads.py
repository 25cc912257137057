"""Files that may still be written: a line without its end is not there yet, damage is said and left out."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from assay.core.errors import EvidenceError, RecordError
from assay.core.records import HealthEvent
from assay.core.storage.json import loads

T = TypeVar("T")
Columns = Mapping[str, Sequence[float | None]]
Ends = dict[str, float | None]  # what the episodes of a validation give, intervals included
LARGEST = 1e100  # beyond, sums of what was measured would overflow


def read_columns(content: bytes, faults: list[str]) -> dict[str, list[float | None]]:
    r"""Return the columns of a table of numbers; adds to `faults` what could not be read.

    >>> said = []
    >>> read_columns(b"step,kl\n1,\n2,x\n3\n4,0.5\n5,0", said), said
    ({'step': [1.0, 2.0, 4.0], 'kl': [None, None, 0.5]}, ["line 3: kl is 'x'", 'line 4: 1 cells, not 2'])
    """
    head, *lines = _complete_lines(content) or [""]
    table: dict[str, list[float | None]] = {name: [] for name in head.split(",")}
    if "step" not in table:
        faults.extend(["line 1: no column step"] if head else [])
        return {}
    for number, line in enumerate(lines, start=2):
        cells = line.split(",")
        if len(cells) != len(table):
            faults.append(f"line {number}: {len(cells)} cells, not {len(table)}")
            continue
        for name, cell in zip(table, cells, strict=True):
            value = _parse_number(cell)
            if value is not None and not abs(value) < LARGEST:
                faults.append(f"line {number}: {name} is {cell[:40]!r}")
                value = None
            table[name].append(value)
    return table


def _parse_number(cell: str) -> float | None:
    try:
        return float(cell) if cell else None
    except ValueError:
        return math.nan


def read_groups(content: bytes, faults: list[str]) -> dict[str, str]:
    r"""Return the rows of a table by their first cell, each group a table of its own; nothing is parsed.

    >>> read_groups(b"step,draw\n0,1\n0,2\n5,1\n5,", [])
    {'0': 'step,draw\n0,1\n0,2\n', '5': 'step,draw\n5,1\n'}
    """
    head, *lines = _complete_lines(content) or [""]
    groups: dict[str, list[str]] = {}
    for line in lines:
        groups.setdefault(line.partition(",")[0], [head]).append(line)
    return {first: "".join(f"{line}\n" for line in rows) for first, rows in groups.items()}


def _complete_lines(content: bytes) -> list[str]:
    return content.decode("utf-8", "replace").split("\n")[:-1]


def read_object(content: bytes, faults: list[str]) -> dict[str, Any]:
    """Return the object that a JSON text holds, an empty one for anything else; adds that to `faults`."""
    return next(iter(_read_each([content.decode("utf-8", "replace")], _parse_object, faults)), {})


def read_objects(content: bytes, faults: list[str]) -> list[dict[str, Any]]:
    """Return the objects of a JSONL file; adds to `faults` which lines are none."""
    return _read_each(_complete_lines(content), _parse_object, faults)


def read_alarms(content: bytes, faults: list[str]) -> list[HealthEvent]:
    """Return the alarms of health.jsonl; adds to `faults` which lines are none."""
    return _read_each(_complete_lines(content), HealthEvent.model_validate_json, faults)


def _read_each(lines: list[str], parse: Callable[[str], T], faults: list[str]) -> list[T]:
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(parse(line))
        except (RecordError, ValueError) as error:  # pydantic's errors are a ValueError
            said = error.found if isinstance(error, RecordError) else " ".join(str(error).split())
            faults.append(f"line {number}: {said[:200]}")
    return found


def _parse_object(line: str) -> dict[str, Any]:
    value = loads(line, where="", fix="")
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def add_ends(checkpoints: Columns, found: Sequence[Ends]) -> Columns:
    """Return checkpoint_evals.csv with `<column>_low` and `_high`, empty where a validation is not whole.

    Args:
        checkpoints: Columns of checkpoint_evals.csv.
        found: Of `read_scores`, a validation each.
    """
    by_step = {row["step"] or 0.0: row for row in found}
    rows = [by_step.get(step or 0.0, {}) for step in checkpoints.get("step", ())]
    counts = checkpoints.get("episodes", ())
    whole = [row if row.get("episodes") == n else {} for row, n in zip(rows, counts, strict=False)]
    names = dict.fromkeys(name for row in whole for name in row if name.endswith(("_low", "_high")))
    return {**checkpoints, **{name: [row.get(name) for row in whole] for name in names}}


def read_scores(table: str, suite: str) -> Ends | str:
    """Return what the episodes of one validation give with 95 % intervals, or what is wrong with them.

    Args:
        table: The rows of one step of validation_scores.csv.
        suite: Digest of the validation suite, on which bootstrap draws depend; empty while nobody said it.
    """
    import numpy as np
    import pandas as pd

    from assay.verdict.statistics.checkpoint_rows import LABELS, rows_of_scores

    try:
        texts = {"item_id": str, "cluster": str}
        frame = pd.read_csv(io.StringIO(table), dtype=texts, keep_default_na=False, na_values=[""])
        numbers = frame.drop(columns=list(texts)).to_numpy(np.float64)
        known = np.isnan(numbers) | (np.abs(numbers) < LARGEST)
        if not known.all() or frame[list(LABELS)].isna().any(axis=None):
            return "numbers beyond all sense, or none"
        if not (frame["greedy"].isin((0, 1)) & frame["draw"].between(0, len(frame))).all():
            return "episodes of no suite"
        (row,) = rows_of_scores(frame, suite, 1)
        items = [set(played) for _, played in frame.groupby("greedy")["item_id"]]
        # Until both ways of playing have the same items, the rest is still being written.
        return dict(row) if len(items) == 2 and items[0] == items[1] else {"step": row["step"]}
    except (ArithmeticError, LookupError, TypeError, ValueError, EvidenceError) as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:200]
