"""The strict reader of logs and files of episodes: a damaged line is refused by its number, or counted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.core.errors import RecordError
from assay.core.records import TRAINING_LOG_COLUMNS, Episode, HealthEvent, ValidationEpisode
from assay.core.storage.json import MAX_DEPTH, MAX_LINE_CHARS, dumps, parse_strict
from assay.core.storage.untrusted import read_capped

Kind = Literal["steps", "episodes", "validation", "alarms"]
MAX_BYTES, MAX_NUMBERS, TOO_LARGE = 1 << 30, 2000, 1e100  # of a file, of a record; beyond this, sums overflow
FIX = "take the file from a copy; --skip-damaged leaves such lines out and counts them"
COMPONENTS = ("step", "n", "mean_cumulative")
TABLES = {
    "training_log": TRAINING_LOG_COLUMNS,
    "training_clock": ("step", "wall_time_s"),
    "reward_components": COMPONENTS,
}
KNOWN = f"train_log.jsonl, a file of episodes, or one of {', '.join(f'{name}.csv' for name in TABLES)}"
KEYS: dict[Kind, set[str]] = {
    "validation": {"step", "episode"},
    "episodes": {"turns"},
    "steps": {"step", "digests"},
}
NO_NUMBERS = {"chain", "digests", "item_ids", "skipped", "step"}  # of a row of train_log.jsonl


@dataclass(slots=True)
class Log:
    """What a file holds: a row a record, with the number of its line as index; and what is not in it.

    `rows` has numbers by step, or `record` with its `step`. `missing` counts the steps and draws that lack.
    """

    path: Path
    skip_damaged: bool
    kind: Kind
    rows: pd.DataFrame
    n_lines: int = 0
    left_out: list[tuple[int, str]] = field(default_factory=list)
    missing: int = 0

    def reject(self, number: int, found: object, expected: str) -> None:
        """Refuse the file for a line, or leave the line out where that was asked for."""
        if not self.skip_damaged:
            raise RecordError(expected, found=str(found)[:200], where=f"{self.path}:{number}", fix=FIX)
        self.left_out.append((number, str(found)))


def read_log(path: Path, *, skip_damaged: bool, kind: Kind | None = None) -> Log:
    """Return what a file of anybody holds; its kind, if not given, is that of most of its lines.

    Raises:
        RecordError: It is of no known kind, or has nothing whole, or a damaged line and none may be skipped.
        DataError: It is no regular file, or beyond all sense.
    """
    log = Log(path, skip_damaged, kind or "steps", pd.DataFrame({"step": []}))
    is_table = path.suffix.lower() == ".csv"
    records = _read_records(log, is_table)
    if kind is None and not is_table:
        seen = Counter(found for record in records.values() if (found := _find_kind(record)) is not None)
        if seen:
            log.kind = seen.most_common(1)[0][0]
        else:
            records = {}
    rows = {}
    for number, record in records.items():
        try:
            if kind is None and not is_table and _find_kind(record) != log.kind:
                raise ValueError(f"one with {', '.join(sorted(record))[:80]}")
            rows[number] = _parse_step(record) if log.kind == "steps" else _parse_record(record, log.kind)
        except ValueError as error:
            log.reject(number, " ".join(str(error).split()), f"a record like the others ({log.kind})")
    if not rows and kind is None:
        raise RecordError(f"whole records of {KNOWN}", found="none", where=str(path), fix="name another file")
    if rows:
        log.rows = pd.DataFrame(list(rows.values()), index=list(rows))
        _keep_rising(log)
        if log.kind == "steps":
            _check_steps(log)
        elif log.kind != "alarms":
            _check_draws(log)
    log.left_out.sort()
    return log


def _read_records(log: Log, is_table: bool) -> dict[int, dict[str, Any]]:
    fix = "name a log that is there; ./run repro makes the project's own"
    *whole, rest = read_capped(log.path, max_bytes=MAX_BYTES, fix=fix).split(b"\n")
    lines = [(number, line) for number, line in enumerate(whole, start=1) if line.strip()]
    log.n_lines = len(lines) + bool(rest)
    columns = _read_columns(log, *lines.pop(0)) if is_table and lines else ()
    records = {}
    for number, line in lines:
        try:
            text = line.decode()
            records[number] = _parse_cells(text, columns) if is_table else _parse_object(text)
        except ValueError as error:
            expected = f"{len(columns)} cells, numbers or empty" if is_table else "strict JSON"
            log.reject(number, str(error).split("\n")[0], expected)
    if rest:
        log.reject(len(whole) + 1, "one that is cut off", "a last line with its end")
    return records


def _read_columns(log: Log, number: int, line: bytes) -> list[str]:
    names = line.decode("utf-8", "replace").removesuffix("\r").split(",")
    known = any(tuple(names[: len(columns)]) == columns for columns in TABLES.values())
    if not known or len(set(names) - {""}) < len(names):
        expected, found = f"the columns of {KNOWN}", ", ".join(names)[:80]
        raise RecordError(expected, found=found, where=f"{log.path}:{number}", fix="name another file")
    return names


def _parse_cells(line: str, columns: Sequence[str]) -> dict[str, Any]:
    """Return the numbers of a row, None for an empty cell; nothing is quoted in a table of numbers."""
    cells = line.removesuffix("\r").split(",")
    if len(cells) != len(columns) or not line.isascii() or "_" in line:  # float() would take 1_0
        raise ValueError(f"{len(cells)} cells: {line[:80]}")
    numbers = [float(cell) if cell else None for cell in cells]
    row: dict[str, Any] = dict(zip(columns, numbers, strict=True))
    return row | {"step": int(cells[0]) if cells[0].isdigit() else cells[0]}


def _parse_object(line: str) -> dict[str, Any]:
    value = parse_strict(line, max_chars=MAX_LINE_CHARS, max_depth=MAX_DEPTH)
    if not isinstance(value, dict):
        raise ValueError("no JSON object")
    return value


def _find_kind(record: dict[str, Any]) -> Kind | None:
    return next((kind for kind, keys in KEYS.items() if keys <= set(record)), None)


def _parse_step(record: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of a step; those inside an object are named after it."""
    step = record["step"]
    if type(step) is not int or not 0 <= step < 1 << 53:
        raise ValueError(f"step = {str(step)[:40]!r}")
    numbers: dict[str, Any] = {"step": step, "skipped": float(record.get("skipped") is not None)}
    for name, value in record.items():
        inside = value if isinstance(value, dict) else {"": value}
        for key, each in inside.items() if name not in NO_NUMBERS else ():
            if each is not None and (type(each) not in (int, float) or not abs(each) < TOO_LARGE):
                raise ValueError(f"{(key or name)[:60]} = {str(each)[:40]!r}, no number")
            numbers[f"{name}.{key}" if key else name] = None if each is None else float(each)
    if len(numbers) > MAX_NUMBERS:
        raise ValueError(f"{len(numbers):,} numbers, more than {MAX_NUMBERS:,}")
    numbers.pop("components.step", None)  # a row of another table, which has the step again
    return numbers


