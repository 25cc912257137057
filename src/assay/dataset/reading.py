r"""A tasks file as rows with line numbers. Lines end at \n alone; what is no strict JSON object is refused,
never lost."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.core.errors import DataError
from assay.core.storage.json import digest
from assay.core.storage.strict_json import MAX_DEPTH, parse_strict
from assay.core.storage.untrusted import Lines, opened

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
    with opened(path, max_bytes=MAX_FILE_BYTES, fix=fix) as stream:
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
