"""Rows of a file that is no JSONL: a JSON array or object, CSV, Parquet, or one of them in gzip."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.core.errors import DataError
from assay.core.storage.json import MAX_DEPTH, parse_strict
from assay.core.storage.untrusted import open_regular, read_capped
from assay.rollout.dataset.source import MAX_FILE_BYTES, MAX_LINE_BYTES
from assay.rollout.tables.columns import is_index

FIX = "name a file of records: JSONL, a JSON array or object, CSV or Parquet, also in gzip"
GZIP, PARQUET, MARK = b"\x1f\x8b", b"PAR1", b"\xef\xbb\xbf"
SPLITS = ("train", "training", "validation", "valid", "val", "dev", "eval", "test", "testing")
KEYS = ("data", "rows", "examples", "items", "records", "samples")
_HEAD = 1 << 16
_SEPARATORS = ",;\t"
Row = dict[str, Any]


def name_container(path: Path) -> str | None:
    """Return what a file is that is no JSONL and can be imported; None for any other, or none.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (Path(folder) / "a.jsonl").write_bytes(b'[{"prompt": "x"}]')
    ...     name_container(Path(folder) / "a.jsonl")
    17
    'a JSON array'
    """
    try:
        with open_regular(path, max_bytes=MAX_FILE_BYTES, fix=FIX) as stream:
            head = stream.read(_HEAD).removeprefix(MARK).lstrip()
    except DataError:
        return None  # which reading it says better
    if head.startswith(GZIP):
        return "gzip"
    if head.startswith(PARQUET):
        return "Parquet"
    if path.suffix.lower() in (".csv", ".tsv"):
        return "CSV"
    if head.startswith(b"["):
        return "a JSON array"
    first = head.partition(b"\n")[0].strip()
    return "one JSON object" if first == b"{" or (first[:1] == b"{" and first[-1:] in b"[{,") else None


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file of records of any kind.

    Raises:
        DataError: It cannot be read, or holds no rows.
    """
    content = read_capped(path, max_bytes=MAX_FILE_BYTES, fix=FIX)
    if content.startswith(GZIP):
        content = _unpacked(content, path)
    if content.startswith(PARQUET):
        return _of_parquet(content, path)
    try:
        text = content.removeprefix(MARK).decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"byte {content[error.start]:#04x} at {error.start}"
        raise DataError("UTF-8 text, or Parquet", found=found, where=str(path), fix=FIX) from None
    if {".csv", ".tsv"} & {suffix.lower() for suffix in path.suffixes}:
        return _of_csv(text, path)
    return _of_json(text, path)


def _unpacked(content: bytes, path: Path) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            found = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        fix = "copy it again"
        raise DataError("a whole gzip file", found=str(error), where=str(path), fix=fix) from None
    if len(found) > MAX_FILE_BYTES:
        expected = f"at most {MAX_FILE_BYTES:,} bytes in it"
        raise DataError(expected, found="more", where=str(path), fix="split it")
    return found


def _of_parquet(content: bytes, path: Path) -> list[Row]:
    import pyarrow as arrow  # type: ignore[import-untyped,unused-ignore]
    import pyarrow.parquet as parquet  # type: ignore[import-untyped,unused-ignore]

    try:
        file = parquet.ParquetFile(io.BytesIO(content))
        names = [name for name in file.schema_arrow.names if not is_index(name)]
        return [plain(row) for batch in file.iter_batches(columns=names) for row in batch.to_pylist()]
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        found = " ".join(str(error).split())[:200]
        raise DataError("Parquet", found=found, where=str(path), fix="copy it again") from None