def _parse_record(record: dict[str, Any], kind: Kind) -> dict[str, Any]:
    if kind == "alarms":
        event = HealthEvent.model_validate_json(dumps(record))
        return {"step": event.step, "record": event}
    step, part = 0, "all"
    if kind == "validation":
        found = ValidationEpisode.model_validate_json(dumps(record))
        step, part = found.step, f"step {found.step}, {'greedy' if found.greedy else 'sampled'}"
        episode = found.episode
    else:
        episode = Episode.model_validate_json(dumps(record))
    numbers = [episode.reward, *episode.parts.values(), *episode.metrics.values()]
    if len(numbers) > MAX_NUMBERS or not all(abs(number or 0.0) < TOO_LARGE for number in numbers):
        raise ValueError(f"a number beyond all sense, or more than {MAX_NUMBERS:,} of them")
    home = repr((episode.cluster, sorted(episode.strata.items())))
    named = {"step": step, "part": part, "item": episode.item_id, "draw": episode.draw}
    return named | {"record": episode, "home": home}


def _keep_rising(log: Log) -> None:
    """Leave only records whose steps rise; of steps each number once."""
    steps = log.rows.step.tolist()
    kept = find_rising(steps, each_once=log.kind == "steps")
    for place in sorted(set(range(len(steps))) - set(kept)):
        log.reject(int(log.rows.index[place]), f"step {steps[place]}, out of order", "steps in order")
    log.rows = log.rows.iloc[kept]


def find_rising(steps: Sequence[int], *, each_once: bool) -> list[int]:
    """Return the places of steps that go up. A step beyond the one that follows it costs itself alone, where
    that one follows what was before.

    >>> find_rising([1, 2, 999, 3, 3, 4], each_once=True)
    [0, 1, 3, 5]
    >>> find_rising([0, 0, 9, 5], each_once=False)
    [0, 1, 3]
    """
    kept, last = list[int](), -1
    for place, (step, after) in enumerate(zip(steps, [*steps[1:], math.inf], strict=True)):
        if step >= last + each_once and not last <= after < step:
            kept.append(place)
            last = step
    return kept


def _check_steps(log: Log) -> None:
    steps = log.rows.step.tolist()
    log.missing = steps[-1] - steps[0] + 1 - len(steps)
    for number, before, step in zip(log.rows.index[1:], steps, steps[1:], strict=False):
        if step != before + 1 and not log.skip_damaged:
            log.reject(number, f"step {step}", f"step {before + 1}")


def _check_draws(log: Log) -> None:
    """Leave each draw of an item once, in one cluster and stratum, and count those that are not there."""
    odd = log.rows.duplicated(["part", "item", "draw"])
    odd |= log.rows.home != log.rows.groupby("item").home.transform("first")
    for number, row in log.rows[odd].iterrows():
        found = f"item {row['item'][:40]}, draw {row.draw}, again or in another cluster or stratum"
        log.reject(int(number), found, "each draw of an item once")
    log.rows = log.rows[~odd]
    for part, rows in log.rows.groupby("part"):
        draws = max(rows.draw.tolist()) + 1
        missing = draws * rows["item"].nunique() - len(rows)
        log.missing += missing
        if missing and not log.skip_damaged:
            expected, where = f"draws 0..{draws - 1} of every item", f"{log.path}, {part}"
            raise RecordError(expected, found=f"{missing} missing", where=where, fix=FIX)
