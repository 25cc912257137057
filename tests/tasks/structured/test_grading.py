"""What an answer earns: the parts, success, flags and metrics, the named cheats, and what must hold for every
answer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import TaskError
from assay.core.seeds import rng
from assay_tasks.structured.players import written
from assay_tasks.structured.settings import RewardWeights
from tests.tasks.structured.material import (
    CALL_GOLD,
    GOLD,
    INVOICE,
    LAX,
    LINE,
    OWN,
    PARTLY_WRONG,
    built,
    call_row,
    graded,
    objects,
    row,
    schemas,
    values,
    weights,
)

TASK = built()
RECORDS = {
    "strict schema": (row(), PARTLY_WRONG),
    "lax schema": (row(schema=LAX), PARTLY_WRONG),
    "any object": (row(schema={"type": "object"}), PARTLY_WRONG),
    "numbers alone": (
        row(schema={"type": "object"}, gold={"a": 1, "b": 2, "c": 1.5}),
        {"a": 1, "b": 2, "c": 2.5},
    ),
    "a call": (call_row(), {"name": "ship", "arguments": {"item": "desk", "count": 3}}),
}
FENCED = f"Here:\n```json\n{json.dumps(GOLD)}\n```"
WITHOUT_TOTAL = {name: value for name, value in GOLD.items() if name != "total"}


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("cheat", TASK.attacks())
def test_a_cheat_earns_less_than_an_honest_partly_wrong_answer_and_never_succeeds(
    cheat: str, record: str
) -> None:
    told, honest_answer = RECORDS[record]
    item = TASK.item(told)
    text = TASK.attacks()[cheat](item, TASK.start(item, 0)[1], rng(cheat))
    cheated, verdict, _ = graded(text, told)
    honest = graded(honest_answer, told)[0]
    assert cheated < honest < 1.0
    assert not verdict.success and not verdict.flags["full_reward_but_wrong"]


def test_the_cheats_are_the_ones_the_specification_names() -> None:
    assert list(TASK.attacks()) == [
        "empty_text",
        "prose",
        "prose_around",
        "list_around",
        "null",
        "open_brackets",
        "copied_schema",
        "empty_strings",
        "sprayed_keys",
        "duplicate_keys",
        "quoted_numbers",
        "true_for_one",
        "nan",
    ]


@pytest.mark.parametrize("cheat", ["empty_text", "prose", "null", "open_brackets", "duplicate_keys", "nan"])
def test_what_is_no_strict_object_earns_nothing(cheat: str) -> None:
    item = TASK.item(row())
    state = TASK.start(item, 0)[1]
    step = TASK.step(state, TASK.attacks()[cheat](item, state, rng(cheat)))
    assert (step.outcome, step.action, step.ending) == ("failed", None, "unreadable") and step.failure
    assert set(step.parts.values()) == {0.0}


@pytest.mark.parametrize(
    ("completion", "parts", "success"),
    [
        (GOLD, (0.05, 0.0, 0.15, 0.3, 0.5), True),
        (GOLD | {"total": 12.50, "vendor": " Acme\n"}, (0.05, 0.0, 0.15, 0.3, 0.5), True),
        (GOLD | {"vendor": "Ajax"}, (0.05, 0.0, 0.15, 0.24, 0.0), False),
        (GOLD | {"paid": 1}, (0.05, 0.0, 0.0, 0.24, 0.0), False),
        (GOLD | {"number": "1"}, (0.05, 0.0, 0.0, 0.24, 0.0), False),
        (GOLD | {"number": True}, (0.05, 0.0, 0.0, 0.24, 0.0), False),
        (WITHOUT_TOTAL, (0.05, 0.0, 0.0, 0.3 * 8 / 9, 0.0), False),
        (GOLD | {"lines": [{"item": "rug", "count": 3}]}, (0.05, 0.0, 0.15, 0.27, 0.0), False),
        (FENCED, (0.0, 0.0, 0.0375, 0.075, 0.125), False),
        ({}, (0.05, 0.0, 0.0, 0.0, 0.0), False),
        ("", (0.0, 0.0, 0.0, 0.0, 0.0), False),
    ],
)
def test_an_answer_earns_part_by_part(completion: Any, parts: tuple[float, ...], success: bool) -> None:
    _, verdict, earned = graded(completion, row())
    assert list(earned) == list(TASK.parts) == list(RewardWeights.model_fields)
    assert tuple(earned[name] for name in OWN) == pytest.approx(parts)
    assert (
        verdict.success is success
        and tuple(verdict.flags) == TASK.flags
        and tuple(verdict.metrics) == TASK.metrics
    )


def test_an_object_dug_out_never_passes_for_validity() -> None:
    _, verdict, parts = graded(FENCED, row())
    assert verdict.flags | {"exact": True, "parsed_extracted": True} == verdict.flags
    assert not verdict.flags["schema_valid"] and not verdict.flags["parsed_strict"] and not verdict.success
    paid = built(weights=weights(parsed_extracted=0.02))
    assert graded(FENCED, row(), paid)[2] == parts | {"parsed_extracted": 0.02}
    assert graded(GOLD, row(), paid)[0] == pytest.approx(1.0)


def test_without_a_gold_validity_alone_decides() -> None:
    told = row(gold=None)
    earned, verdict, parts = graded(GOLD, told)
    assert (verdict.success, verdict.flags["exact"], verdict.metrics["field_f1"]) == (True, None, None)
    assert earned == pytest.approx(0.2) and parts["fields"] == parts["exact"] == 0.0
    assert not verdict.flags["full_reward_but_wrong"]
    assert not graded(FENCED, told)[1].success and not graded({}, told)[1].success


def test_empty_leaves_earn_no_validity_unless_the_gold_is_empty_too() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "array"}, "c": {}}}
    empty = {"a": " ", "b": [], "c": {"d": None, "e": {}}}
    for gold, flagged, earned in (
        ({"a": "x"}, True, 0.05),
        ({"a": "", "b": []}, False, 0.2),
        (None, True, 0.2),
    ):
        told = row(schema=schema, gold=gold)
        reward, verdict, parts = graded(empty, told)
        assert verdict.flags["empty_fields"] is flagged
        assert parts["parsed_strict"] + parts["schema_valid"] == pytest.approx(earned) and reward >= earned
    for nothing in ({"a": "", "c": 0}, {"a": "-", "c": False}, {"a": "\u200b"}):
        reward, verdict, parts = graded(nothing, row(schema=schema, gold={"a": "x", "c": 0}))
        assert verdict.flags["empty_fields"]
        assert parts["fields"] == 0.0
    assert not graded({"a": "y", "c": 0}, row(schema=schema, gold={"a": "x"}))[1].flags["empty_fields"]


def test_an_empty_call_is_told_from_a_call_without_arguments() -> None:
    assert graded({"name": "ship", "arguments": {"item": ""}}, call_row())[1].flags["empty_fields"]
    earned, verdict, _ = graded({"name": "stop", "arguments": {}}, call_row(gold={"stop": {}}))
    assert verdict.success and earned == pytest.approx(1.0) and not verdict.flags["empty_fields"]


def test_the_alarm_for_full_reward_on_wrong_answers_can_ring() -> None:
    # Without a weight for exactness nobody pays for the order of a list.
    careless = built(weights=weights(parsed_strict=0.1, schema_valid=0.1, fields=0.8, exact=0.0))
    told = row(schema={"type": "object"}, gold={"a": ["x", "y"]})
    assert graded({"a": ["y", "x"]}, told, careless)[1].flags["full_reward_but_wrong"]
    assert not graded({"a": ["x", "y"]}, told, careless)[1].flags["full_reward_but_wrong"]
    assert set(TASK.alarms) <= set(TASK.flags)


def test_calling_the_right_function_is_told_apart_from_its_arguments() -> None:
    for answer, right in (
        ({"name": "ship", "arguments": {}}, True),
        ({"name": "stop", "arguments": {}}, False),
        ("no", False),
    ):
        assert graded(answer, call_row())[1].flags["function_correct"] is right
    assert graded(GOLD, row())[1].flags["function_correct"] is None


def test_calls_are_graded_in_the_form_the_schema_wants() -> None:
    for answer in ({"name": "ship", "arguments": {"item": "desks", "count": 2}},):
        assert graded(answer, call_row())[1].success
    other_form = {"ship": {"item": "desk", "count": 2}}
    earned, verdict, _ = graded(other_form, call_row())
    assert verdict.flags["exact"] and not verdict.flags["schema_valid"] and earned == pytest.approx(0.85)
    assert graded(other_form, call_row(schema={"required": ["ship"]}))[1].success


@given(objects)
def test_the_gold_always_earns_full_marks(gold: dict[str, Any]) -> None:
    item = TASK.item(row(schema={"type": "object"}, gold=gold))
    state = TASK.start(item, 0)[1]
    for text in (TASK.baselines()["gold"](item, state, rng("gold")), json.dumps(gold, indent=1)):
        step = TASK.step(state, text)
        verdict = TASK.judge(step.state)
        assert verdict.success and sum(step.parts.values()) == pytest.approx(TASK.reward_range[1]) == 1.0
        assert not verdict.flags["full_reward_but_wrong"] and not verdict.flags["empty_fields"]
        assert verdict.metrics == {"field_f1": 1.0, "completion_chars": float(len(text))}


@given(objects, objects, st.sampled_from([{"type": "object"}, INVOICE, LINE, False]))
def test_no_other_answer_earns_more_than_the_gold(
    gold: dict[str, Any], other: dict[str, Any], schema: Any
) -> None:
    told = row(schema=schema, gold=gold)
    best = graded(written(gold), told)[0]
    for answer in (
        other,
        gold | other,
        other | gold,
        {"answer": gold},
        [gold],
        {name: [part] for name, part in gold.items()},
    ):
        earned, verdict, _ = graded(written(answer), told)
        low, high = TASK.reward_range
        assert low <= earned <= high + 1e-9
        assert schema != {"type": "object"} or earned <= best + 1e-9
        assert verdict.success <= (verdict.flags["exact"] is True)


@given(st.text() | values.map(json.dumps))
def test_no_completion_raises_and_equal_ones_are_graded_equally(completion: str) -> None:
    for told in (row(), call_row(), row(gold=None, schema=True)):
        earned, verdict, parts = graded(completion, told)
        assert (earned, verdict, parts) == graded(completion, told)
        assert 0.0 <= earned <= 1.0 + 1e-9 and set(parts) == set(TASK.parts)


@given(schemas, st.none() | objects, st.none() | schemas)
def test_any_schema_is_kept_or_refused_and_everybody_can_answer_to_it(
    schema: Any, gold: Any, part: Any
) -> None:
    try:
        item = TASK.item(
            row(schema=schema, gold=gold, schema_resources=None if part is None else {"b.json": part})
        )
    except TaskError:
        return
    state = TASK.start(item, 0)[1]
    for name, player in {**TASK.baselines(), **TASK.attacks()}.items():
        TASK.judge(TASK.step(state, player(item, state, rng(name))).state)


def test_scripted_players_go_from_nothing_to_everything() -> None:
    assert list(TASK.baselines()) == ["empty_fields", "copied_schema", "copied_prompt", "guess", "gold"]
    assert TASK.floor in TASK.baselines() and TASK.ceiling in TASK.baselines()
    for told in (row(), call_row(), row(schema=LAX)):
        item = TASK.item(told)
        state = TASK.start(item, 0)[1]
        earned = {
            name: graded(player(item, state, rng(name)), told)[0] for name, player in TASK.baselines().items()
        }
        assert earned["empty_fields"] < 0.5 and earned["guess"] < 1.0 and earned["gold"] == pytest.approx(1.0)
        again = TASK.baselines()["guess"](item, state, rng("guess"))
        assert again == TASK.baselines()["guess"](item, state, rng("guess"))


def test_the_oracle_writes_something_valid_where_there_is_no_gold() -> None:
    item = TASK.item(row(gold=None))
    assert graded(TASK.baselines()["gold"](item, TASK.start(item, 0)[1], rng("x")), row(gold=None))[1].success


def test_an_episode_is_one_answer_and_its_state_a_value() -> None:
    messages, state = TASK.start(TASK.item(row()), 7)
    assert [message["role"] for message in messages] == ["user"] and "$defs" in messages[0]["content"]
    assert "Acme" not in repr(state).replace(str(state.request), "")
    with pytest.raises(TaskError):
        TASK.judge(state)
    one, other = TASK.step(state, json.dumps(GOLD)), TASK.step(state, "no")
    assert TASK.judge(one.state).success and not TASK.judge(other.state).success and state.grade is None
    assert (one.observation, one.ending, one.action) == (
        None,
        "answered",
        json.dumps(GOLD, sort_keys=True, separators=(",", ":")),
    )
    with pytest.raises(TaskError):
        TASK.step(one.state, "again")
    with pytest.raises(TaskError):
        TASK.start(replace(TASK.item(row()), hidden=CALL_GOLD), 0)


def test_lessons_are_for_the_shipped_data_alone() -> None:
    chance, shipped = rng("lessons"), built(lessons="shop")
    assert (
        len(shipped.demonstrations(chance, 3)) == len(shipped.drills(chance, 3)) == 3 and shipped.vocabulary()
    )
    for refused in (lambda: TASK.demonstrations(chance, 1), lambda: TASK.drills(chance, 1), TASK.vocabulary):
        with pytest.raises(TaskError, match="lessons"):
            refused()


def test_the_oracle_leaves_out_what_it_cannot_fill_where_there_is_no_gold() -> None:
    schema = {
        "type": "object",
        "required": ["name"],
        "additionalProperties": False,
        "properties": {"name": {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]{5}-[A-Z]$"}},
    }
    item = TASK.item(row(schema=schema, gold=None))
    _, state = TASK.start(item, 0)
    after = TASK.step(state, TASK.baselines()["gold"](item, state, rng("oracle"))).state
    assert TASK.judge(after).success
