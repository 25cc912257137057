"""From a completion to a value: the whole text is one, or one can be dug out, or there is none. Nothing is
ever mended."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from assay.core.records import ParseOutcome
from assay.core.storage.json import MAX_DEPTH, parse_strict

from ..reading.shapes import OBJECT, kind_of

MAX_CHARS = 200_000
# Each look at a place is linear in what stands there, so a bound on the looks keeps the whole linear.
MAX_STARTS = 32
_FENCE = "```"
_MAX_LANGUAGE = 20
_WHITESPACE = " \t\r\n"
_LOOSE = json.JSONDecoder()
# Only what is held in brackets can be told from the talk around it.
_OPENS = {"object": "{", "array": "["}


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """What a completion was read as; `value` means nothing if it failed, `reason` says why."""

    outcome: ParseOutcome
    value: Any
    reason: str | None


def parse(completion: str, wanted: frozenset[str] = OBJECT) -> ParsedAnswer:
    """Read a completion as a JSON value of one of the kinds that are wanted.

    >>> parse(' {"a": 1} ').outcome, parse('Sure: {"a": 1}').outcome, parse("[1]").outcome
    ('ok', 'repaired', 'failed')
    >>> parse("Sure.").reason
    'no JSON object in it'
    >>> [parse(text, frozenset({"array"})).outcome for text in ("[1]", "Sure: [1]", '{"a": 1}')]
    ['ok', 'repaired', 'failed']
    """
    text = completion.strip(_WHITESPACE)
    if not text:
        return ParsedAnswer("failed", None, "empty")
    if len(completion) > MAX_CHARS:
        return ParsedAnswer("failed", None, f"longer than {MAX_CHARS} characters")
    name = " or ".join(sorted(wanted))
    try:
        value = parse_strict(text, max_chars=MAX_CHARS, max_depth=MAX_DEPTH)
    except ValueError as error:
        begun = text[0] in {_OPENS[kind] for kind in wanted & set(_OPENS)}
        reason = str(error) if begun else f"no JSON {name} in it"
    else:
        if kind_of(value) in wanted:
            return ParsedAnswer("ok", value, None)
        reason = f"JSON, but no {name}"
    found = _fenced(text, wanted) or _first_balanced(text, wanted)
    if found is None:
        return ParsedAnswer("failed", None, reason[:200])
    return ParsedAnswer("repaired", found[0], None)


def _value(text: str, wanted: frozenset[str]) -> tuple[Any] | None:
    """Return the value that is all of a text, as a tuple of one since it may be null; None if there is
    none."""
    try:
        value = parse_strict(text, max_chars=MAX_CHARS, max_depth=MAX_DEPTH)
    except ValueError:
        return None
    return (value,) if kind_of(value) in wanted else None


def _fenced(text: str, wanted: frozenset[str]) -> tuple[Any] | None:
    """Return the value that is all of the first fenced block that holds one."""
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
        found = _value(text[line:closed], wanted)
        if found is not None:
            return found
        position = closed + len(_FENCE)
    return None


def _first_balanced(text: str, wanted: frozenset[str]) -> tuple[Any] | None:
    """Return the first object or list that stands anywhere in a text; one that is whole but not strict is
    passed over whole."""
    position = 0
    opens = [sign for kind, sign in _OPENS.items() if kind in wanted]
    for _ in range(MAX_STARTS):
        start = min((place for sign in opens if (place := text.find(sign, position)) >= 0), default=-1)
        if start < 0:
            return None
        try:
            _, end = _LOOSE.raw_decode(text, start)
        except (ValueError, RecursionError):
            position = start + 1
            continue
        found = _value(text[start:end], wanted)
        if found is not None:
            return found
        position = end
    return None
