"""Scripted players: one that says nothing, one that guesses, and an oracle."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from assay.tasks.structured.reading.oddities import right_answer
from assay.tasks.structured.reading.records import State
from assay.tasks.structured.reading.shapes import EMPTY, Filler, shaped
from assay.tasks.structured.schema import compile_schema

Player = Callable[[State, np.random.Generator], str]

_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,6})?")


def written(value: Any) -> str:
    """Return the text of an answer: compact JSON on one line, keys in order.

    >>> written({"b": 1, "a": "é"})
    '{"b":1,"a":"é"}'
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def empty_fields(state: State, rng: np.random.Generator) -> str:
    """Fill the schema's shape with nothing."""
    return written(shaped(compile_schema(state.reference.schema), EMPTY, state.reference.wanted))


def guess(state: State, rng: np.random.Generator) -> str:
    """Fill the schema's shape with words and numbers of the prompt, taken at random."""
    filler = _filler(state, rng, all_fields=True)
    return written(shaped(compile_schema(state.reference.schema), filler, state.reference.wanted))


def _filler(state: State, rng: np.random.Generator, *, all_fields: bool) -> Filler:
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


def gold(state: State, rng: np.random.Generator) -> str:
    """Know the gold and write it; where there is none, fill the schema's shape."""
    if state.reference.has_gold:
        return written(right_answer(state.reference))
    schema, wanted = compile_schema(state.reference.schema), state.reference.wanted
    # What is not required may be hard to fill (a pattern), and leaving it out is as valid.
    tries = [
        shaped(schema, _filler(state, rng, all_fields=all_fields), wanted) for all_fields in (True, False)
    ]
    valid = [value for value in tries if schema.problem(value) is None]
    return written((valid or tries)[0])


PLAYERS: Mapping[str, Player] = {"empty_fields": empty_fields, "guess": guess, "gold": gold}
