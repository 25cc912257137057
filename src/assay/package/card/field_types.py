"""Which fields some records have and of what type, as far as it can be stated; the rest is named and not described."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LONGEST_NAME = 200
MOST_FIELDS = 200  # of one object
MOST_LEVELS = 4
# Names that a JSONPath can spell without quotes, and takes for nothing else.
_PLAIN = re.compile(r"(?!(?:parent|where|wherenot)$)[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Kind:
    """One field: where it stands in a record, and what its values are.

    `present` of the `of` objects that could have it do, null or not; in `nulls` it is null. An object has subfields in the
    place of a type; `repeated` is a list of what is described.
    """

    path: tuple[str, ...]
    data_type: str
    repeated: bool
    present: int
    of: int
    nulls: int
    subfields: tuple[Kind, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of records, sorted by name, and the paths of those whose values have no one shape, or too odd a name."""

    kinds: tuple[Kind, ...]
    undescribed: tuple[str, ...]


def fields_of(rows: Sequence[Mapping[str, Any]]) -> Fields:
    """Return the fields of records.

    >>> found = fields_of([{"a": 1, "b": [0.5]}, {"a": 2.5, "c": [[1]]}])
    >>> [(kind.path, kind.data_type, kind.repeated, kind.present) for kind in found.kinds], found.undescribed
    ([(('a',), 'sc:Float', False, 2), (('b',), 'sc:Float', True, 1)], ('c',))
    """
    left: list[str] = []
    return Fields(_described((), rows, left, inside_list=False), tuple(sorted(left)))


def _described(
    path: tuple[str, ...], objects: Sequence[Mapping[str, Any]], left: list[str], *, inside_list: bool
) -> tuple[Kind, ...]:
    columns: dict[str, list[Any]] = {}
    for each in objects:
        for name, value in each.items():
            columns.setdefault(name, []).append(value)
    found = []
    for place, name in enumerate(sorted(columns)):
        # A column of the table may be called anything; what lies in one is found by a path.
        sound = 0 < len(name) <= LONGEST_NAME and (not path or _PLAIN.fullmatch(name)) and place < MOST_FIELDS
        kind = _kind((*path, name), columns[name], len(objects), left, inside_list=inside_list) if sound else None
        if kind is None:
            left.append(".".join((*path, name))[:LONGEST_NAME])
        else:
            found.append(kind)
    return tuple(found)


def _kind(path: tuple[str, ...], values: Sequence[Any], of: int, left: list[str], *, inside_list: bool) -> Kind | None:
    """Return what all values are, None where nothing can be said of all of them."""
    known = [value for value in values if value is not None]
    counts = (len(values), of, len(values) - len(known))
    is_list = bool(known) and all(isinstance(value, list) for value in known)
    if is_list and inside_list:
        return None
    inside = [each for value in known for each in value] if is_list else known
    if inside and all(isinstance(value, dict) for value in inside):
        if inside_list or len(path) >= MOST_LEVELS:
            return None
        subfields = _described(path, inside, left, inside_list=is_list)
        return Kind(path, "sc:Text", is_list, *counts, subfields) if subfields else None
    data_type = _scalar(inside)
    return None if data_type is None else Kind(path, data_type, is_list, *counts)


def _scalar(values: Sequence[Any]) -> str | None:
    """Return the type that all values share, whole numbers counting as numbers and nothing as text; None where none is."""
    types = {type(value) for value in values}
    for kinds, name in (({str}, "sc:Text"), ({bool}, "sc:Boolean"), ({int}, "sc:Integer"), ({int, float}, "sc:Float")):
        if types <= kinds:
            return name
    return None
