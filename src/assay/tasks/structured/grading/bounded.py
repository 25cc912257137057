"""The validator of Draft 2020-12 with a bound on its work: schemas and answers of strangers can ask for years
of it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

import regex  # type: ignore[import-untyped]
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from assay.tasks.structured.grading.equality import SCHEMA, key

# A pattern that needs longer than this on one text is one of those that backtrack for ever.
PATTERN_SECONDS = 1.0
MAX_REFERENCES = 20_000

_KEYWORDS = dict(Draft202012Validator.VALIDATORS)


class TooMuchWork(Exception):
    """A check that was given up; never leaves this room."""


class Effort:
    """References followed while one value is checked: what multiplies when schemas refer to each other twice
    a level."""

    spent = 0


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Any:
    with warnings.catch_warnings():  # of syntax that a later version may read otherwise
        warnings.simplefilter("ignore")
        return regex.compile(pattern, flags=regex.V0)


def matches(pattern: str, text: str) -> bool:
    """Return whether a pattern is found in a text, as `re.search` says.

    >>> matches("^a+$", "aaa"), matches("^a+$", "aab")
    (True, False)

    Raises:
        TooMuchWork: It takes longer than `PATTERN_SECONDS`.
    """
    try:
        return _compiled(pattern).search(text, timeout=PATTERN_SECONDS) is not None
    except (TimeoutError, regex.error):
        raise TooMuchWork(f"the pattern {pattern!r}") from None


def _is_regex(value: Any) -> bool:
    if isinstance(value, str):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(value)
    return True


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(value, "string") and not matches(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, properties: Any, value: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(value, "object"):
        for pattern, part in properties.items():
            for key, found in value.items():
                if matches(pattern, key):
                    yield from validator.descend(found, part, path=key, schema_path=pattern)


def _unique_items(validator: Any, unique: bool, value: Any, schema: Any) -> Iterator[Any]:
    if (
        unique
        and validator.is_type(value, "array")
        and len({key(part, SCHEMA) for part in value}) < len(value)
    ):
        yield ValidationError("has elements that are equal")


def _multiple_of(validator: Any, step: Any, value: Any, schema: Any) -> Iterator[Any]:
    """Yield an error unless the value is a multiple, as decimals: by floats 19.99 would be none of 0.01."""
    if validator.is_type(value, "number") and Fraction(str(value)) % Fraction(str(step)):
        yield ValidationError(f"{value!r} is not a multiple of {step}")


def _counted(keyword: str) -> Any:
    follow = _KEYWORDS[keyword]

    def check(validator: Any, target: Any, value: Any, schema: Any) -> Iterator[Any]:
        Effort.spent += 1
        if Effort.spent > MAX_REFERENCES:
            raise TooMuchWork(f"more than {MAX_REFERENCES} references")
        yield from follow(validator, target, value, schema) or ()

    return check


BoundedValidator: Any = extend(
    Draft202012Validator,
    {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "uniqueItems": _unique_items,
        "multipleOf": _multiple_of,
        "$ref": _counted("$ref"),
        "$dynamicRef": _counted("$dynamicRef"),
    },
)
FORMATS: Any = FormatChecker()
FORMATS.checkers = dict(Draft202012Validator.FORMAT_CHECKER.checkers)
FORMATS.checks("regex", raises=(re.error, OverflowError, RecursionError))(_is_regex)
