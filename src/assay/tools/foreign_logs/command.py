"""`assay runs health` on a training log of another tool: what rang, what could not be measured, exit code."""

from __future__ import annotations

import json
from pathlib import Path

from assay.core.console import say, say_table
from assay.core.counting import counted
from assay.core.storage.untrusted import open_regular
from assay.tools.foreign_logs.findings import JudgedLog
from assay.tools.foreign_logs.judging import judge_log
from assay.tools.foreign_logs.reading import FIX, read_foreign
from assay.tools.watch import health

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


def run(path: Path, success: str | None) -> int:
    """Show what the rules of training health say about a log and return the exit code of the worst level.

    A log of alarms of assay, under whatever name, is shown as such.

    Raises:
        DataError: The log cannot be read.
    """
    if success is None and path.is_file() and holds_alarms(path):
        return health.run(path.parent, path)
    judged = judge_log(read_foreign(path, success))
    for note in judged.notes:
        say(f"note: {note}")
    if judged.findings:
        say_table(COLUMNS, make_rows(judged))
    say(summarize(judged))
    for rule, need in judged.unmeasured.items():
        say(f"  not measured: {rule}, which needs {need}")
    return health.EXIT_CODES[judged.worst]


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
    """Return the whole as one line; a log of which nothing could be measured is not called GREEN."""
    first, last = judged.steps
    size = f"steps {first} to {last}, {counted(judged.completions, 'completions')}"
    if not judged.measured:
        return f"NOT MEASURED: too short to compare its end with its start ({size})"
    rules = counted(len(judged.measured), "measured rules")
    return f"{judged.worst}: {len(judged.findings)} of {rules} rang ({size})"
