"""Where schemas stand inside a schema, so that names and values are never taken for one; types as people
spell them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

# Keyword -> whether its schemas judge the same value as the schema they stand in (and not a part of that
# value).
_ONE: Mapping[str, bool] = {
    "not": True,
    "if": True,
    "then": True,
    "else": True,
    "additionalProperties": False,
    "contains": False,
    "contentSchema": False,
    "items": False,
    "propertyNames": False,
    "unevaluatedItems": False,
    "unevaluatedProperties": False,
}
_LIST: Mapping[str, bool] = {"allOf": True, "anyOf": True, "oneOf": True, "prefixItems": False}
_BY_NAME: Mapping[str, bool] = {"dependentSchemas": True, "patternProperties": False, "properties": False}
# Kept for reference only: they judge nothing where they stand.
_SHELVES = ("$defs", "definitions")

_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "object": ("dict", "dictionary", "map", "mapping", "hashmap", "struct"),
    "array": ("list", "tuple", "set", "arraylist", "sequence"),
    "number": ("float", "double", "decimal"),
    "integer": ("int", "long", "bigint", "short"),
    "string": ("str", "text", "char"),
    "boolean": ("bool",),
    "null": ("none", "nonetype"),
}
_MEANT = {spelling: name for name, others in _SPELLINGS.items() for spelling in (name, *others)}
_ANYTHING = "any"


def subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[Any, bool]]:
    """Yield the schemas that stand directly in a schema, each with whether it judges the same value.

    >>> list(subschemas({"properties": {"not": {"type": "string"}}, "not": True, "enum": [{"not": 1}]}))
    [({'type': 'string'}, False), (True, True)]
    """
    for keyword, value in schema.items():
        if keyword in _ONE:
            yield value, _ONE[keyword]
        elif keyword in _LIST and isinstance(value, list):
            yield from ((each, _LIST[keyword]) for each in value)
        elif isinstance(value, dict) and (keyword in _BY_NAME or keyword in _SHELVES):
            yield from ((each, _BY_NAME.get(keyword, False)) for each in value.values())


def rewritten(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a copy of a schema in which every schema, innermost first, was put through `change`; the rest is
    as it was."""
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _ONE:
            result[keyword] = rewritten(value, change)
        elif keyword in _LIST and isinstance(value, list):
            result[keyword] = [rewritten(each, change) for each in value]
        elif isinstance(value, dict) and (keyword in _BY_NAME or keyword in _SHELVES):
            result[keyword] = {name: rewritten(each, change) for name, each in value.items()}
        else:
            result[keyword] = value
    return change(result)


def translate_types(schema: Any) -> tuple[Any, int]:
    """Return a schema with types spelt as JSON Schema spells them, and how many `type` keywords were read so.

    >>> translate_types({"type": "dict", "properties": {"type": {"type": "float"}, "x": {"type": "any"}}})
    ({'type': 'object', 'properties': {'type': {'type': 'number'}, 'x': {}}}, 3)
    >>> translate_types({"enum": ["dict"], "type": "string"})
    ({'enum': ['dict'], 'type': 'string'}, 0)
    """
    count = 0

    def change(found: dict[str, Any]) -> dict[str, Any]:
        nonlocal count
        if "type" not in found:
            return found
        names = _translated(found["type"])
        if names == found["type"]:
            return found
        count += 1
        if names is None:
            return {keyword: value for keyword, value in found.items() if keyword != "type"}
        return found | {"type": names}

    return rewritten(schema, change), count


def _translated(names: Any) -> Any:
    """Return the value of a `type` keyword in JSON Schema's spelling; None where it allows anything."""
    if isinstance(names, str):
        low = names.lower()
        return None if low == _ANYTHING else _MEANT.get(low, names)
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        meant = [_translated(name) for name in names]
        return None if None in meant else (names if meant == names else list(dict.fromkeys(meant)))
    return names
