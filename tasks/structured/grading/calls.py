"""Golds of function calls, {function: {argument: [accepted values, "" = may be left out]}}, and answers
against them.

An accepted value may be nested: an object whose every value is a list that is not empty holds options for
each of its keys in the same way, {"city": ["Paris", "paris"], "country": ["FR", ""]}, and so do such objects
inside of lists. Where a list could as well be the value itself, the schema of the function's parameters
decides: options are tried first, and a list is taken for the value where its first option would break the
schema there. So `tags: ["a", "b"]` are two options for a text and one value for an array; where the schema
says nothing, they are options.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.rollout.tasks.equality import Rules, equal, field_score, key

LEFT_OUT = ""
Path = tuple[str | int, ...]
# Tells where in the value of an argument the schema is broken; empty where it is kept.
Faults = Callable[[str, Any], Sequence[Path]]


@dataclass(frozen=True, slots=True)
class Options:
    """An object that is accepted in several forms: the values of each part, and the parts that may be left
    out."""

    parts: Mapping[str, tuple[Any, ...]]
    optional: frozenset[str]


@dataclass(frozen=True, slots=True)
class Elements:
    """A list, some of whose elements are accepted in several forms."""

    parts: tuple[Any, ...]


def is_call_gold(gold: Any) -> bool:
    """Return whether a gold has the form of accepted calls: an object of objects of lists, not empty.

    >>> (is_call_gold({"f": {"x": [1, 2]}}), is_call_gold({"name": "f", "arguments": {"x": 1}}),
    ... is_call_gold({}))
    (True, False, False)
    """
    return (
        isinstance(gold, dict)
        and bool(gold)
        and all(isinstance(arguments, dict) for arguments in gold.values())
        and all(isinstance(accepted, list) for arguments in gold.values() for accepted in arguments.values())
    )


def options_of(arguments: Mapping[str, Sequence[Any]], faults: Faults = lambda name, value: ()) -> Options:
    """Return what is accepted for the arguments of a call.

    >>> options_of({"at": [{"city": ["Rome", "rome"]}]}).parts["at"]
    (Options(parts={'city': ('Rome', 'rome')}, optional=frozenset()),)

    Args:
        arguments: The accepted values of each.
        faults: Where a value breaks the schema of an argument.
    """
    parts = {
        name: tuple(_read(value, lambda found, name=name: faults(name, found)) for value in _values(accepted))  # type: ignore[misc]
        for name, accepted in arguments.items()
    }
    return Options(parts, frozenset(name for name, accepted in arguments.items() if LEFT_OUT in accepted))


def _values(accepted: Sequence[Any]) -> list[Any]:
    """Return the values that an argument may have; leaving it out is none of them."""
    return [value for value in accepted if value != LEFT_OUT]


def _read(value: Any, faults: Callable[[Any], Sequence[Path]]) -> Any:
    """Return an accepted value with its options, each list read as the schema wants it."""
    literal: set[Path] = set()
    places: list[Path] = []
    plain = reading = _reading(value, literal, (), places)
    while places and (wrong := faults(plainest(reading))):
        inside = (
            max((place for place in places if path[: len(place)] == place), key=len, default=None)
            for path in wrong
        )
        turned = {place for place in inside if place is not None}
        if not turned:
            return plain if faults(value) else value
        literal |= turned
        places = []
        reading = _reading(value, literal, (), places)
    return reading


def _reading(value: Any, literal: set[Path], path: Path, places: list[Path]) -> Any:
    """Return a value with its options; `places` gathers the lists that were taken for options and could be
    values."""
    if isinstance(value, list):
        elements = tuple(_reading(part, literal, (*path, index), places) for index, part in enumerate(value))
        return Elements(elements) if any(isinstance(part, Options | Elements) for part in elements) else value
    if (
        not isinstance(value, dict)
        or not value
        or not all(isinstance(part, list) and part for part in value.values())
    ):
        return value
    parts: dict[str, tuple[Any, ...]] = {}
    optional = set()
    for name, accepted in value.items():
        place = (*path, name)
        if place in literal:
            parts[name] = (_reading(accepted, literal, place, places),)
            continue
        places.append(place)
        parts[name] = tuple(_reading(part, literal, place, places) for part in _values(accepted))
        optional |= {name} if LEFT_OUT in accepted else set()
    return Options(parts, frozenset(optional))


def plainest(accepted: Any, *, full: bool = True) -> Any:
    """Return one accepted value, the first of all options; with or without what may be left out.

    >>> both = {"city": ["Rome", "rome"], "land": ["", "IT"]}
    >>> [plainest(options_of(both), full=full) for full in (True, False)]
    [{'city': 'Rome', 'land': 'IT'}, {'city': 'Rome'}]
    """
    if isinstance(accepted, Options):
        given = {
            name: values
            for name, values in accepted.parts.items()
            if values and (full or name not in accepted.optional)
        }
        return {name: plainest(values[0], full=full) for name, values in given.items()}
    if isinstance(accepted, Elements):
        return [plainest(part, full=full) for part in accepted.parts]
    return accepted


def every(accepted: Any) -> Iterator[Any]:
    """Yield every value that is accepted; there may be a great many."""
    if isinstance(accepted, Options):
        choices = [
            [(name, found) for value in values for found in every(value)]
            + [None] * (name in accepted.optional)
            for name, values in accepted.parts.items()
        ]
        yield from (
            dict(pair for pair in chosen if pair is not None) for chosen in itertools.product(*choices)
        )
    elif isinstance(accepted, Elements):
        yield from map(list, itertools.product(*(list(every(part)) for part in accepted.parts)))
    else:
        yield accepted


def n_accepted(accepted: Any) -> int:
    """Return how many values `every` yields, without making them."""
    if isinstance(accepted, Options):
        n = 1
        for name, values in accepted.parts.items():
            n *= sum(map(n_accepted, values)) + (name in accepted.optional)
        return n
    if isinstance(accepted, Elements):
        n = 1
        for part in accepted.parts:
            n *= n_accepted(part)
        return n
    return 1


def accepted_score(found: Any, accepted: Any, rules: Rules) -> tuple[float, bool]:
    """Return how much of what is accepted was found, in [0, 1], and whether it is accepted."""
    if isinstance(accepted, Options):
        return _options_score(found, accepted, rules)
    if isinstance(accepted, Elements):
        if not isinstance(found, list):
            return 0.0, False
        graded = [
            accepted_score(one, other, rules) for one, other in zip(found, accepted.parts, strict=False)
        ]
        score = 2.0 * sum(part for part, _ in graded) / (len(found) + len(accepted.parts))
        return score, len(found) == len(accepted.parts) and all(right for _, right in graded)
    return (1.0, True) if equal(found, accepted, rules) else (field_score(found, accepted, rules), False)


def _options_score(found: Any, accepted: Options, rules: Rules) -> tuple[float, bool]:
    if not isinstance(found, dict):
        return 0.0, False
    # What may be left out counts as asked for only where it was given.
    asked = [name for name in accepted.parts if name in found or name not in accepted.optional]
    if not found and not asked:
        return 1.0, True
    graded = [_best(found[name], accepted.parts[name], rules) for name in asked if name in found]
    score = 2.0 * sum(part for part, _ in graded) / (len(found) + len(asked))
    return score, len(graded) == len(found) == len(asked) and all(right for _, right in graded)


def _best(found: Any, values: Sequence[Any], rules: Rules) -> tuple[float, bool]:
    graded = [accepted_score(found, value, rules) for value in values]
    return max((score for score, _ in graded), default=0.0), any(right for _, right in graded)


def accepted_key(accepted: Any, rules: Rules) -> Hashable:
    """Return a hashable stand-in for what is accepted; that of a value without options is `equality.key`."""
    if isinstance(accepted, Elements):
        return ("list", tuple(accepted_key(part, rules) for part in accepted.parts))
    if not isinstance(accepted, Options):
        return key(accepted, rules)
    choices = {
        name: frozenset(accepted_key(value, rules) for value in values)
        for name, values in accepted.parts.items()
    }
    if not accepted.optional and all(len(values) == 1 for values in choices.values()):
        return ("object", frozenset((name, next(iter(values))) for name, values in choices.items()))
    # What may only be left out is asked for by nobody.
    asked = {name: values for name, values in choices.items() if values}
    return ("options", frozenset((name, values, name in accepted.optional) for name, values in asked.items()))


def calls_in(answer: Any) -> tuple[Mapping[str, Any], int]:
    """Return {function: arguments} of an answer in either form, and how many keys of it belong to no call.

    >>> calls_in({"name": "f", "arguments": {"x": 1}}), calls_in({"f": {"x": 1}})
    (({'f': {'x': 1}}, 0), ({'f': {'x': 1}}, 0))
    """
    if not isinstance(answer, dict):
        return {}, 0
    name, arguments = answer.get("name"), answer.get("arguments")
    if isinstance(name, str) and isinstance(arguments, dict):
        return {name: arguments}, len(answer) - 2
    return answer, 0


def call_score(answer: Any, functions: Mapping[str, Options], rules: Rules) -> tuple[float, bool]:
    """Return the F1 of an answer's calls, and whether they are all and exactly what is accepted.

    A function that is not asked for, or an argument that the gold does not list, costs like a missing one.

    >>> gold = {"ship": options_of({"item": ["desk", "desks"], "day": ["", "Monday"]})}
    >>> call_score({"name": "ship", "arguments": {"item": "desks"}}, gold, Rules("fold"))
    (1.0, True)
    >>> call_score({"ship": {"item": "desk", "day": "Friday"}}, gold, Rules("fold"))
    (0.5, False)
    """
    if not isinstance(answer, dict):
        return 0.0, False
    calls, strays = calls_in(answer)
    graded = [
        _options_score(calls[name], accepted, rules) for name, accepted in functions.items() if name in calls
    ]
    score = 2.0 * sum(part for part, _ in graded) / (len(calls) + strays + len(functions))
    exact = len(graded) == len(functions) == len(calls) and not strays and all(right for _, right in graded)
    return score, exact


def written_calls(functions: Mapping[str, Options]) -> Iterator[dict[str, Any]]:
    """Yield right answers to a gold, one for each form and for what may be left out, the plainest first."""
    for full in (True, False):
        calls = {name: plainest(accepted, full=full) for name, accepted in functions.items()}
        if len(calls) == 1:
            ((name, arguments),) = calls.items()
            yield {"name": name, "arguments": arguments}
        yield calls
