"""Lines of files that somebody else wrote: JSON, CSV and Parquet as plain rows, one message for what is
damaged."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from assay.core.errors import DataError
from assay.core.storage.untrusted import open_regular
from assay.rollout.tables.columns import is_index

ANY_SIZE = 1 << 62  # bytes of a file: it is never held whole
LONGEST_LINE = 64_000_000  # bytes: longer than any result, shorter than what fills a machine
BATCH = 8192
LONGEST_FOUND = 300  # characters of a message that say what was found
Row = dict[str, Any]
FIX = "name a file of results: see docs/judge.md for the forms that are read"


def refuse(expected: str, found: str, where: str, fix: str = FIX) -> DataError:
    """Return the error of a file that cannot be read as it should."""
    if len(found) > LONGEST_FOUND:
        found = f"{found[:LONGEST_FOUND].rpartition(' ')[0] or found[:LONGEST_FOUND]} ..."
    shown = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in found)
    return DataError(expected, found=shown, where=where, fix=fix)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield every line with its number, without holding the file."""
    with open_regular(path, max_bytes=ANY_SIZE, fix=FIX) as stream:
        number = 0
        while line := stream.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                expected, where = f"lines of at most {LONGEST_LINE:,} bytes", f"{path}, line {number}"
                fix = "leave out of the file what is no result, such as logged tensors"
                raise refuse(expected, "a longer one", where, fix)
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def _text(line: bytes, where: str) -> str:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"byte {line[error.start]:#04x}, which is none"
        fix = "save the file as UTF-8 (iconv -f LATIN1 -t UTF-8)"
        if line[:2] in (b"\xff\xfe", b"\xfe\xff"):
            found, fix = "UTF-16", "save the file as UTF-8 (iconv -f UTF-16 -t UTF-8)"
        elif line[:2] == b"\x1f\x8b":
            found, fix = "gzip", "unpack it first (gunzip)"
        raise refuse("UTF-8", found, where, fix) from None
    if "\0" in text:
        raise refuse("text", "a zero byte", where)
    return text


