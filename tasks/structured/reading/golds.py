"""What is right: a value, a call, or several calls; and whether two records say the same about it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.rollout.tasks.equality import Rules

from ..grading.calls import (
    Options,
    accepted_key,
    accepted_score,
    call_score,
    calls_in,
    every,
    is_call_gold,
    n_accepted,
    options_of,
    written_calls,
)

# Two golds with options are compared answer by answer as long as neither accepts more than so many.
_MOST_COMPARED = 256
# Kinds of gold of one question that are compared pair by pair. Of more, these stand for all: if no two of
# them agree, none do.
_MOST_KINDS = 64
# What says where the value of an argument of a function breaks its schema.
Faults = Callable[[str, str, Any], Sequence[tuple[str | int, ...]]]


@dataclass(frozen=True, slots=True)
class Plain:
    """A value."""

    written: Any

    def answers(self) -> Iterator[Any]:
        """Yield right answers, the plainest first."""
        yield self.written

    def every(self) -> Iterator[Any]:
        """Yield an answer for everything that is accepted."""
        yield self.written

    def n_accepted(self) -> int:
        """Return how many answers `every` yields."""
        return 1

    def score(self, answer: Any, rules: Rules) -> tuple[float, bool]:
        """Return the share of the gold that an answer has, and whether it is right."""
        return accepted_score(answer, self.written, rules)

    def key(self, rules: Rules) -> Hashable:
        """Return a hashable stand-in; golds with equal ones accept the same answers."""
        return accepted_key(self.written, rules)

    def said(self, answer: Any) -> Any:
        """Return what of an answer says something."""
        return answer

    def named(self, answer: Any) -> bool | None:
        """Return whether the right functions are called; None where no call is asked for."""
        return None


@dataclass(frozen=True, slots=True)
class Call:
    """A call, or one call of each of several functions in one object."""

    written: Mapping[str, Any]
    functions: Mapping[str, Options]

    def answers(self) -> Iterator[Any]:
        """Yield right answers, the plainest first."""
        yield from written_calls(self.functions)

    def every(self) -> Iterator[Any]:
        """Yield an answer for everything that is accepted, in one of the two forms of a call."""
        yield from every(self._whole())

    def n_accepted(self) -> int:
        """Return how many answers `every` yields."""
        return n_accepted(self._whole())

    def score(self, answer: Any, rules: Rules) -> tuple[float, bool]:
        """Return the share of the gold that an answer has, and whether it is right."""
        return call_score(answer, self.functions, rules)

    def key(self, rules: Rules) -> Hashable:
        """Return a hashable stand-in; golds with equal ones accept the same answers."""
        return ("call", accepted_key(self._whole(), rules))

    def said(self, answer: Any) -> Any:
        """Return what of an answer says something: arguments, not the names of functions."""
        return list(calls_in(answer)[0].values()) if isinstance(answer, dict) else answer

    def named(self, answer: Any) -> bool | None:
        """Return whether exactly the right functions are called, whatever their arguments."""
        return set(calls_in(answer)[0]) == set(self.functions)

    def _whole(self) -> Options:
        return Options({name: (accepted,) for name, accepted in self.functions.items()}, frozenset())


@dataclass(frozen=True, slots=True)
class Calls:
    """A list of calls, in any order."""

    written: Sequence[Any]
    calls: tuple[Call, ...]

    def answers(self) -> Iterator[Any]:
        """Yield right answers, the plainest first."""
        yield from map(list, zip(*(call.answers() for call in self.calls), strict=False))

    def every(self) -> Iterator[Any]:
        """Yield an answer for everything that is accepted, the calls in the order of the gold."""
        yield from map(list, itertools.product(*(list(call.every()) for call in self.calls)))

    def n_accepted(self) -> int:
        """Return how many answers `every` yields."""
        n = 1
        for call in self.calls:
            n *= call.n_accepted()
        return n

    def score(self, answer: Any, rules: Rules) -> tuple[float, bool]:
        """Return the F1 over calls, and whether all are right; right ones are paired first, the others in
        order."""
        if not isinstance(answer, list):
            return 0.0, False
        # What stands far behind the last call that could be meant is too much, whatever it is.
        looked = answer[: 4 * len(self.calls) + 16]
        graded = [[call.score(found, rules) for call in self.calls] for found in looked]
        pairs = _paired([[right for _, right in scores] for scores in graded], len(self.calls))
        free = [index for index in range(len(self.calls)) if index not in pairs]
        right = set(pairs.values())
        wrong = [index for index in range(len(looked)) if index not in right]
        partial = sum(graded[one][other][0] for one, other in zip(wrong, free, strict=False))
        return 2.0 * (len(pairs) + partial) / (len(answer) + len(self.calls)), not free and len(
            answer
        ) == len(self.calls)

    def key(self, rules: Rules) -> Hashable:
        """Return a hashable stand-in; golds with equal ones accept the same answers."""
        return ("calls", frozenset(Counter(call.key(rules) for call in self.calls).items()))

    def said(self, answer: Any) -> Any:
        """Return what of an answer says something: arguments, not the names of functions."""
        return [list(calls_in(each)[0].values()) for each in answer] if isinstance(answer, list) else answer

    def named(self, answer: Any) -> bool | None:
        """Return whether exactly the right functions are called, each as often as it should be."""
        found = answer if isinstance(answer, list) else []
        asked = Counter(name for call in self.calls for name in call.functions)
        return Counter(name for each in found for name in calls_in(each)[0]) == asked


Gold = Plain | Call | Calls


def gold_of(written: Any, *, calls: bool, faults: Faults = lambda function, name, value: ()) -> Gold:
    """Return what a gold accepts.

    Args:
        written: As it stands in the record.
        calls: Whether the record lists functions, so that a gold of the form of calls is one.
        faults: Where the value of a function's argument breaks its schema.
    """
    if calls and is_call_gold(written):
        return _call(written, faults)
    if calls and isinstance(written, list) and written and all(map(is_call_gold, written)):
        return Calls(written, tuple(_call(each, faults) for each in written))
    return Plain(written)


def _call(written: Mapping[str, Any], faults: Faults) -> Call:
    def read(function: str) -> Options:
        return options_of(written[function], lambda name, value: faults(function, name, value))

    return Call(written, {function: read(function) for function in written})


def agree(one: Sequence[Gold], other: Sequence[Gold], rules: Rules) -> bool:
    """Return whether every answer that one record accepts is right for the other, and the other way round.

    Where a gold with options accepts more than a few hundred answers, the options themselves are compared.

    >>> (agree([Plain({"a": 1})], [Plain({"a": 1.0})], Rules("fold")),
    ... agree([Plain(1)], [Plain(1), Plain(2)], Rules("fold")))
    (True, False)
    """
    if _keys(one, rules) == _keys(other, rules):
        return True
    if any(sum(gold.n_accepted() for gold in golds) > _MOST_COMPARED for golds in (one, other)):
        return False
    return _within(one, other, rules) and _within(other, one, rules)


def _within(one: Sequence[Gold], other: Sequence[Gold], rules: Rules) -> bool:
    return all(
        any(there.score(answer, rules)[1] for there in other) for gold in one for answer in gold.every()
    )


def _keys(golds: Sequence[Gold], rules: Rules) -> frozenset[Hashable]:
    return frozenset(gold.key(rules) for gold in golds)


def contradictory(records: Sequence[Sequence[Gold]], rules: Rules) -> list[int]:
    """Return the places of those records, all of one question, that another one contradicts.

    With a tolerance sameness is not transitive: of 1.0, 1.1 and 1.2 within 0.1 the first and the last are
    told, the one between them is not. Golds with equal stand-ins are looked at once; of the others each is
    compared until one contradicts.
    """
    places: dict[Hashable, list[int]] = {}
    for place, golds in enumerate(records):
        places.setdefault(_keys(golds, rules), []).append(place)
    kinds = [records[found[0]] for found in places.values()]
    told = (not all(agree(one, other, rules) for other in kinds) for one in kinds)
    return sorted(
        place for found, wrong in zip(places.values(), told, strict=True) if wrong for place in found
    )


def most_right(records: Sequence[Sequence[Gold]], rules: Rules) -> int:
    """Return an upper bound on how many of some records, all of one question, one answer is right for.

    Records that one answer satisfies agree with each other, so they are all among those that agree with any
    one of them.

    >>> most_right([[Plain(1)], [Plain(1.0)], [Plain(2)]], Rules("fold"))
    2
    """
    counts = Counter(_keys(golds, rules) for golds in records)
    first = {_keys(golds, rules): golds for golds in reversed(records)}
    looked = [kind for kind, _ in counts.most_common(_MOST_KINDS)]
    agree = {kind: {kind} for kind in looked}
    for one, other in itertools.combinations(looked, 2):
        if _may_agree(first[one], first[other], rules):
            agree[one].add(other)
            agree[other].add(one)
    if len(counts) > _MOST_KINDS and any(len(each) > 1 for each in agree.values()):
        return len(records)
    return max((sum(counts[kind] for kind in each) for each in agree.values()), default=0)


def _may_agree(one: Sequence[Gold], other: Sequence[Gold], rules: Rules) -> bool:
    """Return whether an answer may be right for both; where too many are accepted to look at each, it may."""
    fewer, more = sorted((one, other), key=lambda golds: sum(gold.n_accepted() for gold in golds))
    if sum(gold.n_accepted() for gold in fewer) > _MOST_COMPARED:
        return True
    # An answer that lies between two numbers may be right for both, so they may be up to twice the tolerance
    # apart.
    share = min(rules.relative, 0.5)
    wide = replace(rules, absolute=2 * rules.absolute, relative=2 * share / (1 - share))
    return any(there.score(answer, wide)[1] for gold in fewer for answer in gold.every() for there in more)


def _paired(fits: Sequence[Sequence[bool]], n: int) -> dict[int, int]:
    """Return a largest pairing as {gold: answer}, by augmenting paths."""
    pairs: dict[int, int] = {}

    def find(start: int, seen: set[int]) -> bool:
        for gold in range(n):
            if fits[start][gold] and gold not in seen:
                seen.add(gold)
                if gold not in pairs or find(pairs[gold], seen):
                    pairs[gold] = start
                    return True
        return False

    for answer in range(len(fits)):
        find(answer, set())
    return pairs


def graded_gold(gold: Gold, graded: Collection[str] | None) -> Gold | None:
    """Return what of a gold counts, None where nothing does; all of it where no fields are named.

    >>> (graded_gold(Plain({"a": 1, "b": 2}), ["b"]), graded_gold(Plain({"a": 1}), ["b"]),
    ... graded_gold(Plain(3), ["b"]))
    (Plain(written={'b': 2}), None, Plain(written=3))
    """
    if graded is None:
        return gold
    if isinstance(gold, Call):
        return _graded_call(gold, graded)
    if isinstance(gold, Calls):
        written = [graded_part(each, graded, is_call=True) for each in gold.written]
        return Calls(written, tuple(_graded_call(call, graded) for call in gold.calls))
    part = graded_part(gold.written, graded, is_call=False)
    return None if isinstance(gold.written, dict) and not part else Plain(part)


def _graded_call(call: Call, graded: Collection[str]) -> Call:
    functions = {
        name: Options(
            {arg: values for arg, values in options.parts.items() if arg in graded},
            options.optional & set(graded),
        )
        for name, options in call.functions.items()
    }
    return Call(graded_part(call.written, graded, is_call=True), functions)


def graded_part(value: Any, graded: Collection[str] | None, *, is_call: bool) -> Any:
    """Return what of a value counts: its named fields, those of the objects in a list, or the named arguments
    of its calls.

    >>> (graded_part([{"a": 1, "b": 2}], ["a"], is_call=False),
    ... graded_part({"f": {"a": 1, "b": 2}}, ["a"], is_call=True))
    ([{'a': 1}], {'f': {'a': 1}})
    """
    if graded is None:
        return value
    if isinstance(value, list):
        return [graded_part(part, graded, is_call=is_call) for part in value]
    if not isinstance(value, dict):
        return value
    if not is_call:
        return _named(value, graded)
    if isinstance(value.get("name"), str) and isinstance(value.get("arguments"), dict):
        return value | {"arguments": _named(value["arguments"], graded)}
    return {
        name: _named(given, graded) if isinstance(given, dict) else given for name, given in value.items()
    }


def _named(value: Mapping[str, Any], graded: Collection[str]) -> dict[str, Any]:
    return {name: part for name, part in value.items() if name in graded}
