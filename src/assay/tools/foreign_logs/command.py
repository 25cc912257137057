"""`assay runs health` on a training log of another tool: what rang, what could not be measured, exit code."""

from __future__ import annotations

import json
import math
from pathlib import Path

from assay.core.console import say, say_table
from assay.core.counting import counted
from assay.core.records import HEALTH_LEVELS
from assay.core.storage.untrusted import open_regular
from assay.tools.foreign_logs.block_rules import read_blocks
from assay.tools.foreign_logs.blocks import FEWEST_BLOCKS, MIN_COMPLETIONS, TwoEnds, cut, range_of
from assay.tools.foreign_logs.end_rules import (
    read_hedging,
    read_length,
    read_parts,
    read_said,
    read_success,
    read_validation,
)
from assay.tools.foreign_logs.reading import FIX, read_foreign
from assay.tools.foreign_logs.records import HEDGING, NEEDS, ForeignLog, JudgedLog, LogFinding
from assay.tools.watch import health


def judge_log(log: ForeignLog) -> JudgedLog:
    """Return what all rules say that the log's columns allow; what they do not allow is named with what is
    lacking."""
    blocks = cut(log)
    steps = (int(min(_steps(log))), int(max(_steps(log))))
    if len(blocks) < FEWEST_BLOCKS:
        why = f"{FEWEST_BLOCKS} steps or more, and {FEWEST_BLOCKS * MIN_COMPLETIONS} completions if any"
        lacking = {rule: why for rule in NEEDS}
        return JudgedLog((), (), lacking, steps, len(log.completions), log.notes)
    successes = [each.success for each in log.completions if each.success is not None]
    most_success, rewards = max(successes, default=1.0), range_of(log, "reward")
    found, measured = read_blocks(blocks, rewards, most_success)
    parts = sorted({name for each in log.completions for name in each.parts})
    parts = parts or sorted({n[5:] for row in log.rows for n in row if n.startswith("part ")})
    ends = TwoEnds.of(blocks, rewards, most_success)
    for rule, (could, finding) in {
        "reward_vs_success": read_success(ends),
        "part_share": read_parts(ends, parts),
        "length": read_length(ends),
        "field_collapse": read_said(ends),
        HEDGING: read_hedging(ends),
        "reward_vs_validation": read_validation(ends),
    }.items():
        measured |= {rule} if could else set()
        found += [] if finding is None else [finding]
    worst: dict[str, LogFinding] = {}
    for each in found:
        known = worst.get(each.rule)
        if known is None or HEALTH_LEVELS.index(each.level) > HEALTH_LEVELS.index(known.level):
            worst[each.rule] = each
    ordered = sorted(worst.values(), key=lambda each: (-HEALTH_LEVELS.index(each.level), each.since))
    unmeasured = {rule: need for rule, need in NEEDS.items() if rule not in measured}
    done = tuple(rule for rule in NEEDS if rule in measured)
    return JudgedLog(tuple(ordered), done, unmeasured, steps, len(log.completions), log.notes)


def _steps(log: ForeignLog) -> list[float]:
    steps = [float(each.step) for each in log.completions] + [row["step"] for row in log.rows]
    return [step for step in steps if math.isfinite(step)]


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
