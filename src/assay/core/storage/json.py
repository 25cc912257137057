"""Strict JSON and JSONL: no NaN, no duplicate keys, lines end at \\n only; equal values are equal bytes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from assay.core.errors import RecordError
from assay.core.storage.files import read_text, sha256_bytes, write_text

MAX_DEPTH = 64
# A double has at most 309 digits before the point; shorter integers need no check.
_SAFE_DIGITS = 300
_BRACKET_OR_STRING = re.compile(r'[\[\]{}"]')
_STRING_END = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*"', re.S)
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_strict(text: str, *, max_chars: int, max_depth: int) -> Any:
    r"""Return the value of a JSON text.

    Refused, beyond what is no JSON: NaN and Infinity, numbers beyond a double, a key that appears twice, half
    a surrogate pair in any string, more characters than `max_chars`, arrays and objects nested deeper than
    `max_depth`.

    >>> parse_strict(' {"a": [1, 2.5]} ', max_chars=100, max_depth=2)
    {'a': [1, 2.5]}
    >>> parse_strict('{"a": 1e400}', max_chars=100, max_depth=2)
    Traceback (most recent call last):
    ValueError: the number 1e400 is beyond a double
    >>> parse_strict('"\\ud800"', max_chars=100, max_depth=2)
    Traceback (most recent call last):
    ValueError: half a surrogate pair in a string

    Raises:
        ValueError: The text is not strict JSON; says why.
    """
    if len(text) > max_chars:
        raise ValueError(f"{len(text)} characters, more than {max_chars}")
    if text.count("[") + text.count("{") > max_depth and _depth_exceeds(text, max_depth):
        raise ValueError(f"nested deeper than {max_depth} levels")
    try:
        value = _DECODER.decode(text)
        if not text.isascii():
            text.encode()
        if _ESCAPED_SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair in a string") from None
    except RecursionError:
        raise ValueError("nested too deep for the stack") from None
    return value


def _depth_exceeds(text: str, limit: int) -> bool:
    """Return whether brackets outside strings nest deeper than the limit; one pass, whatever the text."""
    depth, position = 0, 0
    while found := _BRACKET_OR_STRING.search(text, position):
        position, sign = found.end(), found.group()
        if sign == '"':
            string = _STRING_END.match(text, position)
            if string is None:
                return False  # an open string: the decoder will refuse the text before it gets deeper
            position = string.end()
        else:
            depth += 1 if sign in "[{" else -1
            if depth > limit:
                return True
    return False


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:20]} is beyond a double")
    return number


def _whole(text: str) -> int:
    if len(text) > _SAFE_DIGITS:
        _finite(text)
    return int(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"duplicate key {ascii(twice)[:80]}")
    return result


_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole, object_pairs_hook=_unique
)


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
    yield from _values(read_text(path, fix=fix), str(path), fix)


def _values(text: str, where: str, fix: str) -> Iterator[Any]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield loads(line, where=f"{where}, line {number}", fix=fix)


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
    return parse_records(read_text(path, fix=fix), kind, where=str(path), fix=fix)


def parse_records(text: str, kind: type[R], *, where: str, fix: str) -> list[R]:
    """Return the records of the text of such a file."""
    lines = enumerate(_values(text, where, fix), start=1)
    return [_validate(kind, value, f"{where}, record {number}", fix) for number, value in lines]


def write_json(path: Path, value: Any, *, in_order: bool = False) -> None:
    """Write one value for people and programs: indented, keys sorted or in their own order, final newline."""
    write_text(path, json_text(value, in_order=in_order))


def json_text(value: Any, *, in_order: bool = False) -> str:
    """Return what `write_json` writes."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return json.dumps(value, sort_keys=not in_order, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_jsonl(path: Path, values: Iterable[Any]) -> None:
    """Write one canonical JSON value a line."""
    write_text(path, "".join(dumps(value) + "\n" for value in values))
