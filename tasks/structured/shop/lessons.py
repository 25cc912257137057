"""What teaches a from-scratch base to speak: answers of a player who confuses facts of one kind, and drills
in looking up."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from assay.core.storage.json import dumps
from assay.rollout.tasks.protocol import Message
from assay.rollout.tasks.schema import schema_from_functions

from .. import prompts
from ..reading.records import Request
from .orders import (
    AND,
    CALL,
    CLOSERS,
    CONFUSED,
    CURRENCY,
    EXTRACT,
    FAMILIES,
    FORMS,
    FUNCTIONS,
    KINDS,
    LIST,
    MARKERS,
    NEXT_NOTE,
    NEXT_SENTENCE,
    OPENERS,
    Form,
    Function,
    Job,
    draw_job,
)

# Weak on purpose: of two facts of one kind this player takes either, and of two functions either. What GRPO
# can add is to heed the little words. The other odds are slips of the pen.
SLIP_ODDS = 0.02
QUOTED_NUMBER_ODDS = 0.03
FORGOTTEN_FIELD_ODDS = 0.03
OPENER_ODDS = 0.3  # of a drill that asks for the opener
_ASK = " ? "
_ASKING = tuple(opener for function in FUNCTIONS for opener in function.openers)
# A field's name is one word wherever it stands, so that what is learned about it holds in every schema.
_KEY = re.compile(rf'("(?:{"|".join(KINDS)})":"?)')
_PLURAL, _ARTICLE = "s", " the "


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def schema_text(form: Form | Function, offered: Sequence[Function]) -> str:
    """Return a job's schema as the model is shown it: properties in the order of the file that holds them."""
    if isinstance(form, Form):
        return _compact(form.schema)
    # Records are written canonically, so what a function declares comes sorted.
    return _compact(schema_from_functions([json.loads(dumps(each.declaration)) for each in offered]))


def opening(job: Job) -> list[Message]:
    """Return the message that opens a job, as in play."""
    instruction = job.form.instruction if isinstance(job.form, Form) else CALL
    return prompts.opening(Request(instruction, job.context, schema_text(job.form, job.offered), 0))


def _guess(field: str, job: Job, rng: np.random.Generator) -> Any:
    stated = [job.facts[name] for name in (field, CONFUSED.get(field, "")) if name in job.facts]
    if not stated or rng.uniform() < SLIP_ODDS:
        stated = list(KINDS[field])
    value = stated[int(rng.integers(len(stated)))]
    return str(value) if isinstance(value, int) and rng.uniform() < QUOTED_NUMBER_ODDS else value


def weak_answer(job: Job, rng: np.random.Generator) -> str:
    """Return the answer of a player who writes well and confuses facts of one kind."""
    form = job.form if isinstance(job.form, Form) else job.offered[int(rng.integers(2))]
    wanted = form.fields() if isinstance(form, Form) else _arguments(form, job)
    if rng.uniform() < FORGOTTEN_FIELD_ODDS:
        wanted = wanted[:-1]
    values = {field: _guess(field, job, rng) for field in wanted}
    if isinstance(form, Form):
        # It does not know either when to say nothing.
        values |= dict.fromkeys((field for field in form.nullable if rng.uniform() < 0.5), None)
    if isinstance(form, Form):
        return _compact(form.fill(values))
    return _compact({"name": form.name, "arguments": values})


def _arguments(function: Function, job: Job) -> list[str]:
    return [field for field in function.arguments if field != "day" or "day" in job.facts]


def demonstrations(rng: np.random.Generator, n: int) -> list[list[Message]]:
    """Return dialogues of the weak player on jobs of the training families made on the fly."""
    families = list(FAMILIES["train"])
    return [_demonstration(draw_job(rng, families[int(rng.integers(len(families)))]), rng) for _ in range(n)]


def _demonstration(job: Job, rng: np.random.Generator) -> list[Message]:
    return [*opening(job), {"role": "assistant", "content": weak_answer(job, rng)}]


