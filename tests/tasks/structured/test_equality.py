"""One rule of equality: what the audit calls a contradiction is what the grader calls wrong, by every
setting."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.seeds import rng
from assay.tasks.structured.grading.equality import Rules, close, equal, field_score, key, unordered
from assay.tasks.structured.reading.golds import Plain, agree, contradictory
from assay.tasks.structured.schema import BoundedValidator
from tests.tasks.structured.material import built, graded, row, values

ANY = {"type": ["object", "array", "string", "number", "boolean", "null"]}
NUMBERS = (
    st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        [0.0, -0.0, 1e30, 10**30, 2**53, 2**53 + 1, float(2**53), 1e22, 10**22, 5e-324, 1e308, 10**308, 0.1]
    )
)
RULES = st.builds(
    Rules,
    st.sampled_from(["fold", "keep"]),
    absolute=st.sampled_from([0.0, 0.1, 1.0]),
    relative=st.sampled_from([0.0, 0.01]),
)
# Texts and numbers that some rule takes for one: composed or not, with more white space, as another kind of
# number.
NEAR = st.sampled_from(
    ["a b", "a  b", " a b\n", "caf\u00e9", "cafe\u0301", 1, 1.0, 1.05, True, "1", 0, -0.0, False, None]
)
near = st.recursive(
    NEAR,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=3,
)


def task_by(rules: Rules) -> Any:
    tolerance = {"absolute": rules.absolute, "relative": rules.relative}
    return built(whitespace=rules.whitespace, number_tolerance=tolerance)


@given(values | near, RULES)
def test_every_value_equals_itself_and_its_copy(value: Any, rules: Rules) -> None:
    copy = json.loads(json.dumps(value))
    assert equal(value, copy, rules) and key(value, rules) == key(copy, rules)
    assert unordered(value, rules) == unordered(copy, rules) and field_score(value, copy, rules) == 1.0


@given(near, near, RULES)
def test_stand_ins_are_equal_exactly_for_equal_values_where_no_tolerance_is_set(
    one: Any, other: Any, rules: Rules
) -> None:
    assert equal(one, other, rules) == equal(other, one, rules)
    same_key = key(one, rules) == key(other, rules)
    assert (
        same_key == equal(one, other, rules)
        if not rules.tolerant
        else not same_key or equal(one, other, rules)
    )
    assert not equal(one, other, rules) or field_score(one, other, rules) == 1.0


@given(NUMBERS, NUMBERS, RULES)
def test_numbers_are_compared_by_the_value_that_was_written(one: float, other: float, rules: Rules) -> None:
    exact = Rules("keep")
    assert close(one, one, rules) and close(one, other, rules) == close(other, one, rules)
    assert not close(one, other, exact) or close(one, other, rules)
    assert (key(one, exact) == key(other, exact)) == close(one, other, exact)
    # What JSON writes for one is what JSON writes for the other, but for the spelling of whole numbers.
    assert json.dumps(one) != json.dumps(other) or close(one, other, exact)
    assert not (isinstance(one, int) and isinstance(other, int)) or close(one, other, exact) == (one == other)


@given(near, near, RULES)
def test_the_audit_says_conflict_if_and_only_if_the_grader_calls_one_gold_wrong_against_the_other(
    one: Any, other: Any, rules: Rules
) -> None:
    task = task_by(rules)
    items = [
        task.item(row(id=name, schema=ANY, gold=None, golds=[gold]))
        for name, gold in (("a", one), ("b", other))
    ]
    wrong = []
    for asked, answer in ((0, other), (1, one)):
        told = row(schema=ANY, gold=None, golds=[(one, other)[asked]])
        wrong.append(not graded(json.dumps(answer), told, task)[1].success)
    assert wrong[0] == wrong[1]
    assert list(task.contradictory(items)) == ([0, 1] if wrong[0] else [])


@given(st.lists(near, min_size=1, max_size=3), st.lists(near, min_size=1, max_size=3), RULES)
def test_records_with_several_golds_agree_if_each_accepts_what_the_other_does(
    one: list[Any], other: list[Any], rules: Rules
) -> None:
    def accepts(golds: list[Any], answers: list[Any]) -> bool:
        return all(any(equal(answer, gold, rules) for gold in golds) for answer in answers)

    agreed = agree([Plain(gold) for gold in one], [Plain(gold) for gold in other], rules)
    assert agreed == (accepts(one, other) and accepts(other, one))


def test_with_a_tolerance_the_record_between_two_that_contradict_is_not_blamed() -> None:
    golds = [[Plain({"a": value})] for value in (1.0, 1.1, 1.2)]
    assert contradictory(golds, Rules("fold", absolute=0.1)) == [0, 2]
    assert contradictory(golds, Rules("fold")) == [0, 1, 2]
    assert contradictory([*golds, *golds], Rules("fold", absolute=0.1)) == [0, 2, 3, 5]
    assert contradictory(golds[:1] * 5000, Rules("fold")) == []


@pytest.mark.parametrize(
    ("rules", "found", "gold", "score"),
    [
        (Rules("keep"), "def f():\n    return 1", "def f():\n  return 1", 0.0),
        (Rules("fold"), "def f():\n    return 1", "def f():\n  return 1", 1.0),
        (Rules("keep"), unicodedata.normalize("NFD", "é"), "é", 1.0),
        (Rules("fold", absolute=0.1), [2.0, 1.0], [1.1, 2.1], 1.0),
        (Rules("fold", absolute=0.1), [1.0, 1.1], [1.1, 1.2], 1.0),
        (Rules("fold", absolute=0.1), [1.0, 3.0], [1.1, 2.1], 0.5),
        (Rules("fold", relative=0.01), 1000, 1010, 1.0),
        (Rules("fold", relative=0.01), 1000, 1011, 0.0),
        (Rules("fold", relative=0.5), 1, True, 0.0),
        (Rules("fold", absolute=5.0), 1, "1", 0.0),
        (Rules("fold", absolute=0.1), [{"a": 5.0}, {"a": 1.0}], [{"a": 1.1}, {"a": 5.1}], 1.0),
    ],
)
def test_white_space_and_tolerance_are_as_the_rules_say(
    rules: Rules, found: Any, gold: Any, score: float
) -> None:
    assert field_score(found, gold, rules) == pytest.approx(score)
    assert field_score(gold, found, rules) == pytest.approx(score)


def test_the_settings_reach_the_grade() -> None:
    code = row(schema={"type": "object"}, gold={"code": "if x:\n    y", "n": 10})
    for answer, usual, keeping, near_enough in (
        ({"code": "if x: y", "n": 10}, True, False, True),
        ({"code": "if x:\n    y", "n": 10.05}, False, False, True),
        ({"code": "if x:\n    y", "n": 10.0}, True, True, True),
        ({"code": "if x:\n    y", "n": "10"}, False, False, False),
    ):
        tolerance = {"absolute": 0.1, "relative": 0.0}
        tasks = (built(), built(whitespace="keep"), built(number_tolerance=tolerance))
        assert [graded(answer, code, task)[1].success for task in tasks] == [usual, keeping, near_enough]


@pytest.mark.parametrize("tolerance", [0.0, 10.0])
@pytest.mark.parametrize("cheat", ["quoted_numbers", "true_for_one", "nan"])
def test_no_tolerance_makes_another_type_a_number(cheat: str, tolerance: float) -> None:
    task = built(number_tolerance={"absolute": tolerance, "relative": 0.0})
    told = row(schema={"type": "object"}, gold={"a": 1, "b": 0, "c": 1.5})
    item = task.item(told)
    text = task.attacks()[cheat](item, task.start(item, 0)[1], rng(cheat))
    _, verdict, parts = graded(text, told, task)
    assert not verdict.success and parts["fields"] == 0.0


def test_elements_of_a_set_are_told_apart_as_json_schema_does() -> None:
    unique = BoundedValidator({"uniqueItems": True})
    assert not any(map(unique.is_valid, ([1, 1.0], [{"a": 0}, {"a": -0.0}], [1e30, 10**30])))
    assert (
        unique.is_valid([1, True, "1"])
        and unique.is_valid(["é", "e\u0301"])
        and unique.is_valid(["a b", "a  b"])
    )
