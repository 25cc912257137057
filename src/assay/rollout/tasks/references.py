"""Where schemas stand inside a schema and what they refer to: no name or value is ever taken for one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

if TYPE_CHECKING:
    from referencing._core import Resolver  # the library gives it no public name


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


_REFERENCES = ("$ref", "$dynamicRef")


class Unfounded(ValueError):
    """A reference that leads nowhere, to no schema, or back to itself."""


def registry_of(documents: Mapping[str, Any]) -> Registry[Any]:
    """Return the documents by URI, and JSON Schema's own; nothing that is not here is ever fetched."""
    known: Registry[Any] = REGISTRY
    return known.with_resources(
        (uri, DRAFT202012.create_resource(doc)) for uri, doc in documents.items()
    ).crawl()


def enter(schema: Any, resolver: Resolver[Any]) -> Resolver[Any]:
    """Return the resolver that holds inside a schema, which may have an id of its own."""
    return resolver.in_subresource(DRAFT202012.create_resource(schema))


def follow(schema: Mapping[str, Any], resolver: Resolver[Any]) -> Iterator[tuple[Any, Resolver[Any]]]:
    """Yield what the references of one schema lead to.

    Raises:
        Unfounded: A reference leads nowhere.
    """
    for keyword in _REFERENCES:
        if keyword in schema:
            try:
                found = resolver.lookup(schema[keyword])
            except (Unresolvable, ValueError, LookupError, TypeError, AttributeError):
                # The library stumbles in its own ways over a pointer through a text or a number.
                raise Unfounded(
                    f"{keyword} {ascii(schema[keyword])[:120]} leads to nothing that was given"
                ) from None
            yield found.contents, found.resolver


def check_references(starts: list[tuple[Any, Resolver[Any]]]) -> list[Any]:
    """Follow every reference and return the schemas that stand where schemas are not looked for.

    Args:
        starts: The whole documents.

    Raises:
        Unfounded: A reference leads nowhere, to no schema, or in a ring that no value could be checked along.
    """
    stack, seen, strays = list(starts), {id(schema) for schema, _ in starts}, []
    edges: dict[int, list[int]] = {}
    referred: list[tuple[Any, Resolver[Any]]] = []
    while stack or referred:
        stray = not stack
        schema, resolver = referred.pop() if stray else stack.pop()
        if stray:
            if id(schema) in seen:
                continue
            seen.add(id(schema))
            strays.append(schema)
        if not isinstance(schema, dict):
            continue
        same = edges.setdefault(id(schema), [])
        for child, in_place in subschemas(schema):
            if isinstance(child, dict):
                if id(child) not in seen:
                    seen.add(id(child))
                    stack.append((child, enter(child, resolver)))
                if in_place:
                    same.append(id(child))
        for target, beyond in follow(schema, resolver):
            if not isinstance(target, dict | bool):
                raise Unfounded("a $ref leads to something that is no schema")
            same.append(id(target))
            referred.append((target, beyond))
    if _has_ring(edges):
        raise Unfounded("references run in a ring that never reaches a part of the value")
    return strays


def _has_ring(edges: Mapping[int, list[int]]) -> bool:
    """Return whether a directed graph has a cycle; Kahn's algorithm, no recursion."""
    incoming = dict.fromkeys(edges, 0)
    for targets in edges.values():
        for target in targets:
            incoming[target] = incoming.get(target, 0) + 1
    ready, left = deque(node for node, count in incoming.items() if not count), len(incoming)
    while ready:
        left -= 1
        for target in edges.get(ready.popleft(), ()):
            incoming[target] -= 1
            if not incoming[target]:
                ready.append(target)
    return left > 0