def parse_json(text: str | bytes, where: str, *, last: bool = False) -> Any:
    """Return a JSON value; NaN is let through, and refused where it is a score. What ends early and is the
    last of its file is torn.

    Raises:
        DataError: It is no JSON, or an object says one name twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_each_once)
    except RecursionError:
        raise refuse("JSON", "brackets nested too deep", where) from None
    except ValueError as error:
        found, fix = str(error), FIX
        if isinstance(error, json.JSONDecodeError):
            found, fix = _broken(error, last)
        raise refuse("JSON", found, where, fix) from None


def _broken(error: json.JSONDecodeError, last: bool) -> tuple[str, str]:
    """Return in plain words where a text stops being JSON, and what to do."""
    rest = error.doc[error.pos :]
    if not rest.strip() or error.msg.startswith("Unterminated"):
        fix = "the file is torn: let its writer finish, or copy it again"
        return "one that ends too early", fix if last else f"{fix}; or leave the line out"
    line = "" if error.lineno == 1 else f"line {error.lineno}, "
    return f"none from {line}column {error.colno} on: {rest[:30]!r}", f"correct it there, or {FIX}"


def json_file(content: bytes, path: Path) -> Any:
    """Return what a file of JSON holds.

    Raises:
        DataError: It is no text, no JSON, torn, or an object says one name twice.
    """
    try:
        text = content.decode(json.detect_encoding(content))
    except UnicodeDecodeError:
        text = _text(content, str(path))  # says what it is instead
    return parse_json(text, str(path), last=True)


def rows_of_columns(value: Any) -> list[Row] | None:
    """Return the rows of a table that is written by column, as pandas does: lists of one length, or objects
    that number the rows; None for anything else.

    >>> rows_of_columns({"id": [1, 2], "score": [0, 1]})
    [{'id': 1, 'score': 0}, {'id': 2, 'score': 1}]
    >>> rows_of_columns({"id": {"0": 7}, "score": {"0": 1}})
    [{'id': 7, 'score': 1}]
    """
    if not isinstance(value, dict) or not value:
        return None
    columns = {name: each for name, each in value.items() if isinstance(each, list | dict)}
    first = next(iter(columns.values()), [])
    if isinstance(first, dict):
        keys = list(first)
        numbered = keys == [str(k) for k in range(len(keys))]
        if not numbered or any(not isinstance(each, dict) or list(each) != keys for each in value.values()):
            return None
        columns = {name: list(each.values()) for name, each in value.items()}
    if len(columns) < 2 or any(not isinstance(each, list) for each in columns.values()):
        return None
    if len({len(each) for each in columns.values()}) > 1:
        return None
    cells = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in cells] or None


def _each_once(pairs: list[tuple[str, Any]]) -> Row:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!a} twice in one object")
    return found


def whole_text(text: str, where: str) -> str:
    """Return a text that can be written.

    Raises:
        DataError: It holds half a character, which no UTF-8 has.
    """
    if not text.isascii() and (half := next((sign for sign in text if "\ud800" <= sign <= "\udfff"), "")):
        raise refuse("whole characters", f"half a character ({half!a})", where, "write the file out again")
    return text


def json_rows(path: Path, torn: list[str] | None = None) -> Iterator[tuple[str, Row]]:
    """Yield every object of a JSONL file with its place.

    Args:
        path: The file.
        torn: Told of a last line that is cut off, which is then left out; None: it is refused.

    Raises:
        DataError: A line is no JSON object.
    """
    for number, line in _lines(path):
        where, whole = f"{path}, line {number}", line.endswith(b"\n")
        try:
            text = _text(line, where)
            if not text.strip():
                continue
            value = parse_json(text, where, last=not whole)
        except DataError:
            if torn is None or whole or number == 1:
                raise
            torn.append(f"the last line of {path.name} is cut off and left out")
            return
        if not isinstance(value, dict):
            fix = "a file with one JSON value is called .json; see docs/judge.md for the forms that are read"
            raise refuse("a JSON object a line", type(value).__name__, where, fix)
        yield where, value


def csv_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield every row of a CSV or TSV file with its place; an empty cell is None. Semicolons, tabs or bars
    may stand for commas.

    Raises:
        DataError: A row has more or fewer cells than the head, or a quote that is never closed.
    """
    csv.field_size_limit(min(sys.maxsize, LONGEST_LINE))
    texts = (_text(line, f"{path}, line {number}") for number, line in _lines(path))
    first = next(texts, "")
    sign = "\t" if path.suffix.lower() == ".tsv" else _separator(first)
    # A line of this kind tells a spreadsheet what stands between cells, or what an environment is; no head.
    skipped = first.casefold().rstrip("\r\n") == f"sep={sign}" or first.startswith("#{")
    reader = csv.reader(texts if skipped else chain([first], texts), delimiter=sign, strict=True)
    try:
        head = next(reader, [])
        # What has no name is called as pandas calls it, so that it can be named.
        names = [name.strip() or f"Unnamed: {place}" for place, name in enumerate(head)]
        if len(set(names)) != len(names):
            raise refuse("columns with names of their own", f"{', '.join(names)}", f"{path}, line 1")
        for cells in reader:
            if not cells:
                continue
            where = f"{path}, line {reader.line_num + skipped}"
            if len(cells) != len(names):
                fix = f"quote cells that hold {sign!r}; a file that ends within a row is torn"
                raise refuse(f"{len(names)} cells, as in the head", str(len(cells)), where, fix)
            yield where, {name: cell or None for name, cell in zip(names, cells, strict=True)}
    except csv.Error as error:
        found, fix = str(error), FIX
        if "new-line" in found:
            found, fix = "a carriage return alone", "end lines with a newline, or carriage return and newline"
        elif "expected after" in found:
            found, fix = "a quote within quotes", 'write it twice ("")'
        raise refuse("CSV", found, f"{path}, line {reader.line_num}", fix) from None


def sign_between(path: Path) -> str:
    """Return what stands between the cells of a CSV or TSV file."""
    first = next((_text(line, str(path)) for _, line in _lines(path)), "")
    return "\t" if path.suffix.lower() == ".tsv" else _separator(first)


def _separator(head: str) -> str:
    """Return what stands between the cells of a CSV: what a head without a comma has instead, as
    spreadsheets write where numbers have decimal commas."""
    if head.casefold().startswith("sep="):
        return head[4:5].strip("\r\n") or ","
    outside = "".join(head.split('"')[::2])
    return "," if "," in outside else next((sign for sign in ";\t|" if sign in outside), ",")


def parquet_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield every row of a Parquet file with its place.

    Raises:
        DataError: It is damaged, or the library that reads it is not installed.
    """
    try:
        import pyarrow as arrow  # type: ignore[import-untyped,unused-ignore]
        import pyarrow.parquet as parquet  # type: ignore[import-untyped,unused-ignore]
    except ModuleNotFoundError:
        fix = "pip install pyarrow, or save the table as CSV"
        raise refuse("pyarrow, which reads Parquet", "no such package", str(path), fix) from None
    number = 0
    try:
        file = parquet.ParquetFile(path)
        names = [name for name in file.schema_arrow.names if not is_index(name)]
        for batch in file.iter_batches(BATCH, columns=names):
            for row in batch.to_pylist():
                number += 1
                yield f"{path}, row {number}", row
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise refuse("Parquet", " ".join(str(error).split()), str(path), "copy the file again") from None
