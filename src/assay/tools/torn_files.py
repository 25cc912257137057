"""Files that somebody may still be writing: a last line without its end is not there yet, damage is said and left out."""

from __future__ import annotations

import csv
import math
from typing import Any

from pydantic import ValidationError

from assay.errors import RecordError
from assay.records import HealthEvent
from assay.storage.json import loads

LARGEST = 1e100  # beyond, sums of what was measured would overflow


def complete_lines(content: bytes) -> list[str]:
    r"""Return the lines that a \n ends.

    >>> complete_lines(b"a\nb\nhal")
    ['a', 'b']
    """
    return content.decode("utf-8", "replace").split("\n")[:-1]


def columns(content: bytes, faults: list[str]) -> dict[str, list[float | None]]:
    r"""Return the columns of a table of numbers; adds to `faults` what could not be read.

    >>> said = []
    >>> columns(b"step,kl\n1,\n2,x\n3\n4,0.5\n5,0", said), said
    ({'step': [1.0, 2.0, 4.0], 'kl': [None, None, 0.5]}, ["line 3: kl is 'x'", 'line 4: 1 cells, not 2'])
    """
    lines = complete_lines(content)
    names = _cells(lines[0]) if lines else []
    if names and "step" not in names:
        faults.append("line 1: no column step")
        return {}
    table: dict[str, list[float | None]] = {name: [] for name in names}
    for number, line in enumerate(lines[1:], start=2):
        row = _cells(line)
        if len(row) != len(names):
            faults.append(f"line {number}: {len(row)} cells, not {len(names)}")
            continue
        for name, cell in zip(names, row, strict=True):
            try:
                value = float(cell) if cell else None
            except ValueError:
                value = math.nan
            if value is not None and not abs(value) < LARGEST:
                faults.append(f"line {number}: {name} is {cell[:40]!r}")
                value = None
            table[name].append(value)
    return table


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def objects(content: bytes, faults: list[str]) -> list[dict[str, Any]]:
    """Return the objects of a JSONL file; adds to `faults` which lines are none."""
    found = []
    for number, line in enumerate(complete_lines(content), start=1):
        try:
            value = loads(line, where="", fix="")
        except RecordError as error:
            faults.append(f"line {number}: {error.found}")
            continue
        if isinstance(value, dict):
            found.append(value)
        else:
            faults.append(f"line {number}: not an object")
    return found


def health_events(content: bytes, faults: list[str]) -> list[HealthEvent]:
    """Return the alarms of health.jsonl; adds to `faults` which lines are none."""
    found = []
    for number, line in enumerate(complete_lines(content), start=1):
        try:
            found.append(HealthEvent.model_validate_json(line))
        except ValidationError as error:
            faults.append(f"line {number}: {error.errors()[0]['msg']}")
    return found


def one_object(content: bytes, faults: list[str]) -> dict[str, Any]:
    """Return the object that a JSON file holds, an empty one if it holds anything else; adds that to `faults`."""
    value = loads(content.decode("utf-8", "replace"), where="", fix="")
    if not isinstance(value, dict):
        faults.append("not an object")
        return {}
    return value
