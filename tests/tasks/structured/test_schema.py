"""Schemas: read as Draft 2020-12, refused when they cannot be kept, closed to the network; types as people
spell them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from assay.core.errors import TaskError
from assay.core.seeds import rng
from assay.rollout.tasks import schema as bounded
from assay.rollout.tasks.schema import (
    Schema,
    compile_schema,
    schema_from_functions,
    schema_key,
    translate_types,
)
from assay_tasks.structured.reading import shapes
from tests.tasks.structured.material import FUNCTIONS, INVOICE, values

FORMATS = sorted(Draft202012Validator.FORMAT_CHECKER.checkers)


def compiled(schema: Any, resources: dict[str, Any] | None = None, uri: str | None = None) -> Schema:
    return compile_schema(schema_key(schema, resources or {}, uri))


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"type": "dict"}, "dict"),
        ({"properties": []}, "properties"),
        ({"pattern": "(("}, "regex"),
        ({"pattern": "a{99999999999999}"}, "regex"),
        ({"items": [{}]}, "items"),
        ({"minimum": "1"}, "minimum"),
        ({"additionalItems": False}, "additionalItems"),
        ({"properties": {"a": {"dependencies": {}}}}, "dependencies"),
        ({"$schema": 1}, "draft"),
        ({"$ref": "#/$defs/none"}, "none"),
        ({"$ref": "https://example.com/schema.json"}, "example.com"),
        ({"$ref": "file:///etc/passwd"}, "passwd"),
        ({"properties": {"a": {"$ref": "b.json"}}}, "b.json"),
        ({"$ref": "#/components/x", "components": {"x": 3}}, "no schema"),
        ({"$ref": "#/components/x", "components": {"x": {"type": "foo"}}}, "foo"),
        ({"$ref": "#/components/x/0", "components": {"x": "text"}}, "no schema"),
        ({"$ref": "#none"}, "none"),
        ({"$id": "http://[bad"}, "uri-reference"),
        ({"$ref": "#"}, "ring"),
        ({"anyOf": [{"type": "null"}, {"$ref": "#"}]}, "ring"),
        ({"not": {"$ref": "#"}}, "ring"),
        ({"if": {"type": "object"}, "then": {"$ref": "#"}}, "ring"),
        ({"$dynamicAnchor": "x", "$dynamicRef": "#x"}, "ring"),
        (
            {
                "$ref": "#/$defs/a",
                "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}},
            },
            "ring",
        ),
    ],
)
def test_a_schema_that_cannot_be_kept_is_refused_before_anything_is_graded(schema: Any, word: str) -> None:
    with pytest.raises(TaskError) as caught:
        compiled(schema)
    assert word in str(caught.value)


def test_references_lead_through_documents_ids_and_anchors() -> None:
    parts = {"$defs": {"k": {"type": "integer"}, "named": {"$anchor": "here", "type": "string"}}}
    root = {
        "properties": {"a": {"$ref": "b.json#/$defs/k"}, "c": {"$ref": "b.json#here"}, "self": {"$ref": "#"}}
    }
    for uri, resources in (
        ("s/a.json", {"s/a.json": root, "s/b.json": parts}),
        ("s/a.json", {"s/b.json": parts}),
    ):
        schema = compiled(root, resources, uri)
        assert schema.problem({"a": 1, "c": "x", "self": {"a": 2}}) is None
        assert schema.problem({"self": {"a": "x"}}) == "$.self.a: 'x' is not of type 'integer'"
    assert compiled(parts, {}, "b.json#/$defs/k").problem("x") is not None
    by_id = compiled({"$id": "https://e.org/a.json", "$ref": "b.json#here"}, {"https://e.org/b.json": parts})
    assert by_id.problem(1) is not None and by_id.problem("x") is None


def test_a_schema_may_contain_itself_and_json_schemas_own_may_be_referred_to() -> None:
    tree = compiled({"required": ["n"], "properties": {"n": {"type": "integer"}, "next": {"$ref": "#"}}})
    assert tree.problem({"n": 1, "next": {"n": 2}}) is None and tree.problem({"n": 1, "next": {}}) is not None
    meta = compiled({"$ref": "https://json-schema.org/draft/2020-12/schema"})
    assert meta.problem({"type": "string"}) is None and meta.problem({"type": "dict"}) is not None


def test_another_draft_is_named_in_vain() -> None:
    older = "http://json-schema.org/draft-04/schema#"
    schema = compiled(
        {"$schema": older, "properties": {"a": {"$schema": older, "exclusiveMinimum": 3, "const": 4}}}
    )
    assert schema.problem({"a": 4}) is None and schema.problem({"a": 5}) is not None


def test_problems_are_told_with_their_place_and_at_a_bearable_length() -> None:
    schema = compiled(INVOICE)
    assert "$.lines[0].count" in str(
        schema.problem(
            {"vendor": "", "number": 1, "total": 1, "paid": True, "lines": [{"item": "", "count": "2"}]}
        )
    )
    assert len(str(schema.problem({"x" * 100_000: 1}))) <= 200


@pytest.mark.parametrize(
    ("value", "right"), [("2024-02-29", True), ("2023-02-29", False), ("yesterday", False)]
)
def test_formats_are_checked(value: str, right: bool) -> None:
    assert (compiled({"format": "date"}).problem(value) is None) is right


@pytest.mark.parametrize(
    ("value", "iri", "reference"),
    [
        ("http://ex\u00e4mple.org/p\u00e4th?q=\u00fc#f", True, True),
        ("http://[::1]/\u00e9", True, True),
        ("http://[::1/", False, False),
        ("urn:x:\u00fc", True, True),
        ("//host/\u00e9?\ue000", False, True),
        ("/\ue000", False, False),
        ("a b", False, False),
        ("http://h/%zz", False, False),
        (7, True, True),
    ],
)
def test_iris_are_uris_of_any_letters(value: Any, iri: bool, reference: bool) -> None:
    found = [compiled({"format": name}).problem(value) is None for name in ("iri", "iri-reference")]
    assert found == [iri, reference]


@pytest.mark.parametrize(
    ("value", "right"),
    [(19.99, True), (0.3, True), (1e308, True), (10**400, True), (0.005, False), ("x", True)],
)
def test_multiples_are_taken_of_decimals(value: Any, right: bool) -> None:
    assert (compiled({"multipleOf": 0.01}).problem(value) is None) is right


@given(
    st.sampled_from(FORMATS),
    st.text(max_size=20) | st.from_regex(r"[-0-9:/.TZP%{}\[\]@#a]{0,12}", fullmatch=True),
)
def test_no_text_makes_a_format_raise(name: str, text: str) -> None:
    compiled({"format": name}).problem(text)


@given(values)
def test_equal_schemas_compile_once_and_any_value_can_be_checked(value: Any) -> None:
    assert compiled({"a": 1, "type": "object"}) is compiled({"type": "object", "a": 1})
    compiled(INVOICE).problem(value)
    compiled(
        {"uniqueItems": True, "multipleOf": 0.1, "minLength": 1, "propertyNames": {"pattern": "^a"}}
    ).problem(value)


def test_a_value_too_deep_for_the_stack_is_wrong_and_no_crash() -> None:
    value: Any = {}
    for _ in range(3000):
        value = {"next": value}
    assert "deep" in str(compiled({"properties": {"next": {"$ref": "#"}}}).problem(value))


@pytest.mark.parametrize(
    ("given_type", "meant", "count"),
    [
        ("dict", "object", 1),
        ("Dict", "object", 1),
        ("Object", "object", 1),
        ("float", "number", 1),
        ("double", "number", 1),
        ("int", "integer", 1),
        ("str", "string", 1),
        ("String", "string", 1),
        ("bool", "boolean", 1),
        ("list", "array", 1),
        ("tuple", "array", 1),
        ("None", "null", 1),
        ("any", None, 1),
        ("Any", None, 1),
        ("object", "object", 0),
        (["str", "None"], ["string", "null"], 1),
        (["string", "str"], ["string"], 1),
        (["int", "any"], None, 1),
        (["string", "null"], ["string", "null"], 0),
        ("shoe", "shoe", 0),
        (3, 3, 0),
        ([["str"]], [["str"]], 0),
    ],
)
def test_types_are_read_as_people_spell_them(given_type: Any, meant: Any, count: int) -> None:
    expected = {} if meant is None else {"type": meant}
    for outer in (
        lambda s: s,
        lambda s: {"properties": {"x": s}},
        lambda s: {"items": s},
        lambda s: {"anyOf": [s]},
    ):
        assert translate_types(outer({"type": given_type})) == (outer(expected), count)
    assert translate_types({"$defs": {"x": {"not": {"type": given_type}}}})[1] == count


def test_names_and_values_are_not_taken_for_types() -> None:
    schema = {
        "properties": {
            "type": {"enum": ["dict", {"type": "dict"}], "const": {"type": "float"}},
            "dict": True,
        },
        "required": ["dict"],
        "default": {"type": "any"},
        "examples": [{"type": "int"}],
    }
    assert translate_types(schema) == (schema, 0)


def test_functions_make_a_schema_of_their_calls() -> None:
    schema = compiled(schema_from_functions(FUNCTIONS))
    for answer in ({"name": "ship", "arguments": {"item": "desk"}}, {"name": "stop", "arguments": {}}):
        assert schema.problem(answer) is None
        assert schema.problem(answer | {"why": ""}) is not None
    for answer in (
        {"name": "ship", "arguments": {}},
        {"name": "fly", "arguments": {}},
        {"ship": {"item": "desk"}},
        {},
    ):
        assert schema.problem(answer) is not None
    wrapped = [{"type": "function", "function": function} for function in FUNCTIONS]
    assert schema_from_functions(wrapped) == schema_from_functions(FUNCTIONS)


def test_references_inside_parameters_stay_inside_them() -> None:
    parameters = {"properties": {"x": {"$ref": "#/$defs/X"}}, "$defs": {"X": {"type": "integer"}}}
    schema = compiled(
        schema_from_functions(
            [{"name": "f", "parameters": parameters}, {"name": "g", "parameters": parameters}]
        )
    )
    assert schema.problem({"name": "g", "arguments": {"x": 1}}) is None
    assert schema.problem({"name": "g", "arguments": {"x": "1"}}) is not None


@pytest.mark.parametrize(
    "functions",
    [
        None,
        [],
        {},
        "f",
        [1],
        [{}],
        [{"name": 1}],
        [{"name": ""}],
        [{"name": "f"}, {"name": "f"}],
        [{"name": "f", "parameters": 1}],
    ],
)
def test_broken_functions_are_refused(functions: Any) -> None:
    with pytest.raises(TaskError, match="functions"):
        schema_from_functions(functions)


@pytest.mark.parametrize(
    "schema",
    [
        INVOICE,
        {
            "$ref": "#/$defs/a",
            "$defs": {"a": {"type": "object", "properties": {"x": {"const": 3}}, "required": ["x"]}},
        },
        {
            "allOf": [
                {
                    "required": ["x"],
                    "properties": {"x": {"type": "array", "minItems": 2, "items": {"enum": ["k"]}}},
                }
            ]
        },
        {"oneOf": [{"properties": {"x": {"type": "null"}}, "required": ["x"]}], "type": "object"},
        {
            "properties": {
                "x": {"type": "integer", "minimum": 3},
                "y": {"exclusiveMinimum": 0},
                "z": {"maximum": -1},
            }
        },
        {"type": "object", "properties": {"next": {"$ref": "#"}}},
        {
            "type": "object",
            "properties": {"x": {"type": "array", "prefixItems": [{"$ref": "#/properties/x"}]}},
        },
        {"type": "array"},
        True,
    ],
)
def test_shapes_end_and_mostly_satisfy_their_schema(schema: Any) -> None:
    chance = rng("shape")
    random = shapes.Filler(lambda: "word", lambda: 7, lambda n: int(chance.integers(n)), 1, all_fields=True)
    for filler in (shapes.EMPTY, random, replace(random, all_fields=False)):
        found = shapes.shaped(compiled(schema), filler)
        assert isinstance(found, dict)
        assert schema == {"type": "array"} or compiled(schema).problem(found) is None


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
