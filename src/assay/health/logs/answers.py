"""What a completion answers, read without knowing the task: its last part, its fields, whether it hedges."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

MAX_PLACES = 32  # fields of one answer that are looked at
TAIL = 240  # characters in which a free text gives its answer
LONGEST = 10_000  # characters in which marked answers are looked for, from the end
_THOUGHT = re.compile(r"^.*</(?:think|thinking|reasoning|thought)>", re.S | re.I)
_FENCE = re.compile(r"```[a-z]*\n(.*?)```", re.S | re.I)
# Forms that are common where answers are read by machine, each with the answer as its group.
_FORMS = (
    re.compile(r"<answer>(.*?)</answer>", re.S | re.I),
    re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}"),
    re.compile(r"^#### *(.+)$", re.M),
    re.compile(r"(?:final answer|the answer|answer)\s*(?:is|:|=)\s*\**\s*([^\n.;]{1,80})", re.I),
)
_HEDGES = re.compile(
    r"\b(?:maybe|perhaps|possibly|probably|might be|may be|could be|could also be|either|or else|not sure|"
    r"unsure|uncertain|it depends|depends on|alternatively|one of|hard to (?:say|tell)|cannot be sure|"
    r"can't be sure|i (?:do not|don't) know|unable to|cannot determine|can't determine|as an ai)\b",
    re.I,
)
_ALTERNATIVES = re.compile(r"\b(?:or|and/or)\b|[/|]", re.I)


def strip_thought(text: str) -> str:
    """Return what follows the reasoning, where that is marked off.

    >>> strip_thought("<think>maybe 3?</think> 4")
    ' 4'
    """
    return _THOUGHT.sub("", text)


def read_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that a completion is or ends with, None where it has none."""
    said = strip_thought(text).strip()
    fenced = _FENCE.findall(said)
    for piece in (said, *reversed(fenced), said[max(0, said.find("{")) : said.rfind("}") + 1]):
        if piece.strip().startswith("{"):
            try:
                value = json.loads(piece)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict) and value:
                return value
    return None


def read_answers(text: str) -> list[str]:
    """Return the answers that a completion gives in the first of the usual forms it uses; none if in none.

    >>> read_answers("<answer>4</answer> or <answer>5</answer>"), read_answers("so it goes")
    (['4', '5'], [])
    """
    said = strip_thought(text)[-LONGEST:]
    for form in _FORMS:
        found = [" ".join(each.split()) for each in form.findall(said)]
        if found:
            return found
    return []


def read_fields(text: str) -> dict[str, str]:
    """Return what an answer says by field, "" for a field that says nothing; no field where it has none.

    >>> read_fields('{"city": "Ulm", "tags": [], "who": {"name": null}}')
    {'city': 'Ulm', 'tags': '', 'who.name': ''}
    """
    value = read_object(text)
    if value is None:
        answers = read_answers(text)
        return {"answer": answers[-1].casefold()} if answers else {}
    found: dict[str, str] = {}
    _walk(value, "", found)
    return found


def _walk(value: Mapping[str, Any], above: str, found: dict[str, str]) -> None:
    for name, each in value.items():
        place = f"{above}{name}"
        if isinstance(each, dict) and each:
            _walk(each, f"{place}.", found)
        elif len(found) < MAX_PLACES:
            empty = each is None or each in ("", [], {}) or (isinstance(each, str) and not each.strip())
            said = each.strip() if isinstance(each, str) else json.dumps(each, sort_keys=True)
            found[place] = "" if empty else said


def final_answer(text: str) -> str:
    """Return what counts of a completion as one text: its object, its last marked answer, else all of it."""
    value = read_object(text)
    if value is not None:
        return json.dumps(value, sort_keys=True)
    answers = read_answers(text)
    return (answers[-1] if answers else " ".join(strip_thought(text).split())).casefold()


def hedges(text: str) -> bool:
    """Return whether a completion gives several answers for one, or none that it stands by.

    Only the answer is looked at, since to weigh alternatives while reasoning is no fault: what is marked as
    the answer, or the last characters.

    >>> [hedges(said) for said in ("<answer>4 or 5</answer>", "Maybe 4? So it is 4.", "The answer is 4.")]
    [True, True, False]
    >>> hedges("<think>maybe 5, or 4</think><answer>4</answer>")
    False
    """
    answers = read_answers(text)
    if not answers:
        return _HEDGES.search(strip_thought(text)[-TAIL:]) is not None
    if len({answer.casefold() for answer in answers}) > 1:
        return True
    short = len(answers[-1]) <= 80
    return _HEDGES.search(answers[-1]) is not None or (
        short and _ALTERNATIVES.search(answers[-1]) is not None
    )


def count_entries(text: str) -> int:
    """Return how many entries the lists of an answer have together: answers may be stuffed with guesses."""
    value = read_object(text)
    return 0 if value is None else sum(len(each) for each in value.values() if isinstance(each, list))


def words_of(text: str) -> frozenset[tuple[str, ...]]:
    """Return the pairs of neighbouring words of a text, by which two texts are compared."""
    words = text.casefold().split()
    return frozenset(pairwise(words)) or frozenset((word,) for word in words)
