"""JSON Schemas, Draft 2020-12: compiled once, refused when they cannot be kept, and never fetched from
anywhere."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag

import regex  # type: ignore[import-untyped]
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from assay.core.errors import TaskError
from assay.core.storage.json import dumps
from assay.rollout.tasks.equality import SCHEMA, key
from assay.rollout.tasks.iri import is_iri
from assay.rollout.tasks.references import (
    Unfounded,
    check_references,
    registry_of,
    rewritten,
    translate_types,
)

if TYPE_CHECKING:
    from referencing._core import Resolver


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
FORMATS.checks("iri")(is_iri)
FORMATS.checks("iri-reference", raises=ValueError)(partial(is_iri, rule="URI_reference"))


__all__ = [
    "Schema",
    "compile_schema",
    "parameters_of",
    "schema_from_functions",
    "schema_key",
    "translate_types",
]

# Draft 2020-12 would silently ignore them, and the schema would allow more than its writer meant.
_FORGOTTEN = ("dependencies", "additionalItems", "$recursiveRef", "$recursiveAnchor")
_MAX_WORDS, _MAX_ROUNDS = 200, 200
_FIX = "correct the schema; it is read as JSON Schema Draft 2020-12"


class Schema:
    """A compiled schema."""

    def __init__(self, root: Any, registry: Registry[Any], uri: str | None) -> None:
        """Hold the schema; with `uri` values are judged by what it names, else by the root."""
        start: Any = root if uri is None else {"$ref": uri}
        self._start, self._registry = start, registry
        self._validator = BoundedValidator(start, registry=registry, format_checker=FORMATS)

    def problem(self, value: Any) -> str | None:
        """Return in words, with its place, the first thing wrong with a value; None if it satisfies the
        schema."""
        Effort.spent = 0
        try:
            error = next(self._validator.iter_errors(value), None)
            return None if error is None else f"{error.json_path}: {error.message}"[:_MAX_WORDS]
        except RecursionError:
            return "$: nested too deep to be checked"
        except TooMuchWork as found:
            return f"$: given up, {found} takes too much work"[:_MAX_WORDS]
        except (ArithmeticError, ValueError, LookupError, Unresolvable) as error:
            # A format or a number that the library trips over comes from the value: it is wrong, and nothing
            # stops.
            return f"$: cannot be checked ({type(error).__name__})"

    def faults(self, value: Any) -> list[tuple[str | int, ...]]:
        """Return the places where a value breaks the schema; none where that takes too much work to say."""
        Effort.spent = 0
        try:
            return [tuple(error.absolute_path) for error in self._validator.iter_errors(value)]
        except (RecursionError, TooMuchWork, ArithmeticError, ValueError, LookupError, Unresolvable):
            return []

    def null_faults(self, value: Any) -> list[Any]:
        """Return the schemas that refuse a null in a value; none where that takes too much work to say."""
        Effort.spent = 0
        try:
            return [error.schema for error in self._validator.iter_errors(value) if error.instance is None]
        except (RecursionError, TooMuchWork, ArithmeticError, ValueError, LookupError, Unresolvable):
            return []

    def without_nulls(self, value: Any) -> Any:
        """Return a value without those fields that are null and that the schema wants absent if not filled:
        Arrow and Parquet fill what is absent with null.

        >>> schema = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["b"]}
        >>> compile_schema(schema_key(schema, {}, None)).without_nulls({"a": None, "b": None})
        {'b': None}
        """
        value = json.loads(json.dumps(value))
        for _ in range(_MAX_ROUNDS):
            before = self.faults(value)
            for place in before:
                home = _part(value, place[:-1]) if place else None
                if isinstance(home, dict) and home.get(place[-1], home) is None:
                    del home[place[-1]]
                    if self.faults(value).count(place[:-1]) > before.count(place[:-1]):  # it is required
                        home[place[-1]] = None
                    else:
                        break
            else:
                return value
        return value

    def root(self) -> tuple[Any, Resolver[Any]]:
        """Return the schema that judges, and what resolves its references."""
        return self._start, self._registry.resolver_with_root(DRAFT202012.create_resource(self._start))


def _part(value: Any, place: Sequence[str | int]) -> Any:
    for step in place:
        value = value[step]
    return value


def schema_key(schema: Any, resources: Mapping[str, Any], uri: str | None) -> str:
    """Return the text that `compile_schema` reads; equal schemas have equal texts.

    >>> schema_key({"type": "object"}, {}, None)
    '{"resources":{},"schema":{"type":"object"},"uri":null}'
    """
    return dumps({"schema": schema, "resources": dict(resources), "uri": uri})


@lru_cache(maxsize=4096)
def compile_schema(text: str) -> Schema:
    """Return the compiled schema.

    Args:
        text: From `schema_key`: the root document, other documents by URI, and where in them the schema
            stands (None: it is the root). A root that is not among the documents is there under its URI.

    Raises:
        TaskError: It is no valid schema of Draft 2020-12, or a reference leads nowhere or in a ring.
    """
    given = json.loads(text)
    uri = given["uri"]
    root, *others = (_of_this_draft(doc) for doc in (given["schema"], *given["resources"].values()))
    documents = dict(zip(given["resources"], others, strict=True))
    if uri is not None:
        documents.setdefault(urldefrag(uri).url, root)
    try:
        for document in (root, *documents.values()):
            _check(document)
        registry = registry_of(documents)
        schema = Schema(root, registry, uri)
        starts = [schema.root()] + [
            (doc, registry.resolver(base_uri=name)) for name, doc in documents.items()
        ]
        for stray in check_references(starts):
            _check(stray)
    except Unfounded as error:
        raise _refused("references that end", str(error)) from None
    except RecursionError:
        raise _refused("a schema of sane depth", "one nested too deep to be checked") from None
    except (ArithmeticError, ValueError, LookupError, TypeError, AttributeError, Unresolvable) as error:
        # The libraries' own ways to stumble over ids, anchors and URIs that are none.
        raise _refused("ids and references that can be read", ascii(str(error))[:_MAX_WORDS]) from None
    return schema


def _refused(expected: str, found: str) -> TaskError:
    return TaskError(expected, found=found, where="schema", fix=_FIX)


def _check(schema: Any) -> None:
    try:
        Draft202012Validator.check_schema(schema, format_checker=FORMATS)
    except SchemaError as error:
        found = f"{error.json_path}: {error.message}"[:_MAX_WORDS]
        raise _refused("a valid JSON Schema (Draft 2020-12)", found) from None


def _of_this_draft(schema: Any) -> Any:
    """Return the schema without `$schema`, which would make the library judge parts of it by another
    draft."""

    def change(found: dict[str, Any]) -> dict[str, Any]:
        for keyword in _FORGOTTEN:
            if keyword in found:
                raise _refused("keywords of Draft 2020-12", f"{keyword}, of an older draft")
        if not isinstance(found.get("$schema", ""), str):
            raise _refused("the name of a draft as $schema", ascii(found["$schema"])[:80])
        return {keyword: value for keyword, value in found.items() if keyword != "$schema"}

    return rewritten(schema, change)


def schema_from_functions(functions: Sequence[Any]) -> dict[str, Any]:
    """Return the schema of a call of one of these functions: {"name": …, "arguments": {…}}.

    >>> schema_from_functions([{"name": "stop", "parameters": {"type": "object"}}])["properties"]
    {'name': {'const': 'stop'}, 'arguments': {'type': 'object'}}

    Raises:
        TaskError: No functions, one without a name, or one name twice.
    """
    if not isinstance(functions, list | tuple) or not functions:
        raise _no_functions("a list of functions", ascii(functions)[:80])
    calls = [_call(function) for function in functions]
    names = [call["properties"]["name"]["const"] for call in calls]
    if len(set(names)) != len(names):
        raise _no_functions("functions with different names", ascii(names)[:80])
    return calls[0] if len(calls) == 1 else {"anyOf": calls}


def parameters_of(functions: Sequence[Any]) -> dict[str, Any]:
    """Return the schema of each function's arguments, by its name.

    >>> parameters_of([{"name": "stop"}])
    {'stop': {'type': 'object'}}

    Raises:
        TaskError: As `schema_from_functions`.
    """
    calls = [_call(function) for function in functions] if isinstance(functions, list | tuple) else []
    return {call["properties"]["name"]["const"]: call["properties"]["arguments"] for call in calls}


def _no_functions(expected: str, found: str) -> TaskError:
    return TaskError(
        expected, found=found, where="functions", fix="list them as {name, description, parameters}"
    )


def _call(function: Any) -> dict[str, Any]:
    if isinstance(function, Mapping) and isinstance(function.get("function"), Mapping):
        function = function["function"]  # as chat APIs wrap them
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name:
        raise _no_functions("a function with a name", ascii(function)[:80])
    parameters = function.get("parameters")
    if parameters is None:
        parameters = {"type": "object"}
    if not isinstance(parameters, dict | bool):
        raise _no_functions("parameters that are a schema", ascii(parameters)[:80])
    parameters, _ = translate_types(parameters)
    if isinstance(parameters, dict) and ("$defs" in parameters or "definitions" in parameters):
        parameters = {
            "$id": f"urn:function:{name.encode().hex()}"
        } | parameters  # so that its references stay inside it
    described = (
        {"description": function["description"]} if isinstance(function.get("description"), str) else {}
    )
    return {
        "type": "object",
        **described,
        "properties": {"name": {"const": name}, "arguments": parameters},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }
