"""Reads training logs of other tools from files and folders, and names in one message what cannot be read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assay.core.counting import counted
from assay.core.errors import DataError
from assay.core.storage.untrusted import open_regular, read_capped
from assay.tools.foreign_logs.formats import is_completion, read_completion, read_row
from assay.tools.foreign_logs.records import ForeignLog, LoggedCompletion, put_together, weigh_parts
from assay.tools.judge.lines import FIX as FIX_OF_RESULTS
from assay.tools.judge.lines import csv_rows, json_file, json_rows, parquet_rows

MAX_BYTES = 1 << 30  # of a file
MAX_FILES, MAX_DEPTH = 20_000, 6  # of a folder
KNOWN = (
    "trainer_state.json or completions/*.parquet of TRL, <step>.jsonl of verl, rollouts/step_<n>/ of"
    " prime-rl, a CSV of metrics by step, or JSONL of step, item, completion, reward and parts"
)
FIX = "name the log, or the folder that the trainer wrote; ./run assay runs health --help says what is read"
_STEP_OF_PATH = re.compile(r"(?:^|/)(?:global_)?step_(\d{1,12})(?:/|_|\.|$)|(?:^|/)(\d{1,12})\.jsonl$")
# Of a folder, the first kind that is there, besides trainer_state.json: by patterns of relative names.
_KINDS = (
    re.compile(r"(?:^|/)completions_\d+\.parquet$"),
    re.compile(r"(?:^|/)step_\d+/train/effective/traces\.jsonl$"),
    re.compile(r"(?:^|/)step_\d+/train/all/traces\.jsonl$"),
    re.compile(r"(?:^|/)step_\d+/train_rollouts\.jsonl$"),
    re.compile(r"(?:^|/)\d+\.jsonl$"),
    re.compile(r"^[^/]+\.(?:parquet|jsonl)$"),
)
_STATE, _TABLE = "trainer_state.json", re.compile(r"^[^/]+\.csv$")


def read_foreign(path: Path, success: str | None = None) -> ForeignLog:
    """Return a training log of another tool.

    Args:
        path: A file or a folder.
        success: The column or reward part that tells right from wrong; None: one whose name says so.

    Raises:
        DataError: It is of no known form, damaged, or holds no step.
    """
    files = _files(path) if path.is_dir() else [path]
    # The file's own name is not enough: prime-rl has the step in a folder above.
    logs = [_read_file(each, os.path.abspath(each), success) for each in files]
    log = weigh_parts(put_together(logs))
    if not log.completions and not log.rows:
        raise DataError(KNOWN, found="no step in it", where=str(path), fix=FIX)
    if success is not None and not _has_success(log):
        where = f"{path}, --success {success}"
        raise DataError("a column or reward part of this name", found="none", where=where, fix=FIX)
    return log


def _has_success(log: ForeignLog) -> bool:
    return any(each.success is not None for each in log.completions) or any(
        "success" in row for row in log.rows
    )


def _files(folder: Path) -> list[Path]:
    """Return the files of a folder that belong to one training."""
    names = sorted(_names(folder))
    kinds = ([name for name in names if kind.search(name)] for kind in _KINDS)
    chosen = next((named for named in kinds if named), [])
    states = [name for name in names if name.rsplit("/", 1)[-1] == _STATE]
    if states:
        # Each checkpoint has the whole history up to it; the one beside them, or the last, has all of it.
        chosen.append(min(states, key=lambda name: (name.count("/"), -_last_number(name), name)))
    chosen += [name for name in names if _TABLE.search(name)] if not chosen else []
    if not chosen:
        found = f"{counted(len(names), 'files')}, none of them one of these"
        raise DataError(KNOWN, found=found, where=str(folder), fix=FIX)
    return [folder / name for name in chosen]


def _names(folder: Path) -> Iterator[str]:
    """Yield the files of a folder by relative name, links left out: not all of a disk, for a folder named by
    mistake."""
    todo, seen = [("", 0)], 0
    while todo:
        below, depth = todo.pop()
        try:
            entries = sorted(os.scandir(folder / below), key=lambda each: each.name)
        except OSError as error:
            found = error.strerror or str(error)
            where = str(folder / below)
            raise DataError("a readable folder", found=found, where=where, fix=FIX) from None
        seen += len(entries)
        if seen > MAX_FILES:
            raise DataError(f"at most {MAX_FILES:,} files", found="more", where=str(folder), fix=FIX)
        for entry in entries:
            name = f"{below}/{entry.name}" if below else entry.name
            if entry.is_dir(follow_symlinks=False):
                todo += [(name, depth + 1)] if depth < MAX_DEPTH else []
            elif entry.is_file(follow_symlinks=False):
                yield name


def _last_number(name: str) -> int:
    return int((re.findall(r"\d{1,12}", name) or ["0"])[-1])


def _read_file(path: Path, place: str, success: str | None) -> ForeignLog:
    step = _STEP_OF_PATH.search(place)
    by_name = int(next(each for each in step.groups() if each)) if step else None
    completions: list[LoggedCompletion] = []
    rows: list[Mapping[str, float]] = []
    notes: list[str] = []
    names: set[str] = set()
    try:
        for where, record in _records(path, notes):
            if not isinstance(record, Mapping):
                raise DataError("an object", found=str(record)[:60], where=where, fix=FIX)
            if ("rule" in record and "level" in record) or "digests" in record:
                fix = "name its health.jsonl, whose alarms the training itself raised"
                raise DataError("a log of another tool", found="one of assay", where=where, fix=fix)
            traces = record.get("traces")
            for each in traces if isinstance(traces, list) else [record]:
                try:
                    if isinstance(each, Mapping) and is_completion(each):
                        completions.append(read_completion(each, by_name, success))
                    elif isinstance(each, Mapping) and (row := read_row(each, success)) is not None:
                        rows.append(row)
                except (ValueError, TypeError, AttributeError) as error:
                    found = " ".join(str(error).split())[:160]
                    raise DataError("a record of a training", found=found, where=where, fix=FIX) from None
            names |= {str(name) for name in record} if not completions and not rows else set()
    except DataError as error:
        if error.fix != FIX_OF_RESULTS:
            raise
        raise DataError(error.expected, found=error.found, where=error.where, fix=FIX) from None
    if not completions and not rows:
        found = f"only {', '.join(sorted(names))[:120]}" if names else "nothing"
        raise DataError(KNOWN, found=found, where=str(path), fix=FIX)
    return ForeignLog(tuple(completions), tuple(rows), tuple(notes))


def _records(path: Path, notes: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield what a file holds, each with its place."""
    with open_regular(path, max_bytes=MAX_BYTES, fix=FIX) as stream:
        head = stream.read(4)
    if not head:
        raise DataError(KNOWN, found="an empty file", where=str(path), fix=FIX)
    if head == b"PAR1":
        yield from parquet_rows(path)
    elif path.suffix.lower() == ".csv":
        for where, cells in csv_rows(path):
            if row := {name: _cell(cell) for name, cell in cells.items() if cell and cell.strip()}:
                yield where, row
    elif path.suffix.lower() == ".json":
        value = json_file(read_capped(path, max_bytes=MAX_BYTES, fix=FIX), path)
        history: Any = value.get("log_history") if isinstance(value, dict) else value
        if not isinstance(history, list) or not history:
            raise DataError("log_history, or a list of records", found="neither", where=str(path), fix=FIX)
        yield from ((f"{path}, record {k}", each) for k, each in enumerate(history, start=1))
    else:
        yield from json_rows(path, notes)


def _cell(text: str) -> Any:
    """Return a cell as the number, truth value or object that it is, else as text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        pass
    if text.startswith("{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text
