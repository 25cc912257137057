"""Schemas and answers of strangers cannot ask for more work than there is time for."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from assay.tasks.structured import schema as bounded
from assay.tasks.structured.schema import compile_schema, schema_key

DOUBLING = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(30)} | {
    "a30": {"type": "object"}
}
DOUBTING = {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(30)} | {
    "a30": {"type": "array"}
}


def problem(schema: Any, value: Any) -> str | None:
    return compile_schema(schema_key(schema, {}, None)).problem(value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"a": {"pattern": "^(a|a)*$"}}}, {"a": "a" * 60 + "!"}),
        ({"patternProperties": {"(a|a)*$": {}}}, {"a" * 60 + "!": 1}),
        ({"$ref": "#/$defs/a0", "$defs": DOUBLING}, {}),
        ({"$ref": "#/$defs/a0", "$defs": DOUBTING}, {}),
    ],
    ids=["pattern", "patternProperties", "allOf", "anyOf"],
)
def test_a_check_that_would_take_years_is_given_up(
    schema: Any, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "PATTERN_SECONDS", 0.1)
    began = time.monotonic()
    assert "given up" in str(problem(schema, value))
    assert time.monotonic() - began < 20


def test_many_mixed_elements_are_compared_in_linear_work() -> None:
    values: list[Any] = [{"a": i} if i % 2 else i for i in range(20_000)]
    began = time.monotonic()
    assert problem({"properties": {"x": {"uniqueItems": True}}}, {"x": values}) is None
    assert "equal" in str(problem({"properties": {"x": {"uniqueItems": True}}}, {"x": [*values, {"a": 1.0}]}))
    assert time.monotonic() - began < 10


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-2, 2) | st.text("ab", max_size=2),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text("ab", max_size=2), part, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(JSON, max_size=5),
    st.sampled_from(["a", "^a", "b$", "^(a|b)*$", "[^a]"]),
    st.text("ab\n", max_size=4),
)
def test_the_bounded_validator_says_what_the_library_says(values: list[Any], pattern: str, text: str) -> None:
    for schema, value in (
        ({"uniqueItems": True}, values),
        ({"pattern": pattern}, text),
        ({"patternProperties": {pattern: {"type": "integer"}}}, {text: values}),
    ):
        assert bounded.BoundedValidator(schema).is_valid(value) == Draft202012Validator(schema).is_valid(
            value
        )
