"""Alarms compare with an honest player of the task at hand: sound trainings on any data stay clear of RED,
ill ones ring."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assay.health.rules.commonest import Common, Honest, most_common
from assay.health.rules.rules import Monitor
from assay.health.rules.signals import StepSignals, failures_left
from assay.package.verification.content.training import FIELDS, Relistened
from tests.training.alarm_shapes import Shape, even, labels, learner
from tests.training.health_levels import SETTINGS, Parts, told
from tests.training.shaped_trainings import Training, ill, settings, sound, worst

SOUND, ILL = sound(), ill()
QUIET = [shape for shape in SOUND if "certain" in shape.name or "all right" in shape.name]
# Which rule has to name what; all others may ring beside it.
NAMED = {
    "always one of them": "top_share",
    "one of them from the start": "top_share",
    "always the": "top_share",
    "for all": "top_share",
    "copies of a wrong answer": "distinct",
    "sure of wrong": "entropy",
    "empties out": "field_collapse",
    "left out": "field_collapse",
    "one and the same": "field_collapse",
    "always 0": "field_collapse",
    "always yes": "field_collapse",
    "always null": "field_collapse",
    "always empty": "field_collapse",
    "same function": "field_collapse",
}


def by_name(shape: Shape) -> str:
    return shape.name


def test_there_are_enough_shapes_of_either_kind() -> None:
    assert (
        len(SOUND) >= 24
        and len(ILL) >= 24
        and len({shape.name for shape in [*SOUND, *ILL]}) == len(SOUND) + len(ILL)
    )


@pytest.mark.parametrize("shape", SOUND, ids=by_name)
def test_a_sound_training_is_never_red(shape: Shape) -> None:
    found = worst(Training(shape).run())
    assert set(found.values()) <= {"AMBER"}, found


@pytest.mark.parametrize("shape", [each for each in QUIET if "learned" not in each.name], ids=by_name)
def test_where_every_answer_is_right_nothing_rings(shape: Shape) -> None:
    assert worst(Training(shape, 1).run()) == {}


@pytest.mark.parametrize("shape", ILL, ids=by_name)
def test_an_ill_training_rings_by_the_rule_that_names_what_is_wrong(shape: Shape) -> None:
    found = worst(Training(shape).run())
    rules = {rule for words, rule in NAMED.items() if words in shape.name}
    assert found and (not rules or rules & set(found)), found


@pytest.mark.parametrize("name", ["3 labels, always one of them", "always yes", "always the same function"])
def test_alarms_ring_again_from_what_is_logged_and_no_text(name: str) -> None:
    training = Training(next(shape for shape in ILL if shape.name == name), logged=True)
    # But for validations, which are logged whole
    events = [event for event in training.run() if event.step % 20]
    monitor: Any = Relistened(settings().health, training.task)
    again = []
    for row in json.loads(json.dumps(training.rows)):
        again += monitor.relisten(row)
    again = [event for event in again if event.step % 20]
    assert [[getattr(e, name) for name in FIELDS] for e in again] == [
        [getattr(e, name) for name in FIELDS] for e in events
    ]


# What is honest


def test_a_text_may_answer_what_it_is_right_for_and_what_a_guesser_adds() -> None:
    half = Common(share=1.0, right=0.5, items=100)
    assert half.honest == pytest.approx(0.6) and half.excess == pytest.approx(0.4) and half.answers_all
    assert Common(1.0, 1.0, 80).excess == 0.0 and not Common(1.0, 1.0, 80).answers_all
    assert Common(1.0, None, 80).excess == 1.0 and not Common(1.0, None, 80).answers_all


def test_the_text_that_is_told_is_the_one_furthest_beyond_its_right() -> None:
    window = [{f"i{k}": {"rare" if k < 6 else "common": 1} for k in range(20)}]
    right = {f"i{k}": ["common" if k else "rare"] for k in range(20)}
    found, items = most_common(window, right)
    assert found == Common(0.3, 0.05, 20) and items == tuple(sorted(f"i{k}" for k in range(6)))


def test_an_honest_player_shows_how_many_answers_there_are_and_the_commonest() -> None:
    training = Training(Shape("2 labels", labels(3, 1), learner(0.5, 0.9), False))
    facts = Honest(training.task, training.items).facts
    golds = [json.dumps(training.asked[item.id].gold) for item in training.items]
    assert facts is not None
    assert (facts.items, facts.answers) == (160, 2)
    assert facts.top_share == max(map(golds.count, golds)) / 160
    assert Honest(Parts(terminal="outcome"), []).facts is None  # type: ignore[arg-type]  # a task that writes no answers


def test_with_two_answers_a_group_need_not_have_more() -> None:
    training = Training(Shape("2 labels", even(2), learner(0.5, 0.9), False))
    item = training.items[0]
    group = [training.episode(item, json.dumps({"label": f"label{k % 2}"}), k) for k in range(8)]
    honest = Honest(training.task, training.items)
    plain = StepSignals.of(1, group)
    known = StepSignals.of(1, group, honest)
    assert plain.distinct == pytest.approx(1 / 7) and known.distinct == 1.0


# Entropy, length and success


def falling(success: list[float], signal: str = "entropy") -> list[StepSignals]:
    values = [0.6, 0.4, *[0.1] * 6] if signal == "entropy" else [20.0, 20.0, *[4.0] * 6]
    return [
        StepSignals(step=k, success=success[min(k, len(success)) - 1], item_ids=("i",), **{signal: value})  # type: ignore[arg-type]
        for k, value in enumerate(values, start=1)
    ]


@pytest.mark.parametrize("signal", ["entropy", "length"])
@pytest.mark.parametrize(
    ("success", "rings"),
    [
        ([0.3], True),
        ([0.3, 0.3, 0.2], True),
        ([0.3, 0.3, 0.45], True),
        ([0.3, 0.3, 0.9], False),
        ([0.95], False),
    ],
    ids=["as before", "less", "a little more", "nearly all", "always nearly all"],
)
def test_less_variety_and_fewer_words_are_no_alarm_where_success_pays_for_them(
    success: list[float], rings: bool, signal: str
) -> None:
    monitor = Monitor(SETTINGS, Parts(terminal="outcome"))  # type: ignore[arg-type]
    events = [
        e
        for s in falling(success, "entropy" if signal == "entropy" else "mean_length")
        for e in monitor.step(s)
    ]
    at_the_end = {rule: level for _, rule, level in told(events)}.get(signal, "GREEN")
    assert (at_the_end != "GREEN") is rings, told(events)


def test_an_alarm_of_entropy_says_how_many_failures_are_left() -> None:
    monitor = Monitor(SETTINGS, Parts(terminal="outcome"))  # type: ignore[arg-type]
    first, *_ = [event for signals in falling([0.3, 0.3, 0.37]) for event in monitor.step(signals)]
    assert "while 95% of the first steps' failures are left" in first.message


def test_no_failures_are_left_where_nearly_all_succeeds_and_never_more_than_all() -> None:
    assert failures_left(0.5, 0.75) == 0.5 and failures_left(0.5, 0.1) == 1.0
    assert (
        failures_left(0.0, 0.9) == 0.0 and failures_left(1.0, 1.0) == 0.0 and failures_left(1.0, 0.5) == 1.0
    )


# Fields


def test_shares_of_a_step_stand_beside_those_of_the_golds() -> None:
    training = Training(next(shape for shape in ILL if shape.name == "a field that empties out"), logged=True)
    training.run()
    first, last = training.rows[0]["fields"], training.rows[-1]["fields"]
    assert set(last) == {"name", "city", "count"}
    assert (
        last["city"]["empty"] == 1.0 == last["city"]["top"]
        and last["city"]["gold_empty"] == 0.0 == last["city"]["right"]
    )
    assert first["city"]["empty"] == 0.0 and last["name"]["empty"] == 0.0 and last["name"]["n"] == 64


def test_an_alarm_of_fields_names_the_field_and_not_what_it_says() -> None:
    training = Training(next(shape for shape in ILL if shape.name == "a field that says one and the same"))
    told = [
        event.message for event in training.run() if event.rule == "field_collapse" and event.level != "GREEN"
    ]
    assert told and all(
        "in which city says one and the same, or nothing," in each and "Oslo" not in each for each in told
    )