def drills(rng: np.random.Generator, n: int) -> list[list[Message]]:
    """Return questions for the word behind a marker, or for the words that open a text, with their answers;
    which field a marker stands for, and which function an opener asks for, is not taught."""
    return [_drill(rng) for _ in range(n)]


def _drill(rng: np.random.Generator) -> list[Message]:
    names = list(MARKERS)
    shown = [names[i] for i in rng.permutation(len(names))[: int(rng.integers(2, 7))]]
    facts = {name: KINDS[name][int(rng.integers(len(KINDS[name])))] for name in shown}
    asked = shown[int(rng.integers(len(shown)))]
    opener = _ASKING[int(rng.integers(len(_ASKING)))]
    text = opener + "".join(f"{MARKERS[name]}{facts[name]}" for name in shown)
    if rng.uniform() < OPENER_ODDS:
        question, answer = "", opener
    else:
        question, answer = MARKERS[asked], str(facts[asked])
    return [{"role": "user", "content": f"{text}{_ASK}{question}"}, {"role": "assistant", "content": answer}]


def vocabulary() -> list[str]:
    """Return every word of the jobs, their schemas and their answers; what never varies is one word."""
    words = {str(value) for kind in KINDS.values() for value in kind}
    words |= {
        *MARKERS.values(),
        *OPENERS,
        *CLOSERS,
        CURRENCY,
        _PLURAL,
        _ARTICLE,
        _ASK,
        " ",
        AND,
        NEXT_SENTENCE,
        NEXT_NOTE,
        prompts.CLOSING,
    }
    # A marker and its value are one word: to look up "what followed from" a model of two layers learns on
    # some seeds only.
    words |= {f"{marker}{value}" for name, marker in MARKERS.items() for value in KINDS[name]}
    words |= {opener for function in FUNCTIONS for opener in function.openers}
    words |= {f"{EXTRACT}\n", f"{LIST}\n", f"{CALL}\n", *'{}[]",:'}
    texts = [schema_text(form, ()) for form in FORMS] + [
        schema_text(pair[0], pair) for pair in permutations(FUNCTIONS, 2)
    ]
    for text in texts:
        words |= set(_pieces(text, _declarations(json.loads(text))))
    for form in FORMS:
        words |= _frame(form.fields(), form.fill)
    for function in FUNCTIONS:
        words |= _frame(
            function.arguments, lambda values, name=function.name: {"name": name, "arguments": values}
        )
    return sorted(words)


def _declarations(schema: Any) -> Iterator[str]:
    """Yield the declarations of single properties in a schema, as they stand in its text."""
    if isinstance(schema, Mapping):
        for name, declared in schema.get("properties", {}).items():
            if isinstance(declared, Mapping) and not {"properties", "items"} & set(declared):
                yield _compact({name: declared})[1:-1]
            else:
                yield from _declarations(declared)
        yield from _declarations(schema.get("items"))
        for key in ("anyOf", "oneOf"):
            for part in schema.get(key, ()):
                yield from _declarations(part)


def _pieces(text: str, marks: Iterable[str]) -> list[str]:
    """Return a text cut at these marks, which come in order, the marks included.

    >>> _pieces("a1b2c", ["1", "2"])
    ['a', '1', 'b', '2', 'c']
    """
    pieces = []
    for mark in marks:
        before, _, text = text.partition(mark)
        pieces += [before, mark]
    return [piece for piece in (*pieces, text) if piece]


def _frame(fields: Sequence[str], fill: Any) -> set[str]:
    """Return what stands around the values of an answer, also of one that quotes its numbers or forgets its
    last field."""
    found: set[str] = set()
    optional = [name for name in fields if name != "day"]
    for named in {tuple(fields), tuple(fields[:-1]), tuple(optional), tuple(optional[:-1])}:
        for quoted in (False, True):
            values = {name: 7 if isinstance(KINDS[name][0], int) and not quoted else "7" for name in named}
            for piece in _compact(fill(values)).split("7"):
                found |= set(_KEY.split(piece))
    return found - {""}
