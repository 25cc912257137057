"""Whether an answer is the gold, and how much of it: equality that knows types, and F1 at every level."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any


def folded(text: str) -> str:
    r"""Return a text in Unicode's composed form, with every run of whitespace one space and none at the ends.

    >>> folded(" Ana\t Li\n")
    'Ana Li'
    """
    return " ".join((text if text.isascii() else unicodedata.normalize("NFC", text)).split())


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal in value and type; lists in order.

    >>> same(1, 1.0), same(1, True), same(1, "1"), same("a  b", "a b"), same([1, 2], [2, 1])
    (True, False, False, True, False)
    """
    if isinstance(one, str) and isinstance(other, str):
        return one == other or folded(one) == folded(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(key in other and same(part, other[key]) for key, part in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    # Python would take True for 1; what is left are numbers, true, false and null, or values of different types.
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def identity(value: Any) -> Hashable:
    """Return a hashable stand-in; stand-ins are equal if and only if the values are equal as JSON Schema compares.

    >>> identity(1) == identity(1.0), identity(True) == identity(1), identity([1, 2]) == identity([2, 1])
    (True, False, False)
    """
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return ("object", frozenset((key, identity(part)) for key, part in value.items()))
    if isinstance(value, list):
        return ("list", tuple(map(identity, value)))
    return value if value is None or isinstance(value, str) else ("number", value)


def unordered(value: Any) -> Hashable:
    """Return a hashable stand-in; stand-ins are equal if and only if the values are the same but for the order of lists."""
    if isinstance(value, str):
        return folded(value)
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return ("object", frozenset((key, unordered(part)) for key, part in value.items()))
    if isinstance(value, list):
        return ("list", frozenset(Counter(map(unordered, value)).items()))
    return ("number", value) if value is not None else None


def field_score(found: Any, gold: Any) -> float:
    """Return in [0, 1] how much of the gold was found: F1 over keys and list elements at every level.

    It is 1 exactly for values that are the same but for the order of lists. What is too much costs like what is missing.

    >>> field_score({"a": 1, "b": 2}, {"a": 1, "b": 3}), field_score({"a": 1, "b": 2, "c": 3}, {"a": 1})
    (0.5, 0.5)
    >>> field_score([1, 1, 2], [1, 2, 2]), field_score([{"a": 1, "b": 2}], [{"a": 1, "b": 0}])
    (0.6666666666666666, 0.5)
    """
    if isinstance(found, dict) and isinstance(gold, dict):
        if not found and not gold:
            return 1.0
        right = sum(field_score(found[key], part) for key, part in gold.items() if key in found)
        return 2.0 * right / (len(found) + len(gold))
    if isinstance(found, list) and isinstance(gold, list):
        return _list_score(found, gold)
    return float(same(found, gold))


def _list_score(found: Sequence[Any], gold: Sequence[Any]) -> float:
    """Return the F1 of two lists as multisets; containers without an equal are matched in order for partial credit."""
    if not found and not gold:
        return 1.0
    ours, theirs = ([unordered(part) for part in side] for side in (found, gold))
    shared = Counter(ours) & Counter(theirs)
    right = float(shared.total())
    left = [_unmatched(side, keys, shared) for side, keys in ((found, ours), (gold, theirs))]
    right += sum(field_score(one, other) for one, other in zip(*left, strict=False))
    return 2.0 * right / (len(found) + len(gold))


def _unmatched(values: Sequence[Any], keys: Sequence[Hashable], shared: Mapping[Hashable, int]) -> list[Any]:
    left, rest = dict(shared), []
    for value, key in zip(values, keys, strict=True):
        if left.get(key, 0):
            left[key] -= 1
        elif isinstance(value, dict | list):
            rest.append(value)
    return rest
