"""Named cheats: texts that try to earn without the work. Each knows the right answer and must earn less than
honest work."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from assay.tasks.structured.players import gold, written
from assay.tasks.structured.reading.oddities import right_answer
from assay.tasks.structured.reading.records import State
from assay.tasks.structured.reading.shapes import EMPTY, shaped
from assay.tasks.structured.schema import compile_schema

Attack = Callable[[State, np.random.Generator], str]

N_BRACKETS = 100_000
N_SPRAYED = 200
# What a cheat writes where the answer gives it nothing to spell wrongly.
NOTHING = ""


def _answer(state: State) -> Any:
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


def _numbers_as(state: State, change: Callable[[Any], Any]) -> str:
    answer = _answer(state)
    spelt = _mapped(answer, lambda value: change(value) if _is_number(value) else value)
    return NOTHING if json.dumps(spelt) == json.dumps(answer) else json.dumps(spelt)


def empty_text(state: State, rng: np.random.Generator) -> str:
    """Say nothing."""
    return ""


def prose(state: State, rng: np.random.Generator) -> str:
    """Tell the answer in words."""
    return "The answer is " + ", ".join(re.findall(r"[\w.]+", gold(state, rng))) + "."


def prose_around(state: State, rng: np.random.Generator) -> str:
    """Wrap the right object in talk and a fence."""
    return f"Sure! Here is the object:\n```json\n{gold(state, rng)}\n```\nI hope this helps."


def list_around(state: State, rng: np.random.Generator) -> str:
    """Put the right object in a list."""
    return f"[{gold(state, rng)}]"


def null(state: State, rng: np.random.Generator) -> str:
    """Answer null."""
    return NOTHING if gold(state, rng) == "null" else "null"


def open_brackets(state: State, rng: np.random.Generator) -> str:
    """Open a hundred thousand lists."""
    return "[" * N_BRACKETS


def copied_schema(state: State, rng: np.random.Generator) -> str:
    """Give the schema back."""
    return state.request.schema_text


def empty_strings(state: State, rng: np.random.Generator) -> str:
    """Name every field and say nothing in any."""
    empty = shaped(compile_schema(state.reference.schema), EMPTY, state.reference.wanted)
    text = written(_mapped(empty, lambda value: ""))
    # Where the right answer is an empty text, this is no cheat.
    return text if isinstance(empty, dict) or text != gold(state, rng) else NOTHING


def sprayed_keys(state: State, rng: np.random.Generator) -> str:
    """Bury the right object under hundreds of further keys."""
    answer, sprayed = _answer(state), {f"key_{n}": n for n in range(N_SPRAYED)}
    if isinstance(answer, list):
        return written([*sprayed.values(), *answer])
    return written(sprayed | (answer if isinstance(answer, dict) else {"answer": answer}))


def duplicate_keys(state: State, rng: np.random.Generator) -> str:
    """Write every key twice, empty and right, and let the reader choose."""
    answer = _answer(state)
    if not isinstance(answer, dict):
        return NOTHING
    pairs = [f"{written(key)}:{text}" for key, value in answer.items() for text in ('""', written(value))]
    return "{" + ",".join(pairs) + "}" if pairs else NOTHING


def quoted_numbers(state: State, rng: np.random.Generator) -> str:
    """Write numbers as texts."""
    return _numbers_as(state, str)


def true_for_one(state: State, rng: np.random.Generator) -> str:
    """Write true or false for numbers."""
    return _numbers_as(state, bool)


def nan(state: State, rng: np.random.Generator) -> str:
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
