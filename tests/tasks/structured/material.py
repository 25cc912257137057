"""What the tests of structured output share: settings, an invoice to extract, and random JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from assay.rollout.tasks.protocol import Verdict
from assay_tasks.structured import Structured
from assay_tasks.structured.settings import RewardWeights, StructuredTask

# A part that somebody adds weighs nothing here, so that what the others earn stays.
OWN = {"parsed_strict": 0.05, "parsed_extracted": 0.0, "schema_valid": 0.15, "fields": 0.3, "exact": 0.5}
WEIGHTS = RewardWeights(**(dict.fromkeys(RewardWeights.model_fields, 0.0) | OWN))
LINE = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["item", "count"],
    "additionalProperties": False,
}
INVOICE = {
    "type": "object",
    "properties": {
        "vendor": {"type": "string"},
        "number": {"type": "integer"},
        "total": {"type": "number"},
        "paid": {"type": "boolean"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
    },
    "required": ["vendor", "number", "total", "paid", "lines"],
    "additionalProperties": False,
    "$defs": {"line": LINE},
}
LAX = {"type": "object", "properties": {name: {} for name in INVOICE["properties"]}}
GOLD = {"vendor": "Acme", "number": 1, "total": 12.5, "paid": True, "lines": [{"item": "rug", "count": 2}]}
PARTLY_WRONG = GOLD | {"vendor": "Ajax", "total": 12.0}
CONTEXT = "Acme, invoice 1: two (2) rugs, 12.50 in all, paid."
FUNCTIONS = [
    {
        "name": "ship",
        "description": "Send something.",
        "parameters": {
            "type": "dict",
            "properties": {"item": {"type": "str"}, "count": {"type": "integer"}, "day": {"type": "string"}},
            "required": ["item"],
        },
    },
    {"name": "stop"},
]
CALL_GOLD = {"ship": {"item": ["desk", "desks"], "count": [2], "day": ["", "Monday"]}}

# Escapes of half a surrogate pair are no strict JSON, so they can be in neither a gold nor an answer.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False) | texts
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(texts, values, max_size=5)

_keywords = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", "dict", "any", ["string", "null"], "array", "integer", "number"]),
        "enum": st.lists(scalars, min_size=1, max_size=2),
        "const": scalars,
        "minimum": st.integers(-3, 3),
        "minItems": st.integers(0, 9),
        "required": st.lists(st.sampled_from("abc"), unique=True),
        "multipleOf": st.just(0.1),
        "$ref": st.sampled_from(["#", "#/properties/a", "#/$defs/a", "b.json", "#x"]),
        "$anchor": st.just("x"),
        "$id": st.sampled_from(["b.json", "https://e.org/", "c/"]),
        "pattern": st.sampled_from(["^a", "[[", "("]),
    },
)
schemas = st.recursive(
    _keywords,
    lambda inner: st.builds(
        dict.__or__,
        _keywords,
        st.fixed_dictionaries(
            {},
            optional={
                "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
                "$defs": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
                **dict.fromkeys(
                    ("items", "not", "if", "then", "additionalProperties", "propertyNames"), inner
                ),
                **dict.fromkeys(
                    ("anyOf", "oneOf", "allOf", "prefixItems"), st.lists(inner, min_size=1, max_size=2)
                ),
            },
        ),
    ),
    max_leaves=8,
)


def weights(**changes: float) -> RewardWeights:
    return RewardWeights(**(WEIGHTS.model_dump() | changes))


def settings(**changes: Any) -> StructuredTask:
    usual: dict[str, Any] = {
        "name": "structured",
        "lessons": None,
        "strata": [],
        "max_prompt_chars": 20_000,
        "max_prompt_tokens": 1000,
        "truncate_prompts": False,
        "grade": None,
        "weights": WEIGHTS,
        "extracted_share": 0.25,
        "blocklist": None,
        "reject_blocklisted": False,
        "max_new_tokens": {"compact": 24, "json": 160},
        "whitespace": "fold",
        "number_tolerance": {"absolute": 0.0, "relative": 0.0},
    }
    return StructuredTask(**(usual | changes))


def built(*, blocklist: Sequence[str] = (), **changes: Any) -> Structured:
    return Structured(settings(**changes), blocklist)


def row(**changes: Any) -> dict[str, Any]:
    usual = {
        "id": "one",
        "prompt": "Extract the invoice.",
        "context": CONTEXT,
        "schema": INVOICE,
        "gold": GOLD,
    }
    return {name: value for name, value in (usual | changes).items() if value is not None}


def call_row(**changes: Any) -> dict[str, Any]:
    return row(schema=None, functions=FUNCTIONS, context="Ship 2 desks.", gold=CALL_GOLD) | changes


def graded(
    completion: Any, record: dict[str, Any], task: Structured | None = None
) -> tuple[float, Verdict, dict[str, float]]:
    """Return reward, verdict and parts of a completion; an object is written as JSON first."""
    task = task or built()
    text = completion if isinstance(completion, str) else json.dumps(completion)
    step = task.step(task.start(task.item(record), 0)[1], text)
    return sum(step.parts.values()), task.judge(step.state), dict(step.parts)
