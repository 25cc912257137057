"""The one strict reader of JSON, for data files and for what a model writes: nothing ambiguous, nothing
endless."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

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
