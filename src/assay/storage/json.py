"""Strict JSON and JSONL: no NaN, no duplicate keys, lines end at \\n only; equal values are equal bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from assay.errors import RecordError
from assay.storage.files import read_text, sha256_bytes, write_text

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


def digest(value: Any) -> str:
    """Return the sha256 of a value's canonical JSON."""
    return sha256_bytes(dumps(value).encode("utf-8", "surrogatepass"))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"duplicate key {next(n for n in names if names.count(n) > 1)!r}")
    return result


def loads(text: str, *, where: str, fix: str) -> Any:
    """Parse strict JSON.

    Raises:
        RecordError: The text is not strict JSON.
    """
    try:
        if len(text) > MAX_LINE_CHARS:
            raise ValueError(f"{len(text)} characters, more than {MAX_LINE_CHARS}")
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        found = str(error).split("\n")[0] or type(error).__name__
        raise RecordError("strict JSON", found=found, where=where, fix=fix) from None


def read_jsonl(path: Path, *, fix: str) -> Iterator[Any]:
    """Yield the values of a JSONL file; blank lines are allowed, anything else damaged is refused with its line."""
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
        raise RecordError(f"a {kind.__name__}", found=f"{place}: {first['msg']}", where=where, fix=fix) from None


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
