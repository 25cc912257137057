"""Which fields of a gold count, what an answer says in each, and golds that say the same, or nothing, in all
records."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assay.core.errors import ConfigError
from assay.core.storage.json import dumps
from assay.rollout.tasks.protocol import FieldAnswer, answer_key
from assay_tasks.structured.grading.fields import FUNCTION, MIN_RECORDS
from tests.tasks.structured.material import built

GOLD = {"kind": "desk", "who": {"name": "Ana", "city": ""}, "tags": ["a"]}
FUNCTIONS = [{"name": "ship", "parameters": {"type": "dict", "properties": {"item": {"type": "string"}}}}]


def item(gold: Any, *, grade: list[str] | None = None, number: int = 0, **more: Any) -> Any:
    more = more or {"schema": {}}
    return built(grade=grade).item({"id": f"r{number}", "prompt": f"Say it, {number}.", "gold": gold} | more)


def graded(gold: Any, answer: Any, *, grade: list[str] | None, **more: Any) -> tuple[bool, float | None]:
    task = built(grade=grade)
    _, state = task.start(item(gold, grade=grade, **more), 0)
    verdict = task.judge(task.step(state, json.dumps(answer)).state)
    return verdict.success, verdict.metrics["field_f1"]


@pytest.mark.parametrize(
    ("answer", "grade", "expected"),
    [
        ({"a": 1, "b": 2}, None, (True, 1.0)),
        ({"a": 1, "b": 9}, None, (False, 0.5)),
        ({"a": 1, "b": 9}, ["a"], (True, 1.0)),
        ({"a": 1}, ["a"], (True, 1.0)),
        ({"a": 1, "c": 3}, ["a"], (True, 1.0)),
        ({"a": 9, "b": 2}, ["a"], (False, 0.0)),
        ({"b": 2}, ["a"], (False, 0.0)),
        ({"a": 1, "b": 9}, ["a", "b"], (False, 0.5)),
    ],
)
def test_only_the_graded_fields_count(
    answer: Any, grade: list[str] | None, expected: tuple[bool, float]
) -> None:
    assert graded({"a": 1, "b": 2}, answer, grade=grade) == expected


def test_what_is_not_graded_must_still_satisfy_the_schema() -> None:
    schema = {"type": "object", "required": ["a", "b"], "properties": {"b": {"type": "integer"}}}
    assert graded({"a": 1, "b": 2}, {"a": 1, "b": 5}, grade=["a"], schema=schema)[0]
    assert not graded({"a": 1, "b": 2}, {"a": 1, "b": "x"}, grade=["a"], schema=schema)[0]
    assert not graded({"a": 1, "b": 2}, {"a": 1}, grade=["a"], schema=schema)[0]


def test_a_gold_without_any_graded_field_is_no_gold_and_pays_for_validity_alone() -> None:
    assert graded({"b": 2}, {"b": 7}, grade=["a"]) == (True, None)
    assert not item({"b": 2}, grade=["a"]).hidden.has_gold


@pytest.mark.parametrize("form", ["name and arguments", "function to arguments"])
def test_of_calls_the_graded_arguments_count_and_the_function_always_does(form: str) -> None:
    gold = {"ship": {"item": ["desk"], "day": ["Mon"]}}

    def call(name: str, **arguments: str) -> Any:
        return {"name": name, "arguments": arguments} if form == "name and arguments" else {name: arguments}

    functions = [
        {"name": name, "parameters": {"type": "dict", "properties": {}}} for name in ("ship", "hold")
    ]
    right = call("ship", item="desk", day="Tue")
    assert graded(gold, right, grade=["item"], functions=functions)[1] == 1.0
    assert graded(gold, right, grade=["day"], functions=functions)[1] == 0.0
    assert graded(gold, call("hold", item="desk"), grade=["item"], functions=functions)[1] == 0.0


def test_the_oracle_is_right_whatever_is_graded() -> None:
    for grade in (None, ["kind"], ["who", "tags"]):
        task = built(grade=grade)
        one = item(GOLD, grade=grade)
        _, state = task.start(one, 0)
        assert task.judge(task.step(state, task.baselines()["gold"](one, state, None)).state).success  # type: ignore[arg-type]


def test_a_graded_field_that_no_gold_has_is_refused_with_the_nearest_one() -> None:
    task, items = built(grade=["kinds"]), [item({"kind": "desk"}, number=k) for k in range(3)]
    with pytest.raises(ConfigError, match="did you mean 'kind'") as caught:
        task.survey(items)
    assert "task.grade" in caught.value.where and "'kinds'" in caught.value.found
    assert built(grade=["kind"]).survey(items) == []


# Fields of an answer


def said(gold: Any, answer: Any, **more: Any) -> dict[str, FieldAnswer]:
    key = answer_key(built())
    assert key is not None
    return dict(key.fields(item(gold, **more), dumps(answer)))


def test_fields_are_leaves_by_dotted_name_and_a_list_is_one() -> None:
    found = said(GOLD, {"kind": "lamp", "who": {"name": "Ana"}, "tags": []})
    assert found == {
        "kind": FieldAnswer('"lamp"', '"desk"', False),
        "who.name": FieldAnswer('"Ana"', '"Ana"', True),
        "who.city": FieldAnswer("", "", False),
        "tags": FieldAnswer("", '["a"]', False),
    }


@pytest.mark.parametrize("nothing", ["", "  ", None, [], {}])
def test_what_says_nothing_is_empty_and_0_and_false_say_something(nothing: Any) -> None:
    assert said({"a": 1}, {"a": nothing})["a"].found == "" == said({"a": nothing}, {"a": 1})["a"].gold
    assert said({"a": 1}, {"a": 0})["a"].found == "0" and said({"a": 1}, {"a": False})["a"].found == "false"


def test_another_spelling_of_what_is_right_is_no_other_value() -> None:
    assert said({"a": "x  y"}, {"a": "x y"})["a"] == FieldAnswer('"x y"', '"x y"', True)


def test_an_argument_is_a_field_where_its_function_is_called() -> None:
    gold = {"ship": {"item": ["desk", "desks"], "day": ["", "Mon"]}}
    found = said(gold, {"name": "ship", "arguments": {"item": "desks"}}, functions=FUNCTIONS)
    assert found == {
        FUNCTION: FieldAnswer('["ship"]', '["ship"]', True),
        "ship.item": FieldAnswer('"desks"', '"desks"', True),
        "ship.day": FieldAnswer("", "", True),
    }
    assert said(gold, {"name": "hold", "arguments": {}}, functions=FUNCTIONS) == {
        FUNCTION: FieldAnswer('["hold"]', '["ship"]', False)
    }


def test_two_forms_of_one_call_are_one_answer_and_the_right_one_is_known() -> None:
    task, one = built(), item({"ship": {"item": ["desk"]}}, functions=FUNCTIONS)
    forms = ({"name": "ship", "arguments": {"item": "desk"}}, {"ship": {"item": "desk"}})
    assert {task.answer(one, dumps(form)) for form in forms} == {task.right_answer(one)}
    assert task.right_answer(item(None)) is None


# Golds that say the same in all records


@pytest.mark.parametrize(
    ("golds", "kind", "detail"),
    [
        (
            [{"a": k, "b": "x"} for k in range(MIN_RECORDS)],
            "constant_field",
            'gold.b: "x" in all 10 records that have it',
        ),
        (
            [{"a": k, "b": {"c": True}} for k in range(12)],
            "constant_field",
            "gold.b.c: true in all 12 records that have it",
        ),
        (
            [{"a": k, "b": ""} for k in range(12)],
            "empty_field",
            "gold.b: says nothing in all 12 records that have it",
        ),
        (
            [{"a": k, "b": [[], None, {}, " "][k % 4]} for k in range(12)],
            "empty_field",
            "gold.b: says nothing in all 12",
        ),
        (
            [{"a": k, "b": "" if k < 7 else k} for k in range(12)],
            "empty_field",
            "gold.b: says nothing in 7 of 12",
        ),
        ([{"a": k, "b": "" if k < 6 else k} for k in range(12)], None, ""),
        ([{"a": k, "b": "x"} for k in range(MIN_RECORDS - 1)], None, ""),
        ([{"a": k, "b": "x" if k else "y"} for k in range(12)], None, ""),
    ],
)
def test_a_gold_field_that_is_constant_or_empty_is_odd(
    golds: list[Any], kind: str | None, detail: str
) -> None:
    found = built().survey([item(gold, number=k) for k, gold in enumerate(golds)])
    assert [odd.kind for odd in found] == ([kind] if kind else [])
    assert all(odd.detail.startswith(detail) for odd in found)


def test_a_constant_field_that_is_not_graded_is_not_odd() -> None:
    golds = [{"a": k, "b": "x"} for k in range(12)]
    assert (
        built(grade=["a"]).survey([item(gold, grade=["a"], number=k) for k, gold in enumerate(golds)]) == []
    )
