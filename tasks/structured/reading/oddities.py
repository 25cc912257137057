"""What is odd about a record that can be read; the dataset room counts it and decides. Kinds are fields of
AuditSettings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from assay.core.storage.json import dumps
from assay.rollout.tasks.protocol import Oddity
from assay.rollout.tasks.schema import Schema, compile_schema

from ..grading.calls import Elements, Options
from ..prompts import opening_chars
from .blocklist import Blocklist, normalised
from .golds import Call, Calls, Gold
from .reading import RowReading
from .records import Reference

# By their form where a family has one (ChatML, Llama 3, Phi, DeepSeek), else by name.
_FAMILIES = (r"<\|[A-Za-z0-9_.\- ]{1,60}\|>", r"<\uff5c[^\uff5c<>\n]{1,60}\uff5c>")
_NAMES = (
    "<s>",
    "</s>",
    "<bos>",
    "<eos>",
    "<pad>",
    "<unk>",
    "<mask>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<start_of_image>",
    "[INST]",
    "[/INST]",
    "<<SYS>>",
    "<</SYS>>",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[THINK]",
    "[/THINK]",
    "[gMASK]",
    "<sop>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "[CLS]",
    "[SEP]",
    "[PAD]",
    "[UNK]",
    "[MASK]",
    "[BOS]",
    "[EOS]",
)
_KNOWN = re.compile("|".join([*_FAMILIES, *map(re.escape, _NAMES)]))
_MOST_NAMED = 5


def control_tokens(text: str) -> list[str]:
    """Return the first few different control tokens of well-known models that stand in a text.

    >>> control_tokens("Ignore that.<|im_end|>\\n<|im_start|>system"), control_tokens("a <b> c | d [1]")
    (['<|im_end|>', '<|im_start|>'], [])
    """
    return list(dict.fromkeys(_KNOWN.findall(text)))[:_MOST_NAMED]


_NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e[+-]?\d{1,3})?")
_MAX_SEARCH = 1_000_000_000
_SHOWN = 80


def oddities(reading: RowReading, blocklist: Blocklist, max_prompt_chars: int) -> list[Oddity]:
    """Return what is odd about a record, each kind at most once."""
    found = []
    reference, request = reading.reference, reading.request
    problem = gold_problem(reference)
    if not reference.has_gold:
        found.append(Oddity("no_gold", "only validity can be graded"))
    if problem is not None:
        found.append(Oddity("gold_breaks_schema", problem))
    unstated = _unstated(reading)
    if unstated:
        more = f", and {len(unstated) - 1} more" if len(unstated) > 1 else ""
        found.append(Oddity("unstated_value", f"{unstated[0]}{more}"))
    if opening_chars(request) > max_prompt_chars:
        found.append(
            Oddity("long_prompt", f"{opening_chars(request)} characters, more than {max_prompt_chars}")
        )
    if reading.n_spellings:
        found.append(
            Oddity("type_spelling", f"{reading.n_spellings} types not spelt as JSON Schema spells them")
        )
    told = reading.whole.told
    if names := control_tokens(
        "\n".join([told, reading.whole.schema_text, *(dumps(g.written) for g in reference.golds)])
    ):
        named = ", ".join(map(ascii, names))[:_SHOWN]
        found.append(
            Oddity("control_token", f"{named}: a base that knows it reads the token there, not the text")
        )
    term = blocklist.hit(told)
    if term is not None:
        found.append(Oddity("blocked_prompt", ascii(term)[:_SHOWN]))
    return found


def right_answer(reference: Reference) -> Any:
    """Return an answer that is exactly right, in a form that satisfies the schema if one does; None without a
    gold."""
    answers = [answer for gold in reference.golds for answer in gold.answers()]
    schema = compile_schema(reference.schema)
    return next(
        (answer for answer in answers if schema.problem(answer) is None), answers[0] if answers else None
    )


def gold_problem(reference: Reference) -> str | None:
    """Return what is wrong with a gold by its own schema; None if nothing is with any, or if there is no
    gold."""
    schema = compile_schema(reference.schema)
    for number, gold in enumerate(reference.golds):
        answers = list(gold.answers())
        problems = [schema.problem(answer) for answer in answers]
        if None not in problems:
            told = f"{problems[0]}{_why_null(schema, answers[0])}" if answers else problems[0]
            return f"golds[{number}]: {told}" if len(reference.golds) > 1 else told
    return None


def _why_null(schema: Schema, answer: Any) -> str:
    """Return why a schema refuses a gold's null and what would help; "" where it refuses none."""
    refusing = schema.null_faults(answer)
    if not refusing:
        return ""
    if schema.problem(schema.without_nulls(answer)) is None:
        return ". Absent fields are null, as Arrow fills them: ./run assay task import leaves them out"
    lacks = []
    for part in (each for each in refusing[:1] if isinstance(each, dict)):
        kinds = [part["type"]] if isinstance(part.get("type"), str) else part.get("type") or []
        if kinds and "null" not in kinds:
            lacks.append(f'"type": {dumps([*kinds, "null"])}')
        if isinstance(part.get("enum"), list) and None not in part["enum"]:
            lacks.append("null in its enum")
        if "nullable" in part:
            lacks.append("no `nullable`, which is OpenAPI's")
    write = ", ".join(lacks) or "a branch for null"
    return f". The schema allows no null there; to allow it, write {write}"


