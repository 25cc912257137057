"""How much of a gold an answer has: F1 at every level, by the one rule of equality."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from assay.core.storage.json import dumps
from assay.tasks.structured.grading.equality import Rules, close, equal, is_number, number, text_as, unordered


def field_score(found: Any, gold: Any, rules: Rules) -> float:
    """Return in [0, 1] how much of the gold was found: F1 over keys and list elements at every level.

    It is 1 for equal values and, where no tolerance is set, for nothing else but the same with lists in other
    orders. What is too much costs like what is missing.

    >>> plain = Rules("fold")
    >>> field_score({"a": 1, "b": 2}, {"a": 1, "b": 3}, plain), field_score({"a": 1, "b": 2, "c": 3}, {"a": 1}, plain)
    (0.5, 0.5)
    >>> field_score([1, 1, 2], [1, 2, 2], plain), field_score([{"a": 1, "b": 2}], [{"a": 1, "b": 0}], plain)
    (0.6666666666666666, 0.5)
    """
    if isinstance(found, dict) and isinstance(gold, dict):
        if not found and not gold:
            return 1.0
        right = sum(field_score(found[key], part, rules) for key, part in gold.items() if key in found)
        return 2.0 * right / (len(found) + len(gold))
    if isinstance(found, list) and isinstance(gold, list):
        return _list_score(found, gold, rules)
    return float(equal(found, gold, rules))


def _list_score(found: Sequence[Any], gold: Sequence[Any], rules: Rules) -> float:
    """Return the F1 of two lists as multisets; containers without an equal are matched in order for partial
    credit."""
    if not found and not gold:
        return 1.0
    most, right = len(found) + len(gold), 0.0
    if rules.tolerant:
        if equal(found, gold, rules):
            return 1.0
        right += _close_pairs(found, gold, rules)
        found, gold = ([part for part in side if not is_number(part)] for side in (found, gold))
    ours, theirs = ([unordered(part, rules) for part in side] for side in (found, gold))
    shared = Counter(ours) & Counter(theirs)
    right += float(shared.total())
    left = [_unmatched(side, keys, shared) for side, keys in ((found, ours), (gold, theirs))]
    if rules.tolerant:  # what differs by little stands at like places once both are sorted
        left = [sorted(side, key=lambda part: _by_size(part, rules)) for side in left]
    right += sum(field_score(one, other, rules) for one, other in zip(*left, strict=False))
    return 2.0 * right / most


def _unmatched(values: Sequence[Any], keys: Sequence[Hashable], shared: Mapping[Hashable, int]) -> list[Any]:
    left, rest = dict(shared), []
    for value, key in zip(values, keys, strict=True):
        if left.get(key, 0):
            left[key] -= 1
        elif isinstance(value, dict | list):
            rest.append(value)
    return rest


def _close_pairs(found: Sequence[Any], gold: Sequence[Any], rules: Rules) -> int:
    """Return how many numbers of two lists can be paired within the tolerance, each used once.

    In the order of size the first that fits is never worse than a later one, since what is close to a number
    is an interval whose ends grow with it.
    """
    ours, theirs = (sorted((part for part in side if is_number(part)), key=number) for side in (found, gold))
    pairs = at = there = 0
    while at < len(ours) and there < len(theirs):
        if close(ours[at], theirs[there], rules):
            pairs, at, there = pairs + 1, at + 1, there + 1
        elif number(ours[at]) < number(theirs[there]):
            at += 1
        else:
            there += 1
    return pairs


def _by_size(value: Any, rules: Rules) -> tuple[str, list[Fraction]]:
    """Return what to sort a container by: all it says besides numbers, then its numbers."""
    numbers: list[Fraction] = []

    def shape(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: shape(part[name]) for name in sorted(part)}
        if isinstance(part, list):
            return [shape(each) for each in part]
        if is_number(part):
            numbers.append(Fraction(number(part)))
            return 0
        return text_as(part, rules) if isinstance(part, str) else part

    return dumps(shape(value)), numbers
