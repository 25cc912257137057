"""Golds of function calls, {function: {argument: [accepted values, "" = may be left out]}}, and answers against them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assay.tasks.structured.matching import field_score, same

LEFT_OUT = ""
Gold = Mapping[str, Mapping[str, list[Any]]]


def is_call_gold(gold: Any) -> bool:
    """Return whether a gold has the form of accepted calls: an object of objects of lists, not empty.

    >>> is_call_gold({"f": {"x": [1, 2]}}), is_call_gold({"name": "f", "arguments": {"x": 1}}), is_call_gold({})
    (True, False, False)
    """
    return (
        isinstance(gold, dict)
        and bool(gold)
        and all(isinstance(arguments, dict) for arguments in gold.values())
        and all(isinstance(accepted, list) for arguments in gold.values() for accepted in arguments.values())
    )


def calls_in(answer: Mapping[str, Any]) -> tuple[Mapping[str, Any], int]:
    """Return {function: arguments} of an answer in either form, and how many keys of it belong to no call.

    >>> calls_in({"name": "f", "arguments": {"x": 1}}), calls_in({"f": {"x": 1}})
    (({'f': {'x': 1}}, 0), ({'f': {'x': 1}}, 0))
    """
    name, arguments = answer.get("name"), answer.get("arguments")
    if isinstance(name, str) and isinstance(arguments, dict):
        return {name: arguments}, len(answer) - 2
    return answer, 0


def call_score(answer: Mapping[str, Any], gold: Gold) -> tuple[float, bool]:
    """Return the F1 of an answer's calls, and whether they are all and exactly what is accepted.

    A function that is not asked for, or an argument that the gold does not list, costs like a missing one.

    >>> gold = {"ship": {"item": ["desk", "desks"], "day": ["", "Monday"]}}
    >>> call_score({"name": "ship", "arguments": {"item": "desks"}}, gold)
    (1.0, True)
    >>> call_score({"ship": {"item": "desk", "day": "Friday"}}, gold)
    (0.5, False)
    """
    calls, strays = calls_in(answer)
    graded = [_arguments_score(calls[name], accepted) for name, accepted in gold.items() if name in calls]
    score = 2.0 * sum(part for part, _ in graded) / (len(calls) + strays + len(gold))
    exact = len(graded) == len(gold) == len(calls) and not strays and all(right for _, right in graded)
    return score, exact


def _arguments_score(found: Any, accepted: Mapping[str, list[Any]]) -> tuple[float, bool]:
    if not isinstance(found, dict):
        return 0.0, False
    # What may be left out counts as asked for only where it was given.
    asked = {name: values for name, values in accepted.items() if name in found or LEFT_OUT not in values}
    if not found and not asked:
        return 1.0, True
    given = {name: _values(values) for name, values in asked.items() if name in found}
    score = sum(max((field_score(found[name], value) for value in values), default=0.0) for name, values in given.items())
    right = [any(same(found[name], value) for value in values) for name, values in given.items()]
    return 2.0 * score / (len(found) + len(asked)), len(right) == len(found) == len(asked) and all(right)


def _values(accepted: list[Any]) -> list[Any]:
    """Return the values that an argument may have; leaving it out is none of them."""
    return [value for value in accepted if value != LEFT_OUT]


def written_calls(gold: Gold) -> Iterator[dict[str, Any]]:
    """Yield right answers to a gold, one for each form and for what may be left out, the plainest first."""
    full = {name: {arg: _values(values)[0] for arg, values in args.items() if _values(values)} for name, args in gold.items()}
    short = {name: {arg: full[name][arg] for arg in full[name] if LEFT_OUT not in gold[name][arg]} for name in gold}
    for calls in (full, short):
        if len(calls) == 1:
            ((name, arguments),) = calls.items()
            yield {"name": name, "arguments": arguments}
        yield calls
