"""Scripted players: who says nothing, copies or guesses, and an oracle; and cheats, who must earn less."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from assay.rollout.tasks.schema import compile_schema

from .reading.oddities import right_answer
from .reading.records import StructuredState
from .reading.shapes import EMPTY, Filler, in_order, shaped

Player = Callable[[StructuredState, np.random.Generator], str]

_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,6})?")


def written(value: Any) -> str:
    """Return the text of an answer: compact JSON on one line, keys in order.

    >>> written({"b": 1, "a": "é"})
    '{"b":1,"a":"é"}'
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def empty_fields(state: StructuredState, rng: np.random.Generator) -> str:
    """Fill the schema's shape with nothing."""
    return written(shaped(compile_schema(state.reference.schema), EMPTY, state.reference.wanted))


def guess(state: StructuredState, rng: np.random.Generator) -> str:
    """Fill the schema's shape with words and numbers of the prompt, taken at random."""
    filler = _filler(state, rng, all_fields=True)
    return written(shaped(compile_schema(state.reference.schema), filler, state.reference.wanted))


def _filler(state: StructuredState, rng: np.random.Generator, *, all_fields: bool) -> Filler:
    told = state.request.told
    words = _WORD.findall(told) or [""]
    numbers = [float(text) for text in _NUMBER.findall(told)] or [0.0]
    return Filler(
        text=lambda: words[int(rng.integers(len(words)))],
        number=lambda: _plain(numbers[int(rng.integers(len(numbers)))]),
        pick=lambda n: int(rng.integers(n)),
        items=1,
        all_fields=all_fields,
    )


def _plain(number: float) -> float:
    return int(number) if number.is_integer() else number


def gold(state: StructuredState, rng: np.random.Generator) -> str:
    """Know the gold and write it in the order of the schema; where there is none, fill the schema's shape."""
    if state.reference.has_gold:
        root, _ = json.JSONDecoder().raw_decode(state.request.schema_text)
        return written(in_order(right_answer(state.reference), root))
    schema, wanted = compile_schema(state.reference.schema), state.reference.wanted
    # What is not required may be hard to fill (a pattern), and leaving it out is as valid.
    tries = [
        shaped(schema, _filler(state, rng, all_fields=all_fields), wanted) for all_fields in (True, False)
    ]
    valid = [value for value in tries if schema.problem(value) is None]
    return written((valid or tries)[0])


def copied_schema(state: StructuredState, rng: np.random.Generator) -> str:
    """Give the schema back."""
    return state.request.schema_text


def copied_prompt(state: StructuredState, rng: np.random.Generator) -> str:
    """Give back what was told beside the schema."""
    return state.request.told


PLAYERS: Mapping[str, Player] = {
    "empty_fields": empty_fields,
    "copied_schema": copied_schema,
    "copied_prompt": copied_prompt,
    "guess": guess,
    "gold": gold,
}


Attack = Callable[[StructuredState, np.random.Generator], str]

N_BRACKETS = 100_000
N_SPRAYED = 200
# What a cheat writes where the answer gives it nothing to spell wrongly.
NOTHING = ""


def _answer(state: StructuredState) -> Any:
    return right_answer(state.reference) or shaped(
        compile_schema(state.reference.schema), EMPTY, state.reference.wanted
    )


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of a JSON value with each of its scalars changed."""
    if isinstance(value, dict):
        return {key: _mapped(part, change) for key, part in value.items()}
    if isinstance(value, list):
        return [_mapped(part, change) for part in value]
    return change(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers_as(state: StructuredState, change: Callable[[Any], Any]) -> str:
    answer = _answer(state)
    spelt = _mapped(answer, lambda value: change(value) if _is_number(value) else value)
    return NOTHING if json.dumps(spelt) == json.dumps(answer) else json.dumps(spelt)


def empty_text(state: StructuredState, rng: np.random.Generator) -> str:
    """Say nothing."""
    return ""


def prose(state: StructuredState, rng: np.random.Generator) -> str:
    """Tell the answer in words."""
    return "The answer is " + ", ".join(re.findall(r"[\w.]+", gold(state, rng))) + "."


def prose_around(state: StructuredState, rng: np.random.Generator) -> str:
    """Wrap the right object in talk and a fence."""
    return f"Sure! Here is the object:\n```json\n{gold(state, rng)}\n```\nI hope this helps."


def list_around(state: StructuredState, rng: np.random.Generator) -> str:
    """Put the right object in a list."""
    return f"[{gold(state, rng)}]"


def null(state: StructuredState, rng: np.random.Generator) -> str:
    """Answer null."""
    return NOTHING if gold(state, rng) == "null" else "null"


def open_brackets(state: StructuredState, rng: np.random.Generator) -> str:
    """Open a hundred thousand lists."""
    return "[" * N_BRACKETS


def empty_strings(state: StructuredState, rng: np.random.Generator) -> str:
    """Name every field and say nothing in any."""
    empty = shaped(compile_schema(state.reference.schema), EMPTY, state.reference.wanted)
    text = written(_mapped(empty, lambda value: ""))
    # Where the right answer is an empty text, this is no cheat.
    return text if isinstance(empty, dict) or text != gold(state, rng) else NOTHING


def sprayed_keys(state: StructuredState, rng: np.random.Generator) -> str:
    """Bury the right object under hundreds of further keys."""
    answer, sprayed = _answer(state), {f"key_{n}": n for n in range(N_SPRAYED)}
    if isinstance(answer, list):
        return written([*sprayed.values(), *answer])
    return written(sprayed | (answer if isinstance(answer, dict) else {"answer": answer}))


def duplicate_keys(state: StructuredState, rng: np.random.Generator) -> str:
    """Write every key twice, empty and right, and let the reader choose."""
    answer = _answer(state)
    if not isinstance(answer, dict):
        return NOTHING
    pairs = [f"{written(key)}:{text}" for key, value in answer.items() for text in ('""', written(value))]
    return "{" + ",".join(pairs) + "}" if pairs else NOTHING


def quoted_numbers(state: StructuredState, rng: np.random.Generator) -> str:
    """Write numbers as texts."""
    return _numbers_as(state, str)


def true_for_one(state: StructuredState, rng: np.random.Generator) -> str:
    """Write true or false for numbers."""
    return _numbers_as(state, bool)


def nan(state: StructuredState, rng: np.random.Generator) -> str:
    """Write NaN for numbers."""
    return _numbers_as(state, lambda value: float("nan"))


ATTACKS: Mapping[str, Attack] = {
    attack.__name__: attack
    for attack in (
        empty_text,
        prose,
        prose_around,
        list_around,
        null,
        open_brackets,
        copied_schema,
        empty_strings,
        sprayed_keys,
        duplicate_keys,
        quoted_numbers,
        true_for_one,
        nan,
    )
}
