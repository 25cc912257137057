"""Several accepted golds, golds of every kind, and golds of calls with nested options: each is its own right
answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import TaskError
from assay.core.seeds import rng
from assay.rollout.tasks.equality import FOLDED, Rules
from assay_tasks.structured.grading.calls import every, n_accepted, options_of, plainest
from assay_tasks.structured.reading.golds import agree, gold_of
from tests.tasks.structured.material import (
    CALL_GOLD,
    FUNCTIONS,
    GOLD,
    INVOICE,
    LINE,
    built,
    call_row,
    graded,
    objects,
    row,
    values,
)

TASK = built()
NUMBERS = {"type": "array", "items": {"type": "integer"}}
ANY = {"type": ["object", "array", "string", "number", "boolean", "null"]}
PLACES = {
    "name": "book",
    "parameters": {
        "type": "dict",
        "properties": {
            "loc": {"$ref": "#/$defs/place"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "stops": {"type": "array", "items": {"$ref": "#/$defs/place"}},
            "free": {"type": "dict"},
        },
        "$defs": {
            "place": {
                "type": "dict",
                "properties": {
                    "city": {"type": "string"},
                    "country": {"type": "string"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "at": {"type": "dict", "properties": {"hour": {"type": "integer"}}},
                },
                "required": ["city"],
                "additionalProperties": False,
            }
        },
    },
}


def booked(gold: Any, **changes: Any) -> dict[str, Any]:
    return call_row(functions=[PLACES, *FUNCTIONS], gold={"book": gold}, **changes)


def call(**arguments: Any) -> dict[str, Any]:
    return {"name": "book", "arguments": arguments}


@pytest.mark.parametrize(
    ("gold", "right", "wrong"),
    [
        (
            {"loc": [{"city": ["Paris", "paris"], "country": ["FR", ""]}]},
            [{"loc": {"city": "Paris", "country": "FR"}}, {"loc": {"city": "paris"}}],
            [
                {"loc": {"city": ["Paris", "paris"]}},
                {"loc": {"country": "FR"}},
                {"loc": {"city": "Paris", "country": "DE"}},
            ],
        ),
        (
            {"loc": [{"city": ["Rome"], "tags": ["a", "b"]}]},
            [{"loc": {"city": "Rome", "tags": ["a", "b"]}}],
            [{"loc": {"city": "Rome", "tags": "a"}}, {"loc": {"city": "Rome", "tags": ["a"]}}],
        ),
        (
            {"loc": [{"city": ["Rome"], "tags": [["a", "b"], ["b", "a"]]}]},
            [{"loc": {"city": "Rome", "tags": ["b", "a"]}}],
            [{"loc": {"city": "Rome", "tags": [["a", "b"], ["b", "a"]]}}],
        ),
        (
            {"loc": [{"city": ["Rome"], "at": [{"hour": [7, 19]}]}]},
            [{"loc": {"city": "Rome", "at": {"hour": 19}}}],
            [
                {"loc": {"city": "Rome", "at": {"hour": [7, 19]}}},
                {"loc": {"city": "Rome", "at": {"hour": 8}}},
            ],
        ),
        (
            {"tags": [["a"], ["a", "b"]]},
            [{"tags": ["a"]}, {"tags": ["a", "b"]}],
            [{"tags": [["a"], ["a", "b"]]}, {"tags": ["b"]}],
        ),
        (
            {"stops": [[{"city": ["Rome", "Roma"]}, {"city": ["Oslo"], "country": ["", "NO"]}]]},
            [
                {"stops": [{"city": "Roma"}, {"city": "Oslo"}]},
                {"stops": [{"city": "Rome"}, {"city": "Oslo", "country": "NO"}]},
            ],
            [{"stops": [{"city": "Rome"}]}, {"stops": [{"city": ["Rome", "Roma"]}, {"city": "Oslo"}]}],
        ),
        ({"free": [{"a": [1, 2]}]}, [{"free": {"a": 2}}], [{"free": {"a": [1, 2]}}]),
        ({"free": [{"a": 1, "b": [1, 2]}]}, [{"free": {"a": 1, "b": [1, 2]}}], [{"free": {"a": 1, "b": 2}}]),
    ],
)
def test_nested_options_are_graded_as_the_call_a_person_would_write(
    gold: Any, right: list[dict[str, Any]], wrong: list[dict[str, Any]]
) -> None:
    told = booked(gold)
    assert "gold_breaks_schema" not in {odd.kind for odd in TASK.examine(told)[1]}
    item = TASK.item(told)
    own = TASK.baselines()["gold"](item, TASK.start(item, 0)[1], rng("own"))
    for answer in (own, *(call(**arguments) for arguments in right)):
        earned, verdict, _ = graded(answer, told)
        assert verdict.success and earned == pytest.approx(1.0), answer
    for arguments in wrong:
        assert not graded(call(**arguments), told)[1].success, arguments


def test_part_of_a_nested_call_earns_part() -> None:
    told = booked({"loc": [{"city": ["Paris"], "country": ["FR"]}]})
    earned = [
        graded(call(loc=loc), told)[2]["fields"]
        for loc in ({"city": "Paris", "country": "DE"}, {"city": "Nice"}, {})
    ]
    assert earned[0] > earned[1] == earned[2] == 0.0


options = st.recursive(
    st.sampled_from(["x", "y", 1, True, None, 2.5, [1, 2], {"k": 1}]),
    lambda inner: st.dictionaries(
        st.sampled_from("abc"), st.lists(inner | st.just(""), min_size=1, max_size=3), min_size=1, max_size=2
    ),
    max_leaves=6,
)
arguments = st.dictionaries(
    st.sampled_from("fgh"), st.lists(options | st.just(""), min_size=1, max_size=3), max_size=2
)


@given(arguments)
def test_every_accepted_answer_is_right_and_of_the_number_that_is_said(gold: dict[str, list[Any]]) -> None:
    accepted, right = options_of(gold), gold_of({"call": gold}, calls=True)
    n = n_accepted(accepted)
    if n > 500:
        return
    found = list(every(accepted))
    assert len(found) == n
    for answer in (*found, plainest(accepted), plainest(accepted, full=False)):
        assert right.score({"call": answer}, FOLDED) == (1.0, True)
    assert all(right.score(answer, FOLDED) == (1.0, True) for answer in right.answers())
    assert agree([right], [gold_of({"call": dict(reversed(gold.items()))}, calls=True)], FOLDED)


def test_the_order_and_spelling_of_options_is_no_contradiction_and_one_option_more_is() -> None:
    def says(gold: Any, other: Any) -> bool:
        items = [TASK.item(call_row(id=name, gold=each)) for name, each in (("a", gold), ("b", other))]
        return list(TASK.contradictory(items)) == [0, 1]

    assert not says(
        {"ship": {"item": ["desk", "desks"], "count": [2]}},
        {"ship": {"count": [2.0], "item": ["desks", "desk "]}},
    )
    assert not says({"ship": {"item": ["desk"], "day": [""]}}, {"ship": {"item": ["desk"]}})
    assert says({"ship": {"item": ["desk", "desks"]}}, {"ship": {"item": ["desk"]}})
    assert says({"ship": {"item": ["desk"], "day": ["", "Monday"]}}, {"ship": {"item": ["desk"]}})


@given(st.lists(values, min_size=1, max_size=3))
def test_any_of_several_golds_of_any_kind_earns_full_marks(golds: list[Any]) -> None:
    told = row(schema=ANY, gold=None, golds=golds)
    for gold in golds:
        earned, verdict, _ = graded(json.dumps(gold), told)
        assert verdict.success and earned == pytest.approx(1.0) and not verdict.flags["empty_fields"]
    item = TASK.item(told)
    assert graded(TASK.baselines()["gold"](item, TASK.start(item, 0)[1], rng("own")), told)[1].success


def test_of_several_golds_the_nearest_counts() -> None:
    told = row(schema={"type": "object"}, gold=None, golds=[{"a": 1, "b": 2}, {"a": 5, "b": 6}])
    assert graded({"a": 5, "b": 2}, told)[2]["fields"] == pytest.approx(0.15)
    assert graded({"a": 5, "b": 6}, told)[1].success and not graded({"a": 1, "b": 6}, told)[1].success


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"golds": [GOLD]}, "gold or golds"),
        ({"gold": None, "golds": []}, "not empty"),
        ({"gold": None, "golds": GOLD}, "a list"),
        ({"gold": None, "golds": [GOLD, [1]]}, "object"),
        ({"schema": NUMBERS}, "array"),
        ({"schema": {"enum": ["a"]}}, "string"),
    ],
)
def test_golds_that_cannot_be_are_refused(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(TaskError, match=word):
        TASK.item(row(**changes))


def test_each_of_several_golds_must_keep_the_schema_and_one_that_is_stated_is_enough() -> None:
    second = GOLD | {"vendor": "Ajax"}
    odd = {each.kind: each.detail for each in TASK.examine(row(gold=None, golds=[second, GOLD]))[1]}
    assert not odd
    odd = {
        each.kind: each.detail
        for each in TASK.examine(row(gold=None, golds=[GOLD, second | {"paid": "yes"}]))[1]
    }
    assert odd["gold_breaks_schema"].startswith("golds[1]: ")
    odd = {
        each.kind: each.detail
        for each in TASK.examine(row(gold=None, golds=[second, second | {"number": 77}]))[1]
    }
    assert odd["unstated_value"] == "golds[0].vendor: 'Ajax'"


@pytest.mark.parametrize(
    ("schema", "gold", "wrong"),
    [
        (NUMBERS, [1, 2, 3], [1, 2]),
        (NUMBERS, [], [1]),
        ({"type": "string"}, "Rome", "Oslo"),
        ({"type": "integer"}, 7, 8),
        ({"type": "number"}, 0, 0.5),
        ({"type": "boolean"}, True, False),
        ({"type": "boolean"}, False, True),
        ({"enum": ["a", "b"]}, "a", "b"),
        ({"$ref": "#/$defs/n", "$defs": {"n": NUMBERS}}, [4], [5]),
        ({"anyOf": [{"type": "integer"}, {"const": "all"}]}, "all", 3),
        ({"type": "array", "items": LINE}, [{"item": "rug", "count": 2}], []),
        (True, [1], [2]),
        (True, "x", "y"),
    ],
)
def test_a_schema_may_want_a_list_or_a_single_value(schema: Any, gold: Any, wrong: Any) -> None:
    told = row(schema=schema, gold=gold)
    opening = TASK.start(TASK.item(told), 0)[0][0]["content"]
    assert "\nAnswer with one JSON value that satisfies this schema: " in opening
    assert (
        graded(json.dumps(gold), told)[0] == pytest.approx(1.0) and graded(json.dumps(gold), told)[1].success
    )
    assert not graded(json.dumps(wrong), told)[1].success
    for other in ({"answer": gold}, "x", [[gold]], None, f"The answer: {gold}", ""):
        text = other if isinstance(other, str) else json.dumps(other)
        assert not graded(text, told)[1].success and graded(text, told)[2]["parsed_strict"] in (0.0, 0.05)
    item = TASK.item(told)
    state = TASK.start(item, 0)[1]
    assert graded(TASK.baselines()["gold"](item, state, rng("own")), told)[1].success
    for name, cheat in TASK.attacks().items():
        earned, verdict, _ = graded(cheat(item, state, rng(name)), told)
        assert not verdict.success and not verdict.flags["full_reward_but_wrong"] and earned < 0.25, name


def test_null_can_be_right_among_golds() -> None:
    told = row(schema={"type": "null"}, gold=None, golds=[None])
    assert graded("null", told)[1].success and not graded("{}", told)[1].success
    item = TASK.item(told)
    assert TASK.attacks()["null"](item, TASK.start(item, 0)[1], rng("x")) != "null"


def test_a_list_earns_by_f1_and_one_in_talk_is_only_dug_out() -> None:
    told = row(schema=NUMBERS, gold=[1, 2, 3, 4])
    assert graded("[1, 2]", told)[2]["fields"] == pytest.approx(0.3 * 2 / 3)
    assert graded("[4, 3, 2, 1]", told)[2] | {"fields": 0.3, "exact": 0.0} == graded("[4, 3, 2, 1]", told)[2]
    _, verdict, _ = graded("Here: [1, 2, 3, 4].", told)
    assert verdict.flags["parsed_extracted"] and not verdict.success


def test_where_the_schema_wants_an_object_nothing_else_is_read() -> None:
    for schema in (INVOICE, {"properties": {}}, True):
        for text in (f"[{json.dumps(GOLD)}]", "null", '"x"', "1"):
            earned, verdict, parts = graded(text, row(schema=schema))
            assert parts["parsed_strict"] == 0.0 and not verdict.success and earned < 0.25
        opening = TASK.start(TASK.item(row(schema=schema)), 0)[0][0]["content"]
        assert "\nAnswer with one JSON object that satisfies this schema: " in opening


def test_several_calls_are_a_list_in_any_order() -> None:
    told = call_row(gold=[{"ship": {"item": ["desk", "desks"]}}, {"stop": {}}, {"ship": {"item": ["desk"]}}])
    assert '"type":"array"' in TASK.item(told).public.schema_text
    item = TASK.item(told)
    assert graded(TASK.baselines()["gold"](item, TASK.start(item, 0)[1], rng("own")), told)[1].success
    ship, ships = ({"name": "ship", "arguments": {"item": name}} for name in ("desk", "desks"))
    stop = {"name": "stop", "arguments": {}}
    # The first fits both golds of ship, the second one only: pairs are found whatever the order.
    for answer in ([ship, ships, stop], [ships, stop, ship], [stop, ship, ship]):
        earned, verdict, _ = graded(json.dumps(answer), told)
        assert verdict.success and earned == pytest.approx(1.0) and verdict.flags["function_correct"]
    for answer in ([ships, ships, stop], [ship, stop], [ship, ships, stop, stop], [], [ship] * 5000):
        earned, verdict, _ = graded(json.dumps(answer), told)
        assert not verdict.success and earned < 1.0
    none = call_row(gold=[])
    assert graded("[]", none)[1].success and not graded(json.dumps([stop]), none)[1].success


@given(objects, st.sampled_from(["fold", "keep"]))
def test_a_gold_earns_full_marks_by_either_setting_of_white_space(
    gold: dict[str, Any], whitespace: str
) -> None:
    assert graded(json.dumps(gold), row(schema=True, gold=gold), built(whitespace=whitespace))[
        0
    ] == pytest.approx(1.0)


def test_what_is_accepted_is_told_to_readers() -> None:
    assert (
        TASK.truth(TASK.item(row(gold=None, golds=[{"a": 1}, {"a": 2}], schema=True))) == '{"a":1} or {"a":2}'
    )
    assert TASK.truth(TASK.item(call_row())) == json.dumps(CALL_GOLD, separators=(",", ":"))
    assert TASK.truth(TASK.item(row(gold=None, schema=NUMBERS))) == "no gold: any valid value counts"
    assert agree([gold_of(1, calls=False)], [gold_of(1.0, calls=False)], Rules("keep"))
