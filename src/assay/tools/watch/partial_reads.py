"""Files that may still be written: a line without its end is not there yet, damage is said and left out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from assay.core.errors import RecordError
from assay.core.records import HealthEvent
from assay.core.storage.json import loads

T = TypeVar("T")
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


def read_groups(content: bytes, faults: list[str]) -> dict[str, str]:
    r"""Return the rows of a table by what their first cell says, each group as a table of its own; nothing is
    parsed.

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


def _parse_number(cell: str) -> float | None:
    try:
        return float(cell) if cell else None
    except ValueError:
        return math.nan


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
