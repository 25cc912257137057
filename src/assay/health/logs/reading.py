"""Reads training logs of other tools from files and folders, and names in one message what cannot be read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from assay.core.counting import counted
from assay.core.errors import DataError
from assay.core.storage.untrusted import open_regular, read_capped
from assay.health.logs.console_logs import LONGEST, read_printed
from assay.health.logs.formats import (
    is_completion,
    is_evaluation,
    read_completion,
    spread,
    step_of_episode,
    with_answer,
)
from assay.health.logs.means import is_known, is_prose, names_of_counts, read_means
from assay.health.logs.records import ForeignLog, LoggedCompletion
from assay.health.logs.row_shapes import rows_of, unfold
from assay.health.logs.settling import settle
from assay.rollout.tables.columns import Columns, list_names
from assay.rollout.tables.lines import FIX as FIX_OF_RESULTS
from assay.rollout.tables.lines import csv_rows, json_file, json_rows, parquet_rows, sign_between

MAX_BYTES = 1 << 30  # of a file
MAX_FILES, MAX_DEPTH = 20_000, 6  # of a folder
PRINTED = (".log", ".out", ".txt")
LOOKED_AT = 200  # completions whose other texts are looked at
KNOWN = "a step, and a reward or a completion, in each record"
FIX = "name the log, or the folder that the trainer wrote; ./run assay runs health --help says what is read"
NAME_THEM = "--columns step=NAME,score=NAME,completion=NAME names the columns that hold them"
NUMBER_THEM = "--columns step=#,score=NAME, if each row is one more step; NAME is the column of the reward"
_STEP_OF_PATH = re.compile(r"(?:^|/)(?:global_)?step_(\d{1,12})(?:/|_|\.|$)|(?:^|/)(\d{1,12})\.jsonl$")
# Of MLflow's file store: a file for each metric, of lines with time, value and step.
_STORED = re.compile(r"(?:^|/)metrics/(?P<metric>[^.]+)$")
_HISTORY = re.compile(r"(\d{10,16}) (\S+) (\d{1,12})")
# Of a folder, the first kind that is there, besides trainer_state.json: by patterns of relative names.
_KINDS = (
    re.compile(r"(?:^|/)completions_\d+\.parquet$"),
    re.compile(r"(?:^|/)monitors/file/(?:traces/stream|metrics)\.jsonl$"),
    re.compile(r"(?:^|/)step_\d+/train/effective/traces\.jsonl$"),
    re.compile(r"(?:^|/)step_\d+/train/all/traces\.jsonl$"),
    re.compile(r"(?:^|/)step_\d+/train_rollouts\.jsonl$"),
    re.compile(r"(?:^|/)\d+\.jsonl$"),
    re.compile(r"^[^/]+\.(?:parquet|jsonl)$"),
    _STORED,
)
_STATE = "trainer_state.json"
_OTHERS = (re.compile(r"^[^/]+\.[ct]sv$"), re.compile(r"^[^/]+\.(?:log|out|txt)$"))  # where none of these is
_THOUSANDS = re.compile(r"-?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_TAG = re.compile(r"(?:^|-)tag-(?P<tag>.+)$")
_TENSORBOARD = ("Wall time", "Step", "Value")


@dataclass
class RawLog:
    """What files hold, before anybody decides what their columns mean."""

    completions: list[LoggedCompletion] = field(default_factory=list)
    rows: list[Mapping[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    texts: dict[str, list[object]] = field(default_factory=dict)
    odd: tuple[str, str] | None = None  # where the first reward that is no number stands, and what it is


def read_foreign(path: Path, columns: Columns | None = None) -> ForeignLog:
    """Return a training log of another tool.

    Args:
        path: A file or a folder.
        columns: The columns that somebody named.

    Raises:
        DataError: It is of no known form, damaged, or holds no step.
    """
    columns, raw = columns or Columns(), RawLog()
    for each in _files(path) if path.is_dir() else [path]:
        # The file's own name is not enough: prime-rl has the step in a folder above.
        _read_file(each, os.path.abspath(each), columns, raw)
    return make_log(raw, columns, str(path))


def make_log(raw: RawLog, columns: Columns, where: str) -> ForeignLog:
    """Return a log from what was read of it; `where` names it in messages.

    Raises:
        DataError: It holds no step, or no reward that is a number.
    """
    means = read_means(raw.rows, columns, where)
    if not raw.completions and not means.rows and not means.odd:
        names = sorted({str(name) for row in raw.rows for name in row})
        found = f"only {list_names(names)}" if names else "nothing"
        name_them = NAME_THEM if names_of_counts(raw.rows) else NUMBER_THEM
        raise DataError(KNOWN, found=found, where=where, fix=name_them if names else FIX)
    if raw.odd is not None and all(each.reward is None for each in raw.completions):
        place, found = raw.odd
        raise DataError("a record of a training", found=found, where=place, fix=FIX)
    log = settle(raw.completions, means, [*raw.notes, *means.notes], columns)
    said = tuple(name for name, values in raw.texts.items() if is_prose(values))
    if (asked := columns.named.get("success")) is not None and not _has_success(log):
        place, fix = (
            f"{where}, {asked} as success",
            "name one that is there, by --success or --columns success=",
        )
        raise DataError("a column or reward part of this name", found="none", where=place, fix=fix)
    note = f"texts beside the completions that were not read: {list_names(said)}"
    return replace(log, notes=(*log.notes, note)) if said else log


def _has_success(log: ForeignLog) -> bool:
    return any(each.success is not None for each in log.completions) or any(
        "success" in row for row in log.rows
    )


def _files(folder: Path) -> list[Path]:
    """Return the files of a folder that belong to one training."""
    names = sorted(_names(folder))
    kinds = (
        [name for name in names if kind.search(name) and (kind is not _STORED or _is_history(folder / name))]
        for kind in _KINDS
    )
    chosen = next((named for named in kinds if named), [])
    states = [name for name in names if name.rsplit("/", 1)[-1] == _STATE]
    if states:
        # Each checkpoint has the whole history up to it; the one beside them, or the last, has all of it.
        chosen.append(min(states, key=lambda name: (name.count("/"), -_last_number(name), name)))
    if not chosen and folder.resolve().name == "metrics":
        chosen = [name for name in names if _is_history(folder / name)]
    runs = sorted({name[: match.start()] for name in chosen if (match := _STORED.search(name))})
    if len(runs) > 1:
        fix = f"name one of them, such as {folder / runs[0]}"
        raise DataError("the log of one run", found=list_names(runs), where=str(folder), fix=fix)
    for kind in _OTHERS:
        chosen = chosen or [name for name in names if kind.search(name)]
    if not chosen:
        found = f"{counted(len(names), 'files')}, none of them one of these: {list_names(names)}"
        fix = "name the file that holds the log"
        raise DataError("the log of a training in this folder", found=found, where=str(folder), fix=fix)
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


def _read_file(path: Path, place: str, columns: Columns, raw: RawLog) -> None:
    """Add what a file holds."""
    step = _STEP_OF_PATH.search(place)
    by_name = int(next(each for each in step.groups() if each)) if step else None
    try:
        for where, record in _records(path, raw.notes):
            if not isinstance(record, Mapping):
                raise DataError("an object", found=str(record)[:60], where=where, fix=FIX)
            if ("rule" in record and "level" in record) or "digests" in record:
                fix = "name its health.jsonl, whose alarms the training itself raised"
                raise DataError("a log of another tool", found="one of assay", where=where, fix=fix)
            traces = record.get("traces")
            if isinstance(traces, list) and is_evaluation(record):
                continue
            told = step_of_episode(record)
            at = by_name if told is None else told
            for each in traces if isinstance(traces, list) else spread(record):
                if isinstance(each, Mapping):
                    read_record(with_answer(each), at, where, columns, raw)
    except DataError as error:
        fix = error.fix.replace(FIX_OF_RESULTS, FIX)
        raise DataError(error.expected, found=error.found, where=error.where, fix=fix) from None


def read_record(
    record: Mapping[str, Any], step: int | None, where: str, columns: Columns, raw: RawLog
) -> None:
    """Add one record: a completion, with its step unless it says it itself, or the means of a step.

    Raises:
        DataError: A completion has no step.
    """
    if not is_completion(record, columns):
        raw.rows.append(unfold(record))
        return
    try:
        each = read_completion(record, step, columns)
    except (ValueError, TypeError, AttributeError) as error:
        found, fix = " ".join(str(error).split())[:160], FIX
        if found.startswith("step = "):
            found = f"{found} among the columns {list_names(record)}"
            fix = "--columns step=NAME names the column that counts the steps of the training"
        raise DataError("a record of a training", found=found, where=where, fix=fix) from None
    raw.completions.append(each)
    if each.odd not in (None, "null") and raw.odd is None:
        raw.odd = where, f"reward = {each.odd}, no finite number"
    if len(raw.completions) <= LOOKED_AT and "nodes" not in record:
        known = {name for names in columns.candidates(record).values() for name in names}
        for name, value in record.items():
            if isinstance(value, str) and name not in known:
                raw.texts.setdefault(str(name), []).append(value)


def _records(path: Path, notes: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield what a file holds, each with its place."""
    with open_regular(path, max_bytes=MAX_BYTES, fix=FIX) as stream:
        head = stream.read(4)
    if not head:
        raise DataError(KNOWN, found="an empty file", where=str(path), fix=FIX)
    if head == b"PAR1":
        yield from parquet_rows(path)
    elif path.suffix.lower() in (".csv", ".tsv"):
        name, sign = _name_of_chart(path), sign_between(path)
        for where, cells in csv_rows(path):
            if row := {column: _cell(cell, sign) for column, cell in cells.items() if cell and cell.strip()}:
                yield where, {"step": row.get("Step"), name: row.get("Value")} if _is_chart(cells) else row
    elif path.suffix.lower() == ".json" and not _is_lines(path):
        value = json_file(read_capped(path, max_bytes=MAX_BYTES, fix=FIX), path)
        history = rows_of(value)
        if history is None:
            raise DataError("log_history, or a list of records", found="neither", where=str(path), fix=FIX)
        yield from ((f"{path}, record {k}", each) for k, each in enumerate(history, start=1))
    else:
        yield from _lines_of(path, notes)


