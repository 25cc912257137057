"""The alarms of a training as a table and an exit code: what rang, since when, and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assay.core.console import say, say_table
from assay.core.evidence_files import place_of
from assay.core.records import HEALTH_LEVELS, HEALTH_RULES, HealthEvent, HealthSummary, TrainFacts
from assay.core.storage.json import read_record, read_records

# 1 and 2 are taken: our errors, and a wrong call
EXIT_CODES = {"GREEN": 0, "AMBER": 3, "RED": 4, "NOT MEASURED": 5}
COLUMNS = (
    *("rule", "worst", "at the end", "since step", "worst from", "times", "value", "limit", "baseline"),
    "what was found and what to try",
)


def run(root: Path, file: Path | None) -> int:
    """Show the alarms of a training and return the exit code of the worst level that any rule reached.

    Raises:
        RecordError: A line of the file is not an event of health.
    """
    path = root / place_of("health.jsonl") if file is None else file
    events = read_records(path, HealthEvent, fix="./run repro, or name another health.jsonl")
    summary = HealthSummary.of(events)
    if summary.rules:
        say_table(COLUMNS, rows(events))
    said = f"{summary.worst}: {len(summary.rules)} of {len(HEALTH_RULES)} rules raised an alarm"
    beside = path.with_name("train.json")
    if beside.is_file():
        unmeasured = read_record(beside, TrainFacts, fix="./run dvc repro train").health.unmeasured
        said += f"; never measured: {', '.join(unmeasured)}" if unmeasured else ""
    say(said)
    return EXIT_CODES[summary.worst]


def rows(events: Sequence[HealthEvent]) -> list[list[str]]:
    """Return one row for each rule that rang, the worst first: its first event at its worst level."""
    table = []
    for rule in sorted(HealthSummary.of(events).rules, key=lambda rule: -HEALTH_LEVELS.index(rule.level)):
        told = [event for event in events if event.rule == rule.rule]
        # An event that stopped the training says more than the one that turned the rule RED before.
        worst = max((event for event in told if event.level == rule.level), key=lambda event: event.stop)
        level = f"{rule.level}, stopped" if worst.stop else rule.level
        steps = (rule.first_step, rule.worst_step, rule.times)
        measured = (worst.value, worst.threshold, worst.baseline)
        numbers = ["" if value is None else f"{value:.4g}" for value in measured]
        table.append([rule.rule, level, told[-1].level, *map(str, steps), *numbers, worst.message])
    return table
