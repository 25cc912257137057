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
from assay.rollout.tasks.equality import FOLDED, Rules, close, equal, field_score, key, unordered
from assay.rollout.tasks.schema import BoundedValidator
from assay_tasks.structured.grading.calls import is_call_gold
from assay_tasks.structured.reading.golds import Call, Plain, agree, contradictory, gold_of
from tests.tasks.structured.material import CALL_GOLD, built, graded, objects, row, values

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


MANY = 20_000


def graded_call(answer: Any, gold: Any) -> tuple[float, bool]:
    return gold_of(gold, calls=True).score(answer, FOLDED)


@pytest.mark.parametrize(
    ("one", "other", "the_same"),
    [
        (1, 1.0, True),
        (True, 1, False),
        (0, False, False),
        ("1", 1, False),
        (None, "", False),
        (None, False, False),
        ("caf\u00e9", "cafe\u0301", True),
        (" a\n b ", "a b", True),
        ("A", "a", False),
        ("ﬁ", "fi", False),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({}, [], False),
        ({"a": None}, {}, False),
        ([True], [1], False),
        ({"a": [{"b": "x "}]}, {"a": [{"b": "x"}]}, True),
        (10**30, 1e30, True),
        (2**53 + 1, float(2**53), False),
        (-0.0, 0, True),
        (1e-7, 0.0000001, True),
    ],
)
def test_values_are_the_same_in_type_and_after_folding(one: Any, other: Any, the_same: bool) -> None:
    assert equal(one, other, FOLDED) is equal(other, one, FOLDED) is the_same


@pytest.mark.parametrize(
    ("found", "gold", "score"),
    [
        ({}, {}, 1.0),
        ({"a": 1}, {}, 0.0),
        ({}, {"a": 1}, 0.0),
        ({"a": 1, "b": 2}, {"a": 1}, 2 / 3),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": 1, "y": 3}}, 0.5),
        ([], [], 1.0),
        ([1], [], 0.0),
        ([2, 1], [1, 2], 1.0),
        ([1, 1], [1], 2 / 3),
        (["a"], ["a", "b", "c"], 0.5),
        ([{"a": 1}, {"b": 2}], [{"b": 2}, {"a": 1}], 1.0),
        ([{"a": 1, "b": 0}, 7], [7, {"a": 1, "b": 2}], 0.75),
        ([[1, 2], [3, 4]], [[4, 3], [2, 1]], 1.0),
        ({"a": 1}, [1], 0.0),
        ({"a": "1"}, {"a": 1}, 0.0),
        ({"a": True}, {"a": 1}, 0.0),
        ([{"a": 1}], [[{"a": 1}]], 0.0),
    ],
)
def test_the_share_of_gold_that_was_found(found: Any, gold: Any, score: float) -> None:
    assert field_score(found, gold, FOLDED) == pytest.approx(score)


@given(values, values)
def test_a_score_lies_in_the_unit_interval_and_is_one_for_the_same_alone(found: Any, gold: Any) -> None:
    score = field_score(found, gold, FOLDED)
    assert 0.0 <= score <= 1.0
    assert (score == 1.0) == (unordered(found, FOLDED) == unordered(gold, FOLDED))
    assert score == pytest.approx(field_score(gold, found, FOLDED))
    assert not equal(found, gold, FOLDED) or score == 1.0
    assert equal(gold, gold, FOLDED) and field_score(gold, gold, FOLDED) == 1.0


@given(objects)
def test_an_extra_key_and_a_missing_key_cost(gold: dict[str, Any]) -> None:
    assert field_score(gold | {"not in the gold": 1}, gold, FOLDED) < 1.0
    assert all(field_score({k: v for k, v in gold.items() if k != name}, gold, FOLDED) < 1.0 for name in gold)


def test_long_lists_are_matched_in_linear_time() -> None:
    found, gold = [{"n": n} for n in range(MANY)], [{"n": n} for n in reversed(range(MANY))]
    assert field_score(found, gold, FOLDED) == 1.0
    assert field_score(found, [{"n": -n - 1} for n in range(MANY)], FOLDED) == 0.0


