"""What kind of JSON value a schema asks for; and values of its shape for scripted players."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.rollout.tasks.references import enter, follow
from assay.rollout.tasks.schema import Schema

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

    >>> from assay.rollout.tasks.schema import compile_schema, schema_key
    >>> def wanted(schema, *golds):
    ...     return sorted(wanted_kinds(compile_schema(schema_key(schema, {}, None)), golds))
    >>> (wanted({"anyOf": [{"type": "integer"}, {"const": "all"}]}), wanted({"properties": {}}),
    ... wanted(True, [1]))
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


_MAX_LAYERS = 200
_MAX_VALUES = 300
# Below this depth only what is required is written, and some levels deeper nothing: schemas may contain
# themselves.
_DEEP, _TOO_DEEP = 4, 12
_MAX_ITEMS = 5


@dataclass(frozen=True, slots=True)
class Filler:
    """What to put where a schema leaves a choice.

    `pick` returns one of so many options, `items` is a length, and `all_fields` says whether to write what
    may be left out.
    """

    text: Callable[[], str]
    number: Callable[[], float]
    pick: Callable[[int], int]
    items: int
    all_fields: bool


EMPTY = Filler(text=lambda: "", number=lambda: 0, pick=lambda n: 0, items=0, all_fields=True)


def shaped(schema: Schema, filler: Filler, wanted: frozenset[str] = OBJECT) -> Any:
    """Return a value of the schema's shape; {} where that is of no kind that is wanted."""
    node, resolver = schema.root()
    value = _Writer(filler).value(node, resolver, 0)
    return value if kind_of(value) in wanted else {}


class _Writer:
    def __init__(self, filler: Filler) -> None:
        self.filler, self.written, self.layered = filler, 0, 0

    def value(self, schema: Any, resolver: Resolver[Any], depth: int) -> Any:
        """Return a value for one schema."""
        self.written += 1
        if self.written > _MAX_VALUES or depth > _TOO_DEEP:
            return self.filler.text()
        layers = list(self._layers(schema, resolver))
        for layer, _ in layers:
            if "const" in layer:
                return layer["const"]
            if layer.get("enum"):
                return layer["enum"][self.filler.pick(len(layer["enum"]))]
        kind = _kind([layer for layer, _ in layers])
        if kind == "object":
            return self._object(layers, depth)
        if kind == "array":
            return self._array(layers, depth)
        if kind in ("number", "integer"):
            return self._number([layer for layer, _ in layers], whole=kind == "integer")
        return {"boolean": bool(self.filler.pick(2)), "null": None}.get(kind, self.filler.text())

    def _layers(
        self, schema: Any, resolver: Resolver[Any]
    ) -> Iterator[tuple[Mapping[str, Any], Resolver[Any]]]:
        """Yield all schemas that judge the same value: the schema, what it refers to, and of alternatives
        one."""
        self.layered += 1
        if not isinstance(schema, dict) or self.layered > _MAX_LAYERS:
            return
        yield schema, resolver
        for target, beyond in follow(schema, resolver):
            yield from self._layers(target, beyond)
        for part in schema.get("allOf", ()):
            yield from self._layers(part, enter(part, resolver))
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                part = schema[keyword][self.filler.pick(len(schema[keyword]))]
                yield from self._layers(part, enter(part, resolver))

    def _object(self, layers: list[tuple[Mapping[str, Any], Resolver[Any]]], depth: int) -> dict[str, Any]:
        known: dict[str, tuple[Any, Resolver[Any]]] = {}
        required: dict[str, None] = {}
        for layer, resolver in layers:
            for name, part in layer.get("properties", {}).items():
                known.setdefault(name, (part, enter(part, resolver)))
            required |= dict.fromkeys(layer.get("required", ()))
        found = {}
        for name in (
            required if depth > _DEEP or not self.filler.all_fields else {**dict.fromkeys(known), **required}
        ):
            self.layered = 0
            found[name] = self.value(*known[name], depth + 1) if name in known else self.filler.text()
        return found

    def _array(self, layers: list[tuple[Mapping[str, Any], Resolver[Any]]], depth: int) -> list[Any]:
        least = max(int(layer.get("minItems", 0)) for layer, _ in layers)
        found: list[Any] = []
        for layer, resolver in layers:
            for part in (layer.get("prefixItems", []) if depth <= _DEEP else [])[:_MAX_ITEMS]:
                found.append(self.value(part, enter(part, resolver), depth + 1))
        items = next(((layer["items"], resolver) for layer, resolver in layers if "items" in layer), None)
        while len(found) < min(_MAX_ITEMS, max(least, self.filler.items if depth <= _DEEP else 0)):
            self.layered = 0
            found.append(
                self.filler.text() if items is None else self.value(items[0], enter(*items), depth + 1)
            )
        return found

    def _number(self, layers: list[Mapping[str, Any]], *, whole: bool) -> float:
        number = self.filler.number()
        for layer in layers:
            number = max(number, layer.get("minimum", number))
            number = min(number, layer.get("maximum", number))
            if "exclusiveMinimum" in layer and number <= layer["exclusiveMinimum"]:
                number = layer["exclusiveMinimum"] + 1
        return int(number) if whole else number


def _kind(layers: list[Mapping[str, Any]]) -> str:
    """Return the type to write: the first one stated, else what the keywords speak of."""
    for layer in layers:
        stated = layer.get("type")
        if stated:
            return str(stated if isinstance(stated, str) else stated[0])
    words = {word for layer in layers for word in layer}
    for kind, telling in (("object", {"properties", "required"}), ("array", {"items", "prefixItems"})):
        if words & telling:
            return kind
    return "number" if words & {"minimum", "maximum"} else "string"


def in_order(value: Any, schema: Any) -> Any:
    """Return a value with the keys of its objects in the order in which a schema names them, as a model is
    shown it; alternatives are told apart by their names and constants, and what a reference leads to is left
    as it is.

    >>> schema = {"properties": {"c": {"properties": {"x": {}, "y": {}}}, "b": {}}}
    >>> in_order({"b": 1, "c": {"y": 1, "x": 2}}, schema)
    {'c': {'x': 2, 'y': 1}, 'b': 1}
    """
    if not isinstance(schema, dict):
        return value
    for keyword in ("anyOf", "oneOf"):
        parts = schema.get(keyword)
        if isinstance(parts, list):
            return in_order(value, next((part for part in parts if _may_be(value, part)), None))
    if isinstance(value, list):
        return [in_order(part, schema.get("items")) for part in value]
    named = schema.get("properties")
    if not isinstance(value, dict) or not isinstance(named, dict):
        return value
    names = [*(name for name in named if name in value), *(name for name in value if name not in named)]
    return {name: in_order(value[name], named.get(name)) for name in names}


def _may_be(value: Any, schema: Any) -> bool:
    named = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(value, dict) or not isinstance(named, dict):
        return not isinstance(value, dict) and named is None
    constants = {n: part["const"] for n, part in named.items() if isinstance(part, dict) and "const" in part}
    return set(value) <= set(named) and all(value.get(n) == constant for n, constant in constants.items())
