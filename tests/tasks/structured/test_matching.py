"""Equality that knows types, F1 at every level, and answers against the golds of function calls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from assay.tasks.structured.grading.calls import is_call_gold
from assay.tasks.structured.grading.equality import FOLDED, equal, field_score, unordered
from assay.tasks.structured.reading.golds import Call, gold_of
from tests.tasks.structured.material import CALL_GOLD, objects, values

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
