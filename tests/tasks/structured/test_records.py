"""Rows: read or refused by name, prompts cut at graphemes, and what the audit is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from assay.core.config.settings import AuditSettings
from assay.core.errors import TaskError
from assay.core.seeds import rng
from assay_tasks.structured import Structured
from assay_tasks.structured.prompts import MARK, opening, opening_chars, shortened
from assay_tasks.structured.reading.golds import Plain
from assay_tasks.structured.reading.records import Request
from tests.tasks.structured.material import (
    CALL_GOLD,
    FUNCTIONS,
    GOLD,
    INVOICE,
    built,
    call_row,
    objects,
    row,
    texts,
    values,
)

TASK = built(strata=["difficulty", "family"])
NAMES = (
    "id",
    "prompt",
    "context",
    "schema",
    "schema_path",
    "schema_resources",
    "schema_uri",
    "gold",
    "functions",
    "family",
)
SCHEMA_WORDS = st.sampled_from(
    ["type", "properties", "$ref", "$id", "$schema", "$anchor", "items", "anyOf", "enum", "const", "pattern"]
)
LIKELY = st.sampled_from(
    ["x", "#", "object", "dict", "b.json", INVOICE, GOLD, CALL_GOLD, FUNCTIONS]
) | st.dictionaries(
    SCHEMA_WORDS, values | st.sampled_from(["#", "object", ["object"], {"type": "any"}]), max_size=3
)
ROWS = st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, values | LIKELY))
GRAPHEMES = [
    "a",
    "e\u0301",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1eb\U0001f1f7",
    "한",
    "\r\n",
    " ",
    "각",
]


def kinds(record: dict[str, Any], task: Structured = TASK) -> dict[str, str]:
    return {odd.kind: odd.detail for odd in task.examine(record)[1]}


def test_a_row_becomes_an_item_that_hides_what_is_right() -> None:
    item = TASK.item(row(difficulty="easy", family=3, unknown=[1]))
    assert item.id == "one" and item.strata == {"difficulty": "easy", "family": "3"}
    assert item.public.prompt == "Extract the invoice." and json.loads(item.public.schema_text) == INVOICE
    assert item.hidden.golds == (Plain(GOLD),) and "gold" not in repr(item.public)
    assert TASK.item(row(family=True, difficulty=[1])).strata == {"family": "true"}
    assert TASK.item(row(id=7)).id == "7"


def test_a_missing_id_is_a_digest_of_what_the_record_says() -> None:
    first, *others = [
        TASK.item(record).id
        for record in (
            row(id=None),
            row(id=None, gold=GOLD | {"total": 1}),
            row(id=None, prompt="Do."),
            row(id=None, note=1),
        )
    ]
    assert regex.fullmatch(r"r-[0-9a-f]{16}", first) and len({first, *others}) == 4
    moved = row(id=None, schema_resources={"b.json": {}}, schema_uri="b.json")
    elsewhere = row(id=None, schema_resources={"x/b.json": {}}, schema_uri="x/b.json")
    assert TASK.item(moved).id == TASK.item(elsewhere).id
    assert TASK.item(dict(reversed(row(id=None).items()))).id == first


@pytest.mark.parametrize(
    ("changes", "same_group"),
    [
        ({"prompt": " extract\u00a0THE\ninvoice. "}, True),
        ({"prompt": "\uff25xtract the invoice."}, True),
        ({"gold": {"vendor": "other"}}, True),
        ({"context": "Another."}, False),
        ({"prompt": "Extract the bill."}, False),
        ({"context": None}, False),
    ],
)
def test_a_cluster_is_one_prompt_however_it_is_typed(changes: dict[str, Any], same_group: bool) -> None:
    assert (TASK.item(row(**changes)).cluster == TASK.item(row()).cluster) is same_group
    assert regex.fullmatch(r"p-[0-9a-f]{16}", TASK.item(row()).cluster)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": " \n"}, "prompt"),
        ({"prompt": 3}, "prompt"),
        ({"context": ["a"]}, "context"),
        ({"schema": None}, "schema"),
        ({"schema": "a.json"}, "schema"),
        ({"schema": {"type": "shoe"}}, "shoe"),
        ({"schema_path": "a.json"}, "schema_path"),
        ({"schema": None, "schema_path": "a.json"}, "opens no file"),
        ({"schema": {"$ref": "b.json"}}, "b.json"),
        ({"gold": [1]}, "gold"),
        ({"gold": "x"}, "gold"),
        ({"id": ""}, "id"),
        ({"id": True}, "id"),
        ({"id": ["x"]}, "id"),
        ({"id": "x" * 300}, "id"),
        ({"schema_resources": [1]}, "schema_resources"),
        ({"schema_uri": 3}, "schema_uri"),
        ({"schema": None, "functions": []}, "functions"),
        ({"schema": None, "functions": [{"name": 3}]}, "functions"),
        ({"functions": FUNCTIONS, "gold": {"ship": {"item": []}}}, "accepted"),
        ({"prompt": "\ud800"}, "surrogate"),
        ({"note": float("nan")}, "JSON"),
        ({"note": {1, 2}}, "JSON"),
        ({"note": 10**400}, "double"),
        ({"note": b"x"}, "JSON"),
    ],
)
def test_a_broken_row_is_refused_with_its_id_and_field(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(TaskError) as caught:
        TASK.item(row(**changes))
    assert word in str(caught.value) and ("record" in caught.value.where)
    assert "id" in changes or "'one'" in caught.value.where


def test_a_row_too_deep_is_refused() -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(TaskError):
        TASK.item(row(note=deep))


@given(ROWS | objects)
def test_a_row_is_read_or_refused_and_nothing_else_is_raised(record: dict[str, Any]) -> None:
    try:
        item = TASK.item(record)
    except TaskError:
        return
    allowed = set(AuditSettings.model_fields)
    assert {odd.kind for odd in TASK.examine(record)[1]} <= allowed
    state = TASK.start(item, 0)[1]
    for player in TASK.baselines().values():
        TASK.step(state, player(item, state, rng("fuzz")))


def test_a_record_of_functions_is_shown_the_schema_of_their_calls() -> None:
    item = TASK.item(call_row())
    assert item.hidden.is_call and '"Send something."' in item.public.schema_text
    assert json.loads(item.public.schema_text)["anyOf"][0]["properties"]["arguments"]["type"] == "object"
    both = TASK.item(call_row(schema={"type": "object"})).public.schema_text
    assert both.startswith('{"type":"object"}\nFunctions: [{"description":"Send something.","name":"ship"')
    named = {"properties": {"name": {"enum": ["ship", "stop"]}}}
    assert "Functions" not in TASK.item(call_row(schema=named)).public.schema_text


def test_what_the_model_is_shown_does_not_depend_on_an_order_of_keys_that_the_fingerprint_does_not_see() -> (
    None
):
    one, other = (
        {"type": "object", "properties": {"b": {}, "a": {}}},
        {"properties": {"a": {}, "b": {}}, "type": "object"},
    )
    assert TASK.item(row(schema=one)).public == TASK.item(row(schema=other)).public


def test_further_documents_of_a_schema_are_shown_and_the_root_only_once() -> None:
    root, part = {"properties": {"a": {"$ref": "part.json"}}}, {"type": "str"}
    record = row(
        schema=root,
        schema_resources={"s/root.json": root, "s/part.json": part},
        schema_uri="s/root.json",
        gold={"a": "x"},
    )
    assert (
        TASK.item(record).public.schema_text
        == '{"properties":{"a":{"$ref":"part.json"}}}\ns/part.json: {"type":"string"}'
    )
    assert kinds(record | {"context": "x"}) == {
        "type_spelling": "1 types not spelt as JSON Schema spells them"
    }
    inner = record | {"schema_uri": "s/root.json#/properties/a", "gold": "x"}
    assert TASK.item(inner).public.schema_text.startswith(
        '{"$ref":"s/root.json#/properties/a"}\ns/part.json: '
    )


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (row(), set()),
        (row(gold=None), {"no_gold"}),
        (row(gold=GOLD | {"paid": "yes"}, context="Acme 1, 12.50, 2 rug, yes"), {"gold_breaks_schema"}),
        (row(gold=GOLD | {"vendor": "Ajax"}), {"unstated_value"}),
        (row(gold=GOLD | {"total": 12}), {"unstated_value"}),
        (row(gold=GOLD | {"vendor": "ACME,  invoice"}), set()),
        (row(prompt="x" * 20_001), {"long_prompt"}),
        (call_row(), {"type_spelling"}),
        (call_row(context="Ship a desk."), {"type_spelling", "unstated_value"}),
        (call_row(context="Ship the desks, 2 of them."), {"type_spelling"}),
        (
            call_row(gold={"ship": {"item": ["desk"], "count": ["2"]}}),
            {"type_spelling", "gold_breaks_schema"},
        ),
        (call_row(gold=CALL_GOLD | {"stop": {}}), {"type_spelling", "gold_breaks_schema"}),
        (call_row(schema={"required": ["ship", "stop"]}, gold=CALL_GOLD | {"stop": {}}), set()),
        (
            row(schema={"properties": {"a": {"enum": ["positive", "negative"]}}}, gold={"a": "positive"}),
            set(),
        ),
        (
            row(schema=True, gold={"a": [None, True, "", {"b": 1234.5}]}, context="in all 1,234.50 euro"),
            set(),
        ),
        (row(schema=True, gold={"a": 3.5, "b": -2}, context="3,5 and 2"), set()),
    ],
)
def test_what_is_odd_about_a_record_is_told_once_a_kind(record: dict[str, Any], expected: set[str]) -> None:
    assert set(kinds(record)) == expected
    assert len(TASK.examine(record)[1]) == len(expected) and set(kinds(record)) <= set(
        AuditSettings.model_fields
    )


def test_unstated_values_are_named_with_their_place() -> None:
    assert (
        kinds(row(gold=GOLD | {"vendor": "Ajax", "lines": [{"item": "mat", "count": 2}]}))["unstated_value"]
        == "gold.vendor: 'Ajax', and 1 more"
    )


def test_a_long_context_is_cut_where_the_settings_allow_it_and_instruction_and_schema_stay() -> None:
    long = row(context="Acme " + "x" * 5000 + " paid")
    whole = TASK.item(long).public
    assert whole.chars_cut == 0
    cutting = built(truncate_prompts=True, max_prompt_chars=2000)
    item = cutting.item(long)
    assert opening_chars(item.public) <= 2000 and item.public.chars_cut > 3000
    assert (item.public.prompt, item.public.schema_text) == (whole.prompt, whole.schema_text)
    assert (
        item.public.context.startswith("Acme x")
        and MARK in item.public.context
        and item.public.context.endswith("x paid")
    )
    assert "long_prompt" not in kinds(long, cutting)
    refusing = built(max_prompt_chars=2000)
    assert refusing.item(long).public.chars_cut == 0 and "long_prompt" in kinds(long, refusing)
    assert refusing.shortened(refusing.item(long), 10) is None
    for stuck in (row(context="x", prompt="y" * 3000), row(context=None, prompt="y" * 3000)):
        assert "long_prompt" in kinds(stuck, cutting) and cutting.item(stuck).public.chars_cut == 0


def test_an_item_is_shortened_again_around_the_same_mark() -> None:
    cutting = built(truncate_prompts=True)
    item = cutting.item(row(context="".join(f"w{n} " for n in range(500))))
    once = cutting.shortened(item, 300)
    assert once is not None
    twice = cutting.shortened(once, 200)
    assert twice is not None and twice.public.context.count(MARK) == 1
    assert opening_chars(twice.public) <= opening_chars(once.public) - 200 <= opening_chars(item.public) - 500
    head, tail = twice.public.context.split(MARK)
    whole = item.public.context
    assert whole.startswith(head) and whole.endswith(tail)
    assert twice.public.chars_cut == len(whole) - len(head) - len(tail)
    assert (twice.id, twice.cluster, twice.hidden) == (item.id, item.cluster, item.hidden)
    assert cutting.shortened(item, len(whole)) is None


@given(st.lists(st.sampled_from(GRAPHEMES), min_size=1, max_size=60).map("".join), st.integers(1, 80), texts)
def test_a_cut_falls_between_graphemes_and_is_long_enough(context: str, chars: int, prompt: str) -> None:
    request = Request(prompt, context, "{}", 0)
    cut = shortened(request, chars)
    if cut is None:
        assert len(context) - chars - len(MARK) < max(2, *(len(each) for each in GRAPHEMES))
        return
    assert len(opening(cut)[0]["content"]) <= len(opening(request)[0]["content"]) - chars
    head, _, tail = cut.context.partition(MARK) if cut.context else ("", "", "")
    graphemes = regex.findall(r"\X", context)
    starts = {len("".join(graphemes[:n])) for n in range(len(graphemes) + 1)}
    assert context.startswith(head) and context.endswith(tail)
    assert len(head) in starts and len(context) - len(tail) in starts
    assert cut.chars_cut == len(context) - len(head) - len(tail)


def test_invisible_characters_and_case_do_not_make_another_prompt_group() -> None:
    home = TASK.item(row(prompt="Who is Ana?")).cluster
    for prompt in ("Who is\u200b Ana?", "Who is A\u00adna?", "\ufeffWHO  IS ANA?", "Who is Ana\ufe0f?"):
        assert TASK.item(row(prompt=prompt)).cluster == home, ascii(prompt)
    assert TASK.item(row(prompt="Who is Eva?")).cluster != home
