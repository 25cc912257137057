"""One data file ready for a task: its rows with their schemas in them, whatever file the schemas came
from."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.core.errors import AssayError, DataError
from assay.core.storage.json import MAX_DEPTH, digest, parse_strict
from assay.core.storage.untrusted import Lines, open_regular
from assay.rollout.dataset.schema_files import Closure, SchemaFiles
from assay.rollout.tasks.protocol import Item

MAX_FILE_BYTES = 1 << 30
MAX_LINE_BYTES = 8_000_000
MAX_RECORDS = 2_000_000
MAX_REFUSED = 100_000
SHOWN = 5
# Longer marks first: the UTF-32 one begins like the UTF-16 one.
_OTHER_MARKS = {codecs.BOM_UTF32_LE: "UTF-32", codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16"}


@dataclass(frozen=True, slots=True)
class Line:
    """One row; `body` is the digest of its canonical form without schema_path."""

    number: int
    row: dict[str, Any]
    body: str


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """One line that is no record, and why."""

    number: int
    reason: str


@dataclass(slots=True)
class LinesRead:
    """What a tasks file holds."""

    lines: list[Line] = field(default_factory=list)
    refused: list[RefusedLine] = field(default_factory=list)
    n_blank: int = 0
    first_blank: list[int] = field(default_factory=list)
    byte_order_mark: bool = False
    file_sha256: str = ""


def read_tasks(path: Path, *, where: str, fix: str, skip: Collection[int] = ()) -> LinesRead:
    """Read a tasks file line by line, so that a hostile one costs no more memory than its good records.

    Args:
        path: The file.
        where: Its name, for messages.
        fix: What to do if it cannot be read.
        skip: Numbers of lines to pass over.

    Raises:
        DataError: The file cannot be opened, is no text, or is beyond all limits.
    """
    with open_regular(path, max_bytes=MAX_FILE_BYTES, fix=fix) as stream:
        lines = Lines(stream, max_line=MAX_LINE_BYTES)
        reading = read_lines(lines, where=where, skip=skip)
        reading.file_sha256 = lines.sha256
    return reading


def read_lines(lines: Iterable[bytes | None], *, where: str, skip: Collection[int] = ()) -> LinesRead:
    r"""Return the rows among lines that come without their \n; None stands for one beyond the limit.

    Raises:
        DataError: The text is UTF-16 or UTF-32, or there are more records than anyone can hold.

    >>> read_lines([b'{"id":"a"}\r', b"", b"NaN"], where="x").refused[0].number
    3
    """
    reading, skipped = LinesRead(), frozenset(skip)
    for number, line in enumerate(lines, start=1):
        if number == 1 and line is not None:
            line = _unmarked(line, reading, where)
        if number in skipped:
            continue
        if line is not None and not line.strip():
            reading.n_blank += 1
            if len(reading.first_blank) < MAX_REFUSED:
                reading.first_blank.append(number)
            continue
        found = read_line(number, line)
        if isinstance(found, Line):
            reading.lines.append(found)
        else:
            reading.refused.append(found)
        _within_limits(reading, where)
    return reading


def read_line(number: int, line: bytes | None) -> Line | RefusedLine:
    """Return one row, or why it is none."""
    if line is None:
        return RefusedLine(number, f"more than {MAX_LINE_BYTES:,} bytes in one line")
    try:
        row = parse_strict(line.decode("utf-8"), max_chars=MAX_LINE_BYTES, max_depth=MAX_DEPTH)
    except UnicodeDecodeError as error:
        return RefusedLine(number, f"not UTF-8 ({error.reason} at byte {error.start} of the line)")
    except ValueError as error:
        return RefusedLine(number, str(error).split("\n")[0])
    if not isinstance(row, dict):
        return RefusedLine(number, f"{_kind(row)} instead of a JSON object")
    # A null id or gold is none, and the record the same as one without the field.
    left_out = {"schema_path"} | {name for name in ("id", "gold", "golds") if row.get(name) is None}
    content = {name: v for name, v in row.items() if name not in left_out}
    return Line(number, row, digest(content))


def _kind(value: Any) -> str:
    return {list: "a list", str: "a string", bool: "true or false", type(None): "null"}.get(
        type(value), "a number"
    )


def _unmarked(line: bytes, reading: LinesRead, where: str) -> bytes:
    for mark, name in _OTHER_MARKS.items():
        if line.startswith(mark):
            raise DataError(
                "UTF-8 text", found=f"{name}", where=where, fix=f"iconv -f {name} -t UTF-8 {where}"
            )
    if not line.startswith(codecs.BOM_UTF8):
        return line
    reading.byte_order_mark = True
    return line.removeprefix(codecs.BOM_UTF8)


def _within_limits(reading: LinesRead, where: str) -> None:
    for found, most, what in (
        (reading.refused, MAX_REFUSED, "lines that are no records"),
        (reading.lines, MAX_RECORDS, "records"),
    ):
        if len(found) > most:
            fix = "see that it is a JSONL file, or split it"
            raise DataError(f"at most {most:,} {what}", found="more", where=where, fix=fix)


# What a row's schema_path is replaced by; no raw row may bring these itself.
RESERVED = ("schema_resources", "schema_uri")


@dataclass(frozen=True, slots=True)
class DataRow:
    """One row that a task can read, and where it stands."""

    line: int
    row: Mapping[str, Any]  # with its schema in it
    record: Mapping[str, Any]  # as it stood in its file, without schema_path
    body: str  # digest of `record`
    closure: Closure | None

    @property
    def digest(self) -> str:
        """What the record is: its canonical row, with the content of its schema files in place of their
        paths."""
        return self.body if self.closure is None else digest([self.body, self.closure.digest])

    @property
    def id(self) -> str | None:
        """The id the row has, None where it has none of its own."""
        found = self.record.get("id")
        return str(found) if isinstance(found, str | int) else None

    def moved(self, folder: str) -> dict[str, Any]:
        """Return the row as it stood in its file, its schema files having moved to a folder with the layout
        they have."""
        if self.closure is None:
            return dict(self.record)
        return {**self.record, "schema_path": f"{folder}/{self.closure.files[0].name}"}


@dataclass(frozen=True, slots=True)
class KeptRecord:
    """A record that remains after the audit, and what the task makes of it."""

    entry: DataRow
    item: Item


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file: its rows, the lines that hold none, and what is odd about it as a file."""

    entries: list[DataRow]
    refused: list[RefusedLine]
    reading: LinesRead