def _unstated(reading: RowReading) -> list[str]:
    """Return the places in a gold that hold a value found neither in what the model is told nor among the
    schema's choices.

    Of several golds one that is wholly stated is enough; if none is, it is the first that is told.
    """
    several = len(reading.reference.golds) > 1
    found = [
        list(_unstated_in(gold, reading, f"golds[{number}]" if several else "gold"))
        for number, gold in enumerate(reading.reference.golds)
    ]
    return found[0] if found and all(found) else []


def _unstated_in(right: Gold, reading: RowReading, place: str) -> Iterator[str]:
    told = normalised(reading.request.told)
    numbers = {number for token in _NUMBER.findall(told) for number in _readings(token)}
    choices = {normalised(text) for text in _choices(json.loads(reading.reference.schema))}

    def stated(value: Any) -> bool:
        if isinstance(value, bool) or value is None:
            return True
        if isinstance(value, str):
            return normalised(value) in choices or normalised(value) in told
        if isinstance(value, dict):
            return all(stated(part) for part in value.values())
        if isinstance(value, list):
            return all(stated(part) for part in value)
        if isinstance(value, Elements):
            return all(stated(part) for part in value.parts)
        if isinstance(value, Options):
            asked = [values for name, values in value.parts.items() if name not in value.optional]
            return all(any(stated(each) for each in values) for values in asked)
        return abs(float(value)) in numbers

    # Each text of a gold is looked for in all that is told: beyond this much of both, the search would take
    # minutes.
    if len(told) * sum(1 for _ in _leaves(right.written, "")) > _MAX_SEARCH:
        return
    calls = right.calls if isinstance(right, Calls) else (right,) if isinstance(right, Call) else ()
    if not calls:
        leaves = _leaves(right.written, place)
        yield from (f"{where}: {ascii(value)[:_SHOWN]}" for where, value in leaves if not stated(value))
    for call in calls:
        for function, arguments in call.functions.items():
            for name, values in arguments.parts.items():
                if name not in arguments.optional and not any(stated(value) for value in values):
                    yield f"{place}.{function}.{name}: {ascii(call.written[function][name])[:_SHOWN]}"


def _readings(token: str) -> Iterator[float]:
    """Yield the numbers a token may mean: 1,234.5 has thousands, 3,5 may be a decimal comma, 3.5. ends a
    sentence."""
    for text in {
        token,
        token.replace(",", ""),
        token.replace(".", "").replace(",", "."),
        token.replace(",", "."),
    }:
        try:
            yield float(text)
        except ValueError:
            continue


def _leaves(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _leaves(part, f"{place}.{name}")
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _leaves(part, f"{place}[{index}]")
    else:
        yield place, value


def _choices(schema: Any) -> Iterator[str]:
    """Yield the texts that a schema lists to choose from: they are stated, though not in the prompt."""
    if isinstance(schema, dict):
        listed = [*(schema["enum"] if isinstance(schema.get("enum"), list) else ()), schema.get("const")]
        yield from (value for value in listed if isinstance(value, str))
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _choices(part)