def plain(value: Any) -> Any:
    """Return a value of a table as JSON has it: dates and decimals as text, maps as objects, NaN as null.

    >>> import datetime
    >>> plain({"on": datetime.date(2024, 5, 1), "map": [("a", 1), ("b", math.nan)], "n": 2})
    {'on': '2024-05-01', 'map': {'a': 1, 'b': None}, 'n': 2}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        pairs = bool(value) and all(isinstance(p, tuple) and len(p) == 2 for p in value)
        return plain(dict(value)) if pairs else [plain(part) for part in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _of_csv(text: str, path: Path) -> list[Row]:
    csv.field_size_limit(min(sys.maxsize, MAX_LINE_BYTES))
    head = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows: list[Row] = []
    try:
        names = [name.strip() for name in next(reader, [])]
        if twice := [name for name in names if name and names.count(name) > 1]:
            fix = "give each column its own name"
            raise DataError("each column once", found=f"{twice[0]!a} again", where=f"{path}, line 1", fix=fix)
        for cells in reader:
            if cells and len(cells) != len(names):
                found, where = f"{len(cells)} of them", f"{path}, line {reader.line_num}"
                fix = f"quote cells that hold {separator!a}"
                raise DataError(f"{len(names)} cells, as in the head", found=found, where=where, fix=fix)
            pairs = zip(names, cells, strict=True)
            rows += [{n: cell or None for n, cell in pairs if not is_index(n)}] if cells else []
    except csv.Error as error:
        where = f"{path}, line {reader.line_num}"
        raise DataError("CSV", found=str(error), where=where, fix="save it as CSV again") from None
    return rows


def _of_json(text: str, path: Path) -> list[Row]:
    try:
        return rows_in(_parsed(text), path)
    except ValueError:
        rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                rows += rows_in([_parsed(line)], path)
            except ValueError as error:
                found, where = str(error).split("\n")[0], f"{path}, line {number}"
                raise DataError("JSON", found=found, where=where, fix=FIX) from None
    return rows


def _parsed(text: str) -> Any:
    return parse_strict(text, max_chars=MAX_FILE_BYTES, max_depth=MAX_DEPTH)


def keys_of_rows(value: Any) -> list[str]:
    """Return under which names a JSON object holds rows, as exports write them: the splits, or other names;
    none if it holds none.

    >>> keys_of_rows({"version": 1, "data": [{"prompt": "x"}]}), keys_of_rows({"prompt": [{"role": "user"}]})
    (['data'], [])
    >>> keys_of_rows({"train": [{"prompt": "x"}], "test": {"prompt": ["y"], "answer": ["z"]}})
    ['train', 'test']
    """
    if not isinstance(value, Mapping):
        return []
    held = [name for name, each in value.items() if _is_list_of_rows(each)]
    splits = [name for name in value if name in SPLITS and (name in held or _is_table(value[name]))]
    # A list of the same columns beside them is a split, whatever it is called.
    columns = [value[name][0].keys() for name in splits if name in held]
    splits += [name for name in held if name not in splits and value[name][0].keys() in columns]
    return splits or [name for name in KEYS if name in held]


def _is_list_of_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(part, dict) for part in value)


def rows_in(value: Any, path: Path) -> list[Row]:
    """Return the rows that a JSON value holds: a list of objects, an object with such a list, or with one for
    each split, all of which are taken, or an object of columns.

    Raises:
        DataError: It holds none, or several lists of which nobody says which one is meant.
    """
    keys = keys_of_rows(value)
    if len(keys) > 1 and keys[0] not in SPLITS:
        fix = "write the list that you mean to a file of its own"
        raise DataError("one list of records", found=", ".join(keys), where=str(path), fix=fix)
    if keys and keys[0] in SPLITS:
        # Which split a row was in stays with it; where it is held out again, its likeness decides.
        return [
            {"split": key, **row} if len(keys) > 1 else row
            for key in keys
            for row in rows_in(value[key], path)
        ]
    if keys:
        value = value[keys[0]]
        if all(isinstance(row.get("row"), dict) for row in value):
            value = [row["row"] for row in value]  # as a server of data sets wraps them
    elif isinstance(value, dict) and _is_table(value):
        columns = [_cells(column) for column in value.values()]
        value = [dict(zip(value, cells, strict=True)) for cells in zip(*columns, strict=True)]
    elif isinstance(value, dict):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        found = json.dumps(value)[:80]
        raise DataError("a list of records", found=found, where=str(path), fix=FIX)
    return value


def _cells(column: Any) -> Sequence[Any]:
    return list(column.values()) if isinstance(column, dict) else column


def _is_table(value: Any) -> bool:
    """Return whether an object holds columns of one length, as tables are exported by column."""
    if not isinstance(value, Mapping):
        return False

    def numbered(column: Any) -> bool:
        return isinstance(column, dict) and all(name.isdecimal() for name in column)

    columns: Iterable[Any] = value.values()
    lengths = {len(c) if isinstance(c, list) or numbered(c) else -1 for c in columns}
    plain_lists = all(not isinstance(c, list) or not any(isinstance(p, dict) for p in c) for c in columns)
    return len(value) > 1 and len(lengths) == 1 and min(lengths) > 0 and plain_lists
