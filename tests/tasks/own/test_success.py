"""Success of a task of one's own is a declared comparison: anybody can judge texts again without its code."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from assay.core.errors import ConfigError, TaskError
from assay.rollout.tasks.own.settings import OwnTask, Success
from assay.rollout.tasks.own.success import extracted, is_right, number


def rule(compare: str, **changes: Any) -> Success:
    """Return a rule that compares with the column `gold`."""
    return Success.model_validate({"compare": compare, "with": "gold", **changes})


@pytest.mark.parametrize(
    ("said", "gold", "compare", "right"),
    [
        (" Paris\n", "Paris", "exact", True),
        ("paris", "Paris", "exact", False),
        ("Paris.", "Paris", "exact", False),
        ("", "Paris", "exact", False),
        ("7", 7, "exact", True),
        ("PARIS", "paris", "casefold", True),
        ("straße", "STRASSE", "casefold", True),
        ("new  york", "New York", "casefold", True),
        ("4.0", 4, "number", True),
        ("1,000", "1000", "number", True),
        ("4.01", 4, "number", False),
        ("4 apples", 4, "number", False),
        ("nan", 4, "number", False),
        ("inf", 4, "number", False),
        ("1e999999999", 4, "number", False),
        ('{"b": [1, 2], "a": 1}', {"a": 1, "b": [1, 2]}, "json", True),
        ('{"a": 1, "b": [2, 1]}', {"a": 1, "b": [1, 2]}, "json", False),
        ('{"a": 1, "a": 1}', {"a": 1}, "json", False),
        ("[" * 5000, [1], "json", False),
        ("true", 1, "json", False),
        ("[1]", "[1]", "json", True),
    ],
)
def test_a_completion_is_right_as_the_comparison_says(
    said: str, gold: Any, compare: str, right: bool
) -> None:
    assert is_right(said, {"gold": gold}, rule(compare)) is right


def test_a_number_may_be_off_by_the_tolerance_and_no_more() -> None:
    near = rule("number", tolerance=0.5)
    assert is_right("4.5", {"gold": 4}, near)
    assert not is_right("4.500001", {"gold": 4}, near)


def test_of_several_matches_the_last_is_compared_and_of_none_nothing_is_right() -> None:
    tagged = rule("exact", extract="<a>(.*?)</a>")
    assert extracted("<a>1</a> no, <a> 2\n</a>.", tagged) == "2"
    assert is_right("<a>1</a><a>2</a>", {"gold": "2"}, tagged)
    assert not is_right("2", {"gold": "2"}, tagged)


@given(st.text(), st.sampled_from(["exact", "casefold", "number", "json"]))
def test_no_completion_raises(said: str, compare: str) -> None:
    assert is_right(said, {"gold": "12"}, rule(compare)) in (True, False)


@given(st.integers(-(10**12), 10**12), st.integers(0, 6))
def test_a_decimal_is_read_exactly(whole: int, places: int) -> None:
    text = f"{whole}.{'0' * places}"
    assert number(text) == whole


@pytest.mark.parametrize(
    ("row", "compare", "told"),
    [
        ({"id": "r1"}, "exact", "a column 'gold'"),
        ({"id": "r1", "gold": None}, "exact", "a column 'gold'"),
        ({"id": "r1", "gold": "x"}, "number", "a number, found 'x'"),
        ({"id": "r1", "gold": [1]}, "exact", "a text"),
    ],
)
def test_a_record_that_cannot_be_compared_with_is_named(row: dict[str, Any], compare: str, told: str) -> None:
    with pytest.raises(TaskError, match=told) as raised:
        is_right("x", row, rule(compare))
    assert "record r1" in str(raised.value)


@pytest.mark.parametrize("pattern", ["<a>(", "no group"])
def test_an_expression_that_cannot_extract_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"task\.success\.extract(.|\n)*Fix: for example"):
        is_right("x", {"gold": "x"}, rule("exact", extract=pattern))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"compare": "exact"}, "needs with"),
        ({"compare": "reward"}, "needs at_least"),
        ({"compare": "nearly", "with": "gold"}, "nearly"),
    ],
)
def test_a_comparison_without_what_it_needs_is_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Success.model_validate(settings)


@pytest.mark.parametrize("code", ["src/assay/rollout/tasks/mine", "./src/assay", "src//assay/x"])
def test_code_of_a_task_brought_along_lies_outside_that_of_assay(code: str) -> None:
    values: dict[str, Any] = {
        "name": "own",
        "entry": "task.py:reward",
        "max_new_tokens": {"compact": 8, "json": 8},
        "success": {"compare": "environment"},
    }
    assert OwnTask.model_validate({**values, "code": "src/mine"}).code == "src/mine"
    with pytest.raises(ValidationError, match="outside src/assay"):
        OwnTask.model_validate({**values, "code": code})
