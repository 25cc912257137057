"""From a completion to an object: the whole text is one, or one can be dug out, or there is none. Nothing is ever mended."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from assay.records import ParseOutcome
from assay.storage.strict_json import MAX_DEPTH, parse_strict

MAX_CHARS = 200_000
# Each look at a place is linear in what stands there, so a bound on the looks keeps the whole linear.
MAX_STARTS = 32
_FENCE = "```"
_MAX_LANGUAGE = 20
_WHITESPACE = " \t\r\n"
_LOOSE = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a completion was read as; `value` is None if it failed, `reason` says why."""

    outcome: ParseOutcome
    value: dict[str, Any] | None
    reason: str | None


def parse(completion: str) -> Parsed:
    """Read a completion.

    >>> parse(' {"a": 1} ').outcome, parse('Sure: {"a": 1}').outcome, parse("[1]").outcome
    ('ok', 'repaired', 'failed')
    >>> parse("Sure.").reason
    'no JSON object in it'
    """
    text = completion.strip(_WHITESPACE)
    if not text:
        return Parsed("failed", None, "empty")
    if len(completion) > MAX_CHARS:
        return Parsed("failed", None, f"longer than {MAX_CHARS} characters")
    try:
        value = parse_strict(text, max_chars=MAX_CHARS, max_depth=MAX_DEPTH)
    except ValueError as error:
        reason = str(error) if text[0] == "{" else "no JSON object in it"
    else:
        if isinstance(value, dict):
            return Parsed("ok", value, None)
        reason = "JSON, but no object"
    found = _fenced(text)
    if found is None:
        found = _first_balanced(text)
    if found is None:
        return Parsed("failed", None, reason[:200])
    return Parsed("repaired", found, None)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = parse_strict(text, max_chars=MAX_CHARS, max_depth=MAX_DEPTH)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _fenced(text: str) -> dict[str, Any] | None:
    """Return the object that is all of the first fenced block that holds one."""
    position = 0
    for _ in range(MAX_STARTS):
        opened = text.find(_FENCE, position)
        line = text.find("\n", opened, opened + len(_FENCE) + _MAX_LANGUAGE) if opened >= 0 else -1
        if opened < 0:
            return None
        if line < 0:
            position = opened + len(_FENCE)
            continue
        closed = text.find(_FENCE, line)
        if closed < 0:
            return None
        found = _object(text[line:closed])
        if found is not None:
            return found
        position = closed + len(_FENCE)
    return None


def _first_balanced(text: str) -> dict[str, Any] | None:
    """Return the first object that stands anywhere in a text; one that is whole but not strict is passed over whole."""
    position = 0
    for _ in range(MAX_STARTS):
        start = text.find("{", position)
        if start < 0:
            return None
        try:
            _, end = _LOOSE.raw_decode(text, start)
        except (ValueError, RecursionError):
            position = start + 1
            continue
        found = _object(text[start:end])
        if found is not None:
            return found
        position = end
    return None
