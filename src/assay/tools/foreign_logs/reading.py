"""Reads training logs of other tools from files and folders, and names in one message what cannot be read."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.core.counting import counted
from assay.core.errors import DataError
from assay.core.storage.untrusted import read_capped
from assay.tools.foreign_logs.formats import is_completion, read_completion, read_row
from assay.tools.foreign_logs.records import ForeignLog, LoggedCompletion, put_together, weigh_parts

MAX_BYTES, MAX_LINE = 1 << 30, 64 << 20  # of a file, of a line
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
    content = read_capped(path, max_bytes=MAX_BYTES, fix=FIX)
    if not content.strip():
        raise DataError(KNOWN, found="an empty file", where=str(path), fix=FIX)
    notes: list[str] = []
    if content[:4] == b"PAR1":
        records: Sequence[tuple[int, Any]] = list(enumerate(_parquet(content, path), start=1))
    else:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            found = f"byte {error.start}, which is no UTF-8"
            raise DataError("text in UTF-8, or Parquet", found=found, where=str(path), fix=FIX) from None
        if path.suffix.lower() == ".csv":
            records = list(_table(text, path))
        elif path.suffix.lower() == ".json":
            records = list(enumerate(_history(text, path), start=1))
        else:
            records = list(_lines(text, path, notes))
    step = _STEP_OF_PATH.search(place)
    by_name = int(next(each for each in step.groups() if each)) if step else None
    completions: list[LoggedCompletion] = []
    rows = []
    for line, record in records:
        where = f"{path}:{line}"
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
    if not completions and not rows:
        names = sorted({str(name) for _, each in records[:50] if isinstance(each, Mapping) for name in each})
        found = f"only {', '.join(names)[:120]}" if names else "nothing"
        raise DataError(KNOWN, found=found, where=str(path), fix=FIX)
    return ForeignLog(tuple(completions), tuple(rows), tuple(notes))


def _parquet(content: bytes, path: Path) -> list[dict[str, Any]]:
    try:
        frame = pd.read_parquet(io.BytesIO(content))
    except (OSError, ValueError, KeyError, MemoryError) as error:
        found = " ".join(str(error).split())[:120]
        raise DataError("a whole Parquet file", found=found, where=str(path), fix=FIX) from None
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _table(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    csv.field_size_limit(MAX_LINE)
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        names = next(reader)
        if len(set(names)) < len(names):
            raise DataError("each column once", found=", ".join(names)[:120], where=f"{path}:1", fix=FIX)
        for cells in reader:
            if cells and len(cells) != len(names):
                found, where = f"{len(cells)}", f"{path}:{reader.line_num}"
                raise DataError(f"{len(names)} cells", found=found, where=where, fix=FIX)
            row = {name: _cell(cell) for name, cell in zip(names, cells, strict=False) if cell.strip()}
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise DataError("CSV", found=str(error), where=f"{path}:{reader.line_num}", fix=FIX) from None


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


def _history(text: str, path: Path) -> list[Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        found = " ".join(str(error).split())[:120]
        raise DataError("JSON", found=found, where=str(path), fix=FIX) from None
    history: Any = value.get("log_history") if isinstance(value, dict) else value
    if not isinstance(history, list) or not history:
        raise DataError("log_history, or a list of records", found="neither", where=str(path), fix=FIX)
    return history


def _lines(text: str, path: Path, notes: list[str]) -> Iterator[tuple[int, Any]]:
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if len(line) > MAX_LINE:
            found = f"{len(line):,}"
            expected = f"lines of at most {MAX_LINE:,} characters"
            raise DataError(expected, found=found, where=f"{path}:{number}", fix=FIX)
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines) and number > 1:  # a training that still writes, or one that was killed
                notes.append(f"the last line of {path.name} is cut off and left out")
                return
            found = " ".join(str(error).split())[:120]
            raise DataError("a JSON object a line", found=found, where=f"{path}:{number}", fix=FIX) from None
