"""`assay runs health` on a training log of another tool: what rang, what could not be measured, exit code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from assay.cli.tools.watch import health
from assay.core.console import say, say_table
from assay.core.counting import counted
from assay.core.storage.untrusted import open_regular
from assay.health.logs.judging import judge_log
from assay.health.logs.reading import FIX, read_foreign
from assay.health.logs.records import NOT_MEASURED, JudgedLog
from assay.rollout.tables.columns import Columns

MOST_OF_A_LINE = 1 << 20  # bytes; an alarm is far shorter
COLUMNS = (
    "rule",
    "level",
    "at the end",
    "since step",
    "value",
    "limit",
    "at the start",
    "what was found and what to try",
)


def run(path: Path, columns: Columns | None = None) -> int:
    """Show what the rules of training health say about a log and return the exit code of the worst level.

    A log of alarms of assay, under whatever name, is shown as such.

    Args:
        path: A file or a folder.
        columns: The columns that somebody named.

    Raises:
        DataError: The log cannot be read.
    """
    if not (columns and columns.named) and path.is_file() and holds_alarms(path):
        return health.run(path.parent, path)
    judged = judge_log(read_foreign(path, columns))
    for note in judged.notes:
        say(f"note: {note}")
    if judged.findings:
        say_table(COLUMNS, make_rows(judged))
    say(summarize(judged))
    if judged.unmeasured and judged.lacking is None:
        say(f"not measured: {list_unmeasured(judged.unmeasured)}")
    return health.EXIT_CODES[judged.worst]


def list_unmeasured(unmeasured: Mapping[str, str]) -> str:
    """Return the rules that were not measured with what they need, those of one need together.

    >>> list_unmeasured({"kl": "a column by step", "length": "lengths", "clip": "a column by step"})
    'kl, clip (a column by step); length (lengths)'
    """
    rules: dict[str, list[str]] = {}
    for rule, need in unmeasured.items():
        rules.setdefault(need, []).append(rule)
    return "; ".join(f"{', '.join(names)} ({need})" for need, names in rules.items())


def holds_alarms(path: Path) -> bool:
    """Return whether the first line of a file is an alarm of a training of assay."""
    with open_regular(path, max_bytes=1 << 62, fix=FIX) as stream:
        first = stream.readline(MOST_OF_A_LINE)
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and {"rule", "level", "first_step"} <= record.keys()


def make_rows(judged: JudgedLog) -> list[list[str]]:
    """Return a row for each rule that rang."""
    table = []
    for each in judged.findings:
        numbers = ["" if value is None else f"{value:.4g}" for value in (each.value, each.limit, each.start)]
        at_end = each.level if each.at_end else "over"
        table.append([each.rule, each.level, at_end, str(each.since), *numbers, each.said])
    return table


def summarize(judged: JudgedLog) -> str:
    """Return the whole as one line; a log of which too little could be read is not called GREEN."""
    first, last = judged.steps
    size = f"steps {first} to {last}, {counted(judged.completions, 'completions')}"
    if judged.worst == NOT_MEASURED:
        return f"{NOT_MEASURED} ({size}): {judged.lacking}"
    rules = counted(len(judged.measured), "measured rules")
    said = f"{judged.worst}: {len(judged.findings)} of {rules} rang ({size})"
    return said if judged.lacking is None else f"{said}; the rest is {NOT_MEASURED}: {judged.lacking}"
