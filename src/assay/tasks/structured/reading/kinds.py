"""Which kinds of JSON value a schema asks for: an object as a rule, else a list or a single value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from assay.tasks.structured.reading.references import enter, follow
from assay.tasks.structured.schema import Schema

if TYPE_CHECKING:
    from referencing._core import Resolver

OBJECT = frozenset({"object"})
_MOST_LOOKED_AT = 500


def kind_of(value: Any) -> str:
    """Return the kind of a JSON value, by the names of JSON Schema; whole numbers are numbers.

    >>> [kind_of(value) for value in ({}, [], "", 1, 1.0, True, None)]
    ['object', 'array', 'string', 'number', 'number', 'boolean', 'null']
    """
    for kind, types in (
        ("object", dict),
        ("array", list),
        ("string", str),
        ("boolean", bool),
        ("null", type(None)),
    ):
        if isinstance(value, types):
            return kind
    return "number"


def wanted_kinds(schema: Schema, golds: Iterable[Any]) -> frozenset[str]:
    """Return the kinds that an answer may have.

    They are those the schema states, through references and alternatives; where it states none, those of the
    golds, and an object where there is no gold either.

    >>> from assay.tasks.structured.schema import compile_schema, schema_key
    >>> def wanted(schema, *golds): return sorted(wanted_kinds(compile_schema(schema_key(schema, {}, None)), golds))
    >>> wanted({"anyOf": [{"type": "integer"}, {"const": "all"}]}), wanted({"properties": {}}), wanted(True, [1])
    (['number', 'string'], ['object'], ['array'])
    """
    node, resolver = schema.root()
    stated = _Stated().of(node, resolver)
    return stated or frozenset(map(kind_of, golds)) or OBJECT


class _Stated:
    """Looks at no more than so many schemas: references can multiply without end."""

    def __init__(self) -> None:
        self.looked = 0

    def of(self, schema: Any, resolver: Resolver[Any]) -> frozenset[str] | None:
        """Return the kinds that a schema states; None if it states none."""
        self.looked += 1
        if not isinstance(schema, dict) or self.looked > _MOST_LOOKED_AT:
            return None
        found: list[frozenset[str] | None] = []
        if names := schema.get("type"):
            named = [names] if isinstance(names, str) else names
            found.append(frozenset("number" if name == "integer" else str(name) for name in named))
        if "const" in schema:
            found.append(frozenset({kind_of(schema["const"])}))
        if schema.get("enum"):
            found.append(frozenset(map(kind_of, schema["enum"])))
        found += [self.of(target, beyond) for target, beyond in follow(schema, resolver)]
        found += [self.of(part, enter(part, resolver)) for part in schema.get("allOf", ())]
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                parts = [self.of(part, enter(part, resolver)) for part in schema[keyword]]
                stated = [part for part in parts if part is not None]
                found.append(frozenset().union(*stated) if len(stated) == len(parts) else None)
        stated = [kinds for kinds in found if kinds is not None]
        return frozenset.intersection(*stated) if stated else None
