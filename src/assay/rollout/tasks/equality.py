"""When two JSON values are the same: one rule for whoever grades an answer, compares golds or looks for
repetition.

Numbers are compared by the value that was written, as decimals: 1, 1.0 and 1e0 are one number, -0.0 is 0,
1e30 is 10 to the 30th although no double is, and 2**53 + 1 is not 2**53. True and false are no numbers, and a
number in quotes is a text. Texts are compared in Unicode's composed form, and with white space folded where
the rules say so; names of fields as they are.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

from assay.core.storage.json import dumps


@dataclass(frozen=True, slots=True)
class Rules:
    """How values are compared.

    Two numbers are the same if they differ by no more than `absolute`, or by no more than `relative` times
    the larger of their magnitudes, in exact arithmetic; both are 0 for numbers of equal value alone.
    `composed` is False where even texts that look the same are different, as JSON Schema has it.
    """

    whitespace: Literal["fold", "keep"]
    absolute: float = 0.0
    relative: float = 0.0
    composed: bool = True

    @property
    def tolerant(self) -> bool:
        """Whether numbers of different value may be the same; sameness is not transitive then."""
        return self.absolute > 0 or self.relative > 0


# As JSON Schema compares: by code point, and numbers by value.
SCHEMA = Rules("keep", composed=False)
FOLDED = Rules("fold")


def folded(text: str) -> str:
    r"""Return a text in Unicode's composed form, with every run of white space one space and none at the
    ends.

    >>> folded(" Ana\t Li\n")
    'Ana Li'
    """
    return " ".join((text if text.isascii() else unicodedata.normalize("NFC", text)).split())


def text_as(text: str, rules: Rules) -> str:
    r"""Return a text as it is compared.

    >>> text_as("if x:\n  y", Rules("fold")), text_as("if x:\n  y", Rules("keep"))
    ('if x: y', 'if x:\n  y')
    """
    if rules.whitespace == "fold":
        return folded(text)
    return text if text.isascii() or not rules.composed else unicodedata.normalize("NFC", text)


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def number(value: float) -> int | Decimal:
    """Return a number's value as it was written: equal values are equal and hash alike, whole ones are int
    where that is short.

    >>> number(-0.0), number(2.50), number(1e30) == 10**30, number(2**53 + 1) == number(float(2**53))
    (0, Decimal('2.5'), True, False)
    """
    if isinstance(value, int):
        return value
    # Up to here a double writes all digits of a whole number; beyond, its shortest form stands for what was
    # written.
    if value.is_integer() and abs(value) < 1e15:
        return int(value)
    return Decimal(repr(value))


@lru_cache(maxsize=64)
def _exactly(bound: float) -> Fraction:
    return Fraction(repr(bound))


def close(one: float, other: float, rules: Rules) -> bool:
    """Return whether two numbers are the same; symmetric.

    >>> (close(1.0, 1.1, Rules("fold", absolute=0.1)), close(100, 101, Rules("fold", relative=0.01)),
    ... close(1, 2, Rules("fold")))
    (True, True, False)
    """
    a, b = number(one), number(other)
    if a == b or not rules.tolerant:
        return a == b
    x, y = Fraction(a), Fraction(b)
    return abs(x - y) <= max(_exactly(rules.absolute), _exactly(rules.relative) * max(abs(x), abs(y)))


def equal(one: Any, other: Any, rules: Rules) -> bool:
    """Return whether two JSON values are the same in value and type; lists in order, objects in any.

    >>> ([equal(1, other, FOLDED) for other in (1.0, True, "1")], equal("a  b", "a b", FOLDED),
    ... equal([1, 2], [2, 1], FOLDED))
    ([True, False, False], True, False)
    """
    if isinstance(one, str) and isinstance(other, str):
        return one == other or text_as(one, rules) == text_as(other, rules)
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(
            name in other and equal(part, other[name], rules) for name, part in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            equal(part, there, rules) for part, there in zip(one, other, strict=True)
        )
    if is_number(one) and is_number(other):
        return close(one, other, rules)
    # What is left are true, false and null, or values of different types; Python would take True for 1.
    return one is other


def key(value: Any, rules: Rules) -> Hashable:
    """Return a hashable stand-in: equal ones if and only if the values are the same, but for a tolerance,
    which it leaves out.

    >>> (key(1, FOLDED) == key(1.0, FOLDED), key(True, FOLDED) == key(1, FOLDED),
    ... key([1, 2], FOLDED) == key([2, 1], FOLDED))
    (True, False, False)
    """
    return _key(value, rules, ordered=True)


def unordered(value: Any, rules: Rules) -> Hashable:
    """Return a hashable stand-in as `key` does, for which the order of lists does not count."""
    return _key(value, rules, ordered=False)


def _key(value: Any, rules: Rules, *, ordered: bool) -> Hashable:
    if isinstance(value, str):
        return text_as(value, rules)
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return (
            "object",
            frozenset((name, _key(part, rules, ordered=ordered)) for name, part in value.items()),
        )
    if isinstance(value, list):
        parts = [_key(part, rules, ordered=ordered) for part in value]
        return ("list", tuple(parts) if ordered else frozenset(Counter(parts).items()))
    return None if value is None else number(value)


def field_score(found: Any, gold: Any, rules: Rules) -> float:
    """Return in [0, 1] how much of the gold was found: F1 over keys and list elements at every level.

    It is 1 for equal values and, where no tolerance is set, for nothing else but the same with lists in other
    orders. What is too much costs like what is missing.

    >>> plain = Rules("fold")
    >>> (field_score({"a": 1, "b": 2}, {"a": 1, "b": 3}, plain),
    ... field_score({"a": 1, "b": 2, "c": 3}, {"a": 1}, plain))
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