def load(path: Path, schemas: SchemaFiles, *, where: str, fix: str, skip: Collection[int] = ()) -> DataFile:
    """Read a data file and the schema files its rows name.

    Args:
        path: The file.
        schemas: Finds schema files.
        where: The file's name, for messages.
        fix: What to do if it cannot be read.
        skip: Numbers of lines to pass over.

    Raises:
        DataError: The file cannot be read at all; a single bad line is among `refused` instead.
    """
    reading = read_tasks(path, where=where, fix=fix, skip=skip)
    entries, refused = [], list(reading.refused)
    for line in reading.lines:
        try:
            entries.append(resolved(line, schemas))
        except AssayError as error:
            refused.append(RefusedLine(line.number, reason(error)))
    # The rows live on in the entries; a second list of them would only hold memory.
    reading.lines = []
    return DataFile(entries, sorted(refused, key=lambda line: line.number), reading)


def resolved(line: Line, schemas: SchemaFiles) -> DataRow:
    """Return a row with `schema`, `schema_resources` and `schema_uri` in place of its schema_path.

    Raises:
        DataError: The schema cannot be had, or the row uses a reserved name.
    """
    row = line.row
    for name in RESERVED:
        if name in row:
            raise DataError(
                "no field of that name",
                found=f"{name}, which is reserved",
                where="the record",
                fix="rename it",
            )
    path = row.get("schema_path")
    if path is None:
        record = (
            {name: value for name, value in row.items() if name != "schema_path"}
            if "schema_path" in row
            else row
        )
        return DataRow(line.number, record, record, line.body, None)
    record = {name: value for name, value in row.items() if name != "schema_path"}
    if not isinstance(path, str):
        raise DataError(
            "a path as text", found=type(path).__name__, where="schema_path", fix="correct the record"
        )
    if record.get("schema") is not None:
        raise DataError(
            "schema_path or schema", found="both", where="the record", fix="leave one of them out"
        )
    closure = schemas.closure(path)
    row = record | {
        "schema": closure.document,
        "schema_resources": closure.resources,
        "schema_uri": closure.uri,
    }
    return DataRow(line.number, row, record, line.body, closure)


def reason(error: AssayError) -> str:
    """Return an error as the one line that the audit shows."""
    return f"{error.where}: expected {error.expected}, found {error.found}"
