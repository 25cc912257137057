"""Strict JSON and JSONL: no NaN, no duplicate keys, lines end at \\n only; equal values are equal bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from assay.core.errors import RecordError
from assay.core.storage.files import read_text, sha256_bytes, write_text
from assay.core.storage.strict_json import MAX_DEPTH, parse_strict

R = TypeVar("R", bound=BaseModel)
MAX_LINE_CHARS = 8_000_000


def dumps(value: Any) -> str:
    """Return canonical JSON: sorted keys, no spaces, no NaN.

    >>> dumps({"b": 1, "a": [1.5, None]})
    '{"a":[1.5,null],"b":1}'
    """
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def as_written(value: Any) -> str:
    """Return strict JSON with the keys in the order they have: that order is part of what a model is shown.

    >>> as_written({"b": 1, "a": 2})
    '{"b":1,"a":2}'
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """Return the sha256 of a value's canonical JSON."""
    return sha256_bytes(dumps(value).encode("utf-8", "surrogatepass"))


def loads(text: str, *, where: str, fix: str) -> Any:
    """Parse strict JSON.

    Raises:
        RecordError: The text is not strict JSON.
    """
    try:
        return parse_strict(text, max_chars=MAX_LINE_CHARS, max_depth=MAX_DEPTH)
    except ValueError as error:
        found = str(error).split("\n")[0] or type(error).__name__
        raise RecordError("strict JSON", found=found, where=where, fix=fix) from None


def read_jsonl(path: Path, *, fix: str) -> Iterator[Any]:
    """Yield the values of a JSONL file; blank lines are allowed, anything else damaged is refused with its
    line."""
    for number, line in enumerate(read_text(path, fix=fix).split("\n"), start=1):
        if line.strip():
            yield loads(line, where=f"{path}, line {number}", fix=fix)


def _validate(kind: type[R], value: Any, where: str, fix: str) -> R:
    try:
        # Tuples and the like arrive as JSON arrays: validate in JSON mode, strictly.
        return kind.model_validate_json(dumps(value))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        raise RecordError(
            f"a {kind.__name__}", found=f"{place}: {first['msg']}", where=where, fix=fix
        ) from None


def read_record(path: Path, kind: type[R], *, fix: str) -> R:
    """Read one record from a JSON file."""
    return _validate(kind, loads(read_text(path, fix=fix), where=str(path), fix=fix), str(path), fix)


def read_records(path: Path, kind: type[R], *, fix: str) -> list[R]:
    """Read one record a line; a damaged line fails with its number, it is never skipped."""
    lines = enumerate(read_jsonl(path, fix=fix), start=1)
    return [_validate(kind, value, f"{path}, record {number}", fix) for number, value in lines]


def write_json(path: Path, value: Any) -> None:
    """Write one value for people and programs: indented, sorted keys, final newline."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    write_text(path, json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_jsonl(path: Path, values: Iterable[Any]) -> None:
    """Write one canonical JSON value a line."""
    write_text(path, "".join(dumps(value) + "\n" for value in values))
