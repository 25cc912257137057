"""References of a schema, followed once before anything is graded: each must lead to a schema, and none may
run in a ring."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from assay.tasks.structured.grading.positions import subschemas

if TYPE_CHECKING:
    from referencing._core import Resolver  # the library gives it no public name

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
