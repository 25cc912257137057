"""What a JSON Schema refers to, and by which names parts of it can be referred to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urldefrag, urljoin

from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

# Under these a dict maps names to schemas, so a key called "$ref" or "enum" there is a name and not a
# keyword.
_MAPS = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_DATA = frozenset({"const", "enum", "default", "examples"})
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
METASCHEMAS = frozenset(str(uri).rstrip("#") for uri in REGISTRY)


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """One $ref as it is written, and the URI it means, without the fragment."""

    ref: str
    target: str


@dataclass(slots=True)
class Walked:
    """All references of one document, in the order of the text, and the URIs that are found inside it."""

    base: str
    references: list[SchemaReference] = field(default_factory=list)
    identifiers: set[str] = field(default_factory=set)


def joined(base: str, ref: str) -> str:
    """Return the URI a reference means, without the fragment.

    Raises:
        ValueError: It cannot be a URI.

    >>> joined("file:///a/b.json", "../c.json#/x")
    'file:///c.json'
    """
    return urldefrag(urljoin(base, ref)).url


def walk(document: Any, uri: str, *, own_id: bool = True) -> Walked:
    """Return what a document that was found under a URI refers to.

    Args:
        document: The parsed schema file.
        uri: Where it was found.
        own_id: Whether its own $id, if it has one, takes the place of that URI.

    Raises:
        ValueError: A reference is no URI.
    """
    walked = Walked(_rebased(document, uri) if own_id else uri, identifiers={uri})
    todo: list[tuple[Any, str]] = [(document, uri)]
    while todo:
        value, base = todo.pop()
        if isinstance(value, dict):
            base = _rebased(value, base) if own_id or value is not document else base
            walked.identifiers.add(base)
            refs = [value[key] for key in _REFERENCES if isinstance(value.get(key), str)]
            walked.references += [
                SchemaReference(ref, base if ref.startswith("#") else joined(base, ref)) for ref in refs
            ]
        todo += reversed([(part, base) for part in _parts(value)])
    return walked


def _rebased(value: Any, base: str) -> str:
    own = value.get("$id") if isinstance(value, dict) else None
    # "#name" is how old drafts wrote an anchor; it moves nothing.
    return joined(base, own) if isinstance(own, str) and not own.startswith("#") else base


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        for key, part in value.items():
            if key in _MAPS and isinstance(part, dict):
                yield from part.values()
            elif key not in _DATA and isinstance(part, dict | list):
                yield part
