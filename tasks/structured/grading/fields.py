"""The fields of golds and answers: which of them count, what an answer says in each, and which golds say the
same in all."""

from __future__ import annotations

import difflib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from assay.core.errors import ConfigError
from assay.core.storage.json import dumps
from assay.rollout.tasks.equality import Rules, equal
from assay.rollout.tasks.protocol import FieldAnswer, Item, Oddity

from ..reading.golds import Call, Calls, Gold, Plain, graded_part
from ..reading.oddities import right_answer
from ..reading.records import Reference
from .calls import Options, accepted_score, calls_in, plainest

MIN_RECORDS = 10  # fewer say the same by chance
MOSTLY = 0.5  # of the records: a gold field that is empty in more of them is told
ANSWER = "(answer)"  # the one field of an answer that is no object
FUNCTION = "(function)"  # stands for a field where calls are graded: which functions are called
_MISSING = object()
_SHOWN = 60


def is_empty(value: Any) -> bool:
    """Return whether a value says nothing; 0 and false say something.

    >>> [is_empty(value) for value in ("", " ", None, [], {}, 0, False, [0])]
    [True, True, True, True, True, False, False, False]
    """
    if isinstance(value, str):
        return value.strip() == ""
    return value is None or (isinstance(value, list | dict) and not value)


def written(value: Any) -> str:
    """Return a value as text that equal values share; "" for one that says nothing or is missing."""
    return "" if value is _MISSING or is_empty(value) else dumps(value)


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of an object by dotted name, those of objects in it in their place; a list is one
    field, and so is a value that is no object.

    >>> list(leaves({"a": 1, "b": {"c": [1, 2], "d": {}}})), list(leaves(3))
    ([('a', 1), ('b.c', [1, 2]), ('b.d', {})], [('(answer)', 3)])
    """
    if not isinstance(value, dict):
        yield ANSWER, value
        return
    for name, part in value.items():
        if isinstance(part, dict) and part:
            yield from leaves(part, f"{place}{name}.")
        else:
            yield f"{place}{name}", part


def field_answers(action: str, reference: Reference, rules: Rules) -> dict[str, FieldAnswer]:
    """Return what an answer says in each graded field of the nearest gold; an argument only where its
    function is called."""
    if not reference.has_gold:
        return {}
    answer = graded_part(json.loads(action), reference.graded, is_call=reference.is_call)
    gold = max(reference.counting, key=lambda each: each.score(answer, rules)[::-1])
    if isinstance(gold, Plain):
        given = dict(leaves(answer))
        found = {}
        for place, wanted in leaves(gold.written):
            said = given.get(place, _at(answer, place))
            found[place] = _compared(said, wanted, right=said is not _MISSING and equal(said, wanted, rules))
        return found
    answers = answer if isinstance(answer, list) else [answer]
    called = [calls_in(each)[0] for each in answers]
    told = dumps(sorted(name for calls in called for name in calls))
    wanted = dumps(sorted(name for call in _calls(gold) for name in call.functions))
    found = {FUNCTION: FieldAnswer(told if any(called) else "", wanted, told == wanted)}
    for call in _calls(gold):
        for name, options in call.functions.items():
            arguments = next((calls[name] for calls in called if name in calls), None)
            if isinstance(arguments, dict):
                for arg in options.parts:
                    found[f"{name}.{arg}"] = _argument(arguments.get(arg, _MISSING), arg, options, rules)
    return found


def _calls(gold: Call | Calls) -> tuple[Call, ...]:
    return gold.calls if isinstance(gold, Calls) else (gold,)


def _argument(said: Any, name: str, options: Options, rules: Rules) -> FieldAnswer:
    values = options.parts[name]
    right = (
        name in options.optional
        if said is _MISSING
        else any(accepted_score(said, value, rules)[1] for value in values)
    )
    return _compared(said, plainest(values[0]) if values else None, right=right)


def _compared(said: Any, wanted: Any, *, right: bool) -> FieldAnswer:
    found = written(said)
    return FieldAnswer(found, found if right else written(wanted), right)


def _at(value: Any, place: str) -> Any:
    """Return what stands at a dotted name, whatever it is."""
    for name in place.split("."):
        if not isinstance(value, dict) or name not in value:
            return _MISSING
        value = value[name]
    return value


def answer_text(action: str, reference: Reference) -> str:
    """Return the graded part of an answer as text, the two forms of one call alike."""
    return _as_text(json.loads(action), reference)


def right_text(reference: Reference) -> str | None:
    """Return the graded part of a right answer as text, None where nothing that counts is known to be
    right."""
    return _as_text(right_answer(reference), reference) if reference.has_gold else None


def _as_text(answer: Any, reference: Reference) -> str:
    part = graded_part(answer, reference.graded, is_call=reference.is_call)
    if not reference.is_call:
        return dumps(part)
    return dumps(
        [dict(calls_in(each)[0]) for each in part] if isinstance(part, list) else dict(calls_in(part)[0])
    )


def survey(items: Sequence[Item], graded: Sequence[str] | None) -> list[Oddity]:
    """Return which gold fields say the same, or nothing, in all or most records: whoever writes that is right
    in them.

    Args:
        items: All records of a dataset.
        graded: The fields that count; None: all.

    Raises:
        ConfigError: A field that is to be graded is in no gold.
    """
    references = [item.hidden for item in items if item.hidden.golds]
    if graded is not None and references:
        _require_known(graded, references)
    said: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for reference in references:
        # Of several accepted golds the first stands for what a record asks.
        for place, value in _gold_fields(reference.counting[0]) if reference.has_gold else ():
            said[place][value] += 1
    found = []
    for place, values in sorted(said.items()):
        n, (most, times) = values.total(), values.most_common(1)[0]
        if n < MIN_RECORDS:
            continue
        if values[""] > MOSTLY * n:
            which = f"all {n}" if values[""] == n else f"{values['']} of {n}"
            found.append(Oddity("empty_field", f"gold.{place}: says nothing in {which} records that have it"))
        elif times == n:
            shown = most.encode("ascii", "backslashreplace").decode()[:_SHOWN]
            found.append(Oddity("constant_field", f"gold.{place}: {shown} in all {n} records that have it"))
    return found


def _gold_fields(gold: Gold) -> Iterator[tuple[str, str]]:
    if isinstance(gold, Plain):
        yield from ((place, written(value)) for place, value in leaves(gold.written))
        return
    for call in _calls(gold):
        for function, options in call.functions.items():
            for name, accepted in options.parts.items():
                yield f"{function}.{name}", written([plainest(value) for value in accepted])


def _require_known(graded: Sequence[str], references: Sequence[Reference]) -> None:
    known: set[str] = set()
    for gold in (gold for reference in references for gold in reference.golds):
        if isinstance(gold, Plain):
            parts = gold.written if isinstance(gold.written, list) else [gold.written]
            known |= {name for part in parts if isinstance(part, dict) for name in part}
        else:
            known |= {
                name for call in _calls(gold) for options in call.functions.values() for name in options.parts
            }
    for name in graded:
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1)
            fix = (
                f"did you mean {near[0]!r}?"
                if near
                else f"fields of the golds: {', '.join(sorted(known)[:12])}"
            )
            raise ConfigError(
                "names of gold fields (for calls, of arguments)",
                found=f"{name!r}, which no gold has",
                where="task.grade in the preset of configs/task/",
                fix=f"{fix}   (null grades all of them)",
            )