@pytest.mark.parametrize(
    ("answer", "score", "exact"),
    [
        ({"name": "ship", "arguments": {"item": "desk", "count": 2}}, 1.0, True),
        ({"name": "ship", "arguments": {"item": "desks", "count": 2.0, "day": "Monday"}}, 1.0, True),
        ({"ship": {"item": "desk", "count": 2}}, 1.0, True),
        ({"ship": {"item": "desk", "count": 2, "day": ""}}, 2 / 3, False),
        ({"ship": {"item": "desk", "count": "2"}}, 0.5, False),
        ({"ship": {"item": "desk"}}, 2 / 3, False),
        ({"ship": {"item": "desk", "count": 2, "day": "Friday"}}, 2 / 3, False),
        ({"ship": {"item": "desk", "count": 2, "speed": 1}}, 0.8, False),
        ({"stop": {}}, 0.0, False),
        ({"ship": {"item": "desk", "count": 2}, "stop": {}}, 2 / 3, False),
        ({"name": "ship", "arguments": {"item": "desk", "count": 2}, "why": "so"}, 2 / 3, False),
        ({"name": "ship"}, 0.0, False),
        ({"ship": ["desk", 2]}, 0.0, False),
        ({"ship": None}, 0.0, False),
        ({}, 0.0, False),
    ],
)
def test_calls_are_right_in_either_form_and_wrong_in_every_other(
    answer: Any, score: float, exact: bool
) -> None:
    assert graded_call(answer, CALL_GOLD) == (pytest.approx(score), exact)


def test_all_functions_of_a_gold_have_to_be_called() -> None:
    gold = {"ship": {"item": ["desk"]}, "stop": {}}
    assert graded_call({"ship": {"item": "desk"}, "stop": {}}, gold) == (1.0, True)
    assert graded_call({"name": "ship", "arguments": {"item": "desk"}}, gold) == (pytest.approx(2 / 3), False)
    assert graded_call({"ship": {"item": "lamp"}, "stop": {}}, gold) == (0.5, False)


def test_accepted_lists_are_taken_literally_and_earn_partial_credit() -> None:
    gold = {"f": {"where": [{"a": 1}, ["x", "y"]]}}
    assert (
        graded_call({"f": {"where": {"a": 1}}}, gold)[1]
        and graded_call({"f": {"where": ["x", "y"]}}, gold)[1]
    )
    assert graded_call({"f": {"where": {"a": 2}}}, gold) == (0.0, False)
    assert graded_call({"f": {"where": ["x"]}}, gold) == (pytest.approx(2 / 3), False)
    assert graded_call({"f": {"where": ["y", "x"]}}, gold) == (1.0, False)


def test_a_function_called_like_the_keys_of_a_call_can_be_called() -> None:
    gold = {"name": {"x": [1]}, "arguments": {"y": [2]}}
    assert graded_call({"name": {"x": 1}, "arguments": {"y": 2}}, gold) == (1.0, True)


@pytest.mark.parametrize(
    ("gold", "is_call"),
    [
        (CALL_GOLD, True),
        ({"stop": {}}, True),
        ({}, False),
        ({"f": {"x": 1}}, False),
        ({"f": [1]}, False),
        (None, False),
        ({"f": {"x": [1]}, "note": "a"}, False),
        ([{"f": {"x": [1]}}], False),
    ],
)
def test_a_gold_of_calls_is_an_object_of_objects_of_lists(gold: Any, is_call: bool) -> None:
    assert is_call_gold(gold) is is_call


def test_what_is_written_for_a_gold_of_calls_is_right() -> None:
    for gold in (CALL_GOLD, {"f": {"x": [""]}}, {"f": {}, "g": {"x": ["", None]}}):
        right = gold_of(gold, calls=True)
        assert isinstance(right, Call)
        answers = list(right.answers())
        assert answers and all(graded_call(answer, gold) == (1.0, True) for answer in answers)