def _is_lines(path: Path) -> bool:
    """Return whether each of the first two lines of a file is an object of its own."""
    with path.open("rb") as stream:
        lines = [stream.readline(LONGEST).strip() for _ in range(2)]
    try:
        return all(isinstance(json.loads(line), dict) for line in lines)
    except (ValueError, RecursionError):
        return False


def _lines_of(path: Path, notes: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield the objects of JSONL, or what a trainer printed."""
    if (stored := _STORED.search(os.path.abspath(path))) is not None and _is_history(path):
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
            if (match := _HISTORY.fullmatch(line.strip())) is not None:
                yield f"{path}, line {number}", {"step": int(match[3]), stored["metric"]: match[2]}
        return
    rows = json_rows(path, notes)
    try:
        first = next(rows, None)
    except DataError:
        with path.open(encoding="utf-8", errors="replace") as stream:
            printed = read_printed(iter(lambda: stream.readline(LONGEST), ""))
        if not printed:
            if path.suffix.lower() in PRINTED:
                expected = "rows that a trainer printed ({'loss': 0.1, ...}, or step:3 - name:0.1 - ...)"
                raise DataError(expected, found="none", where=str(path), fix=FIX) from None
            raise
        notes.append(f"{path.name} was read as what a trainer printed, {counted(len(printed), 'rows')}")
        yield from ((f"{path}, row {k}", row) for k, row in enumerate(printed, start=1))
        return
    if first is not None:
        yield first
        yield from rows


def _is_history(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as stream:
        return _HISTORY.fullmatch(stream.readline(LONGEST).strip()) is not None


def _is_chart(cells: Mapping[str, Any]) -> bool:
    return tuple(cells) == _TENSORBOARD


def _name_of_chart(path: Path) -> str:
    """Return the metric that a chart of TensorBoard shows, which only the file's name says: its tag, or the
    end of the name that is one of ours."""
    match = _TAG.search(path.stem)
    if match is not None:
        return match["tag"]
    words = re.split(r"[^A-Za-z0-9]+", path.stem)
    tails = ("_".join(words[k:]) for k in range(len(words)))
    return next((tail for tail in tails if is_known(tail)), path.stem)


def _cell(text: str, sign: str) -> Any:
    """Return a cell as the number, truth value or object that it is, else as text.

    Where commas stand between cells, one in a number parts thousands; where semicolons do, it is a decimal
    comma; elsewhere 1,000 may be either and stays a text.

    >>> _cell("12.5%", ","), _cell("1,000", ","), _cell("1,000", ";"), _cell("1,000", "|")
    (0.125, 1000.0, 1.0, '1,000')
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    plain, share = text.strip().removesuffix("%"), text.strip().endswith("%")
    if "," in plain:
        thousands = _THOUSANDS.fullmatch(plain) is not None
        if thousands and sign == ",":
            plain = plain.replace(",", "")
        elif sign == ";" or (sign != "," and not thousands):
            plain = plain.replace(",", ".")
    try:
        return float(plain) / 100 if share else float(plain)
    except ValueError:
        pass
    if text.startswith("{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text
