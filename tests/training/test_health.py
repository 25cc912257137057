"""Every alarm of a training has a series that raises it at each level, and a near miss that does not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from assay.core.records import HEALTH_RULES, Episode, HealthEvent, HealthSummary, TrainFacts
from assay.health.rules.commonest import most_common
from assay.health.rules.rules import Monitor
from assay.health.rules.signals import StepSignals
from tests.house import ROOT
from tests.training.health_levels import ONE_PART, SETTINGS, episode, told, turn


def watched(steps: Sequence[StepSignals], task: Any = ONE_PART) -> list[HealthEvent]:
    monitor = Monitor(SETTINGS, task)
    return [event for signals in steps for event in monitor.step(signals)]


def series(signal: str, values: Sequence[float | None]) -> list[StepSignals]:
    return [
        StepSignals(step=k, item_ids=("i1", "i2"), **{signal: value})
        for k, value in enumerate(values, start=1)
    ]  # type: ignore[arg-type]


A, R, STOP, G = "AMBER", "RED", "STOP", "GREEN"
SERIES: list[tuple[str, str, list[float], list[tuple[int, str]]]] = [
    # rule, signal, values from step 1 (the first two are the baseline where there is one), what is told
    ("zero_variance", "zero_variance", [0.6] * 7, [(5, A)]),
    ("zero_variance", "zero_variance", [0.6] * 4 + [0.5] + [0.6] * 4, []),
    ("zero_variance", "zero_variance", [0.9] * 12, [(5, A), (10, R)]),
    ("zero_variance", "zero_variance", [0.9] * 9 + [0.8], [(5, A)]),
    ("zero_variance", "zero_variance", [0.0, 1.0, 1.0, 1.0, 1.0], [(4, STOP)]),
    ("zero_variance", "zero_variance", [1.0, 1.0, 0.99, 1.0, 0.5], []),
    ("entropy", "entropy", [0.6, 0.4, 0.24, 0.26], [(3, A), (4, G)]),
    ("entropy", "entropy", [0.6, 0.4, 0.25, 0.25], []),
    ("entropy", "entropy", [0.5, 0.5, *[0.16] * 5], [(3, A), (7, R)]),
    ("entropy", "entropy", [0.5, 0.5, *[0.16] * 4, 0.17, 0.16], [(3, A)]),
    ("entropy", "entropy", [0.001, 0.001, 0.0001], []),
    ("kl", "kl", [0.05, 0.11, 0.5, 0.09], [(2, A), (4, G)]),
    ("kl", "kl", [0.0, 0.1], []),
    ("kl", "kl", [0.5, 1.1, 0.9, 0.05], [(1, A), (2, R), (3, A), (4, G)]),
    ("kl", "kl", [0.5, 1.0], [(1, A)]),
    ("truncated", "truncated", [0.0, 0.11, 0.1], [(2, A), (3, G)]),
    ("truncated", "truncated", [0.1, 0.1], []),
    ("truncated", "truncated", [0.6] * 5, [(1, A), (5, R)]),
    ("truncated", "truncated", [0.6] * 4 + [0.5] * 4, [(1, A)]),
    ("truncated", "truncated", [0.99] * 5, [(1, A), (5, STOP)]),
    ("truncated", "truncated", [0.99] * 4 + [0.98], [(1, A), (5, R)]),
    ("length", "mean_length", [10.0, 30.0, 41.0, 81.0, 39.0], [(3, A), (4, R), (5, G)]),
    ("length", "mean_length", [20.0, 20.0, 9.0, 4.0], [(3, A), (4, R)]),
    ("length", "mean_length", [20.0, 20.0, 40.0, 10.0], []),
    ("parsed", "parsed", [0.89], [(1, A)]),
    ("parsed", "parsed", [0.9, 0.9, 0.9], []),
    ("parsed", "parsed", [1.0, 1.0, 0.94], [(3, A)]),
    ("parsed", "parsed", [1.0, 1.0, 0.95], []),
    ("parsed", "parsed", [0.95, 0.69], [(2, R)]),
    ("parsed", "parsed", [0.95, 0.7], [(2, A)]),
    ("distinct", "distinct", [0.5] * 3 + [0.2] * 5 + [0.05] * 5 + [0.3], [(8, A), (13, R), (14, G)]),
    ("distinct", "distinct", [0.5, *[0.2] * 4, 0.25, *[0.09] * 4, 0.3], []),
    ("clip", "clip", [0.02, 0.02, 0.07, 0.21], [(3, A), (4, R)]),
    ("clip", "clip", [0.02, 0.02, 0.06], []),
    ("clip", "clip", [0.0, 0.0, 0.029], []),
    ("clip", "clip", [0.0, 0.0, 0.031, 0.11], [(3, A), (4, R)]),
    ("grad_norm", "grad_norm", [1.0, 1.0, 3.1, 10.1, 10.2, 0.5], [(3, A), (5, R), (6, G)]),
    ("grad_norm", "grad_norm", [1.0, 1.0, 500.0, 0.5, 500.0, 0.5], [(3, A), (4, G), (5, A), (6, G)]),
    ("grad_norm", "grad_norm", [1.0, 1.0, 3.0], []),
    ("grad_norm", "grad_norm", [0.0, 0.0, 0.3], []),
    ("infrastructure", "lost", [0.0, 0.02, 0.06, 0.01], [(2, A), (3, R), (4, G)]),
    ("infrastructure", "lost", [0.01, 0.05], [(2, A)]),
]


@pytest.mark.parametrize(("rule", "signal", "values", "expected"), SERIES)
def test_a_series_tells_each_level_when_it_is_reached_and_never_again(
    rule: str, signal: str, values: list[float], expected: list[tuple[int, str]]
) -> None:
    assert told(watched(series(signal, values))) == [(step, rule, level) for step, level in expected]


@pytest.mark.parametrize(("rule", "signal", "values", "expected"), [row for row in SERIES if row[3]])
def test_a_step_without_a_measurement_neither_counts_nor_clears(
    rule: str, signal: str, values: list[float], expected: list[tuple[int, str]]
) -> None:
    gappy = [each for value in values for each in (value, None, math.nan)]
    assert told(watched(series(signal, gappy))) == [(3 * step - 2, rule, level) for step, level in expected]


# Of a base's 20 completions so many do not parse and so many are cut off; then the shares of each step.
BASES: list[tuple[int, int, list[float], list[float], set[str]]] = [
    (0, 0, [1.0, 0.95, 1.0], [0.0] * 3, set()),
    (0, 0, [1.0, 0.95, 0.6], [0.0] * 3, {"parsed RED"}),
    (2, 0, [0.9, 0.9, 0.95], [0.0] * 3, set()),
    (2, 0, [0.9, 0.9, 0.65], [0.0] * 3, {"parsed RED"}),
    (6, 0, [0.65, 0.75, 0.9], [0.0] * 3, set()),
    (6, 0, [0.65, 0.75, 0.35], [0.0] * 3, {"parsed RED"}),
    (10, 0, [0.45, 0.55, 0.7], [0.0] * 3, set()),
    (10, 0, [0.45, 0.55, 0.15], [0.0] * 3, {"parsed RED"}),
    (14, 0, [0.25, 0.35, 0.9], [0.0] * 3, set()),
    (19, 0, [0.0, 0.05, 0.4], [0.0] * 3, set()),
    (20, 0, [0.0, 0.0, 0.1], [0.0] * 3, set()),
    (20, 0, [0.0, 0.6, 0.0], [0.0] * 3, set()),  # what is learned and lost again success and reward tell
    (0, 0, [1.0] * 6, [0.6] * 6, {"truncated AMBER", "truncated RED"}),
    (0, 6, [1.0] * 6, [0.35, 0.3, 0.25, 0.2, 0.1, 0.0], set()),
    (0, 6, [1.0] * 6, [0.85] * 6, {"truncated AMBER", "truncated RED"}),
    (12, 12, [0.4, 0.45, 0.6, 0.7, 0.8, 0.9], [0.6, 0.6, 0.5, 0.4, 0.2, 0.1], set()),
    (12, 12, [0.4] * 6, [0.99] * 6, {"truncated AMBER", "truncated RED"}),
]


@pytest.mark.parametrize(("failed", "cut", "parsed", "truncated", "rings"), BASES)
def test_what_the_base_did_before_training_is_no_alarm_and_a_fall_from_there_is(
    failed: int, cut: int, parsed: list[float], truncated: list[float], rings: set[str]
) -> None:
    monitor, before = Monitor(SETTINGS, ONE_PART), []
    for k in range(20):
        changed = {"truncated": k < cut, **({"outcome": "failed"} if k < failed else {})}
        before.append(
            episode(f"i{k}", 0.0, False).model_copy(update={"turns": (turn().model_copy(update=changed),)})
        )
    monitor.validation(0, before)
    found = []
    for k, (share, cut_off) in enumerate(zip(parsed, truncated, strict=True), start=1):
        found += monitor.step(StepSignals(step=k, item_ids=("i1",), parsed=share, truncated=cut_off))
        monitor = Monitor.restore(SETTINGS, ONE_PART, monitor.state())
    told_rules = {f"{each.rule} {each.level}" for each in found if each.level != "GREEN"}
    assert rings <= told_rules and {each for each in told_rules if "RED" in each} <= rings


def test_where_nothing_is_measured_nothing_is_said_and_nothing_is_called_well() -> None:
    monitor = Monitor(SETTINGS, ONE_PART)
    assert not [event for k in range(1, 30) for event in monitor.step(StepSignals(step=k))]
    assert monitor.unmeasured == tuple(rule for rule in HEALTH_RULES if rule != "non_finite")


def test_an_event_says_since_when_with_numbers_and_for_which_items() -> None:
    steps = [
        StepSignals(
            step=k, zero_variance=0.6, item_ids=("i1", "i2", "i3"), concerned={"zero_variance": ["i2"]}
        )
        for k in range(3, 8)
    ]
    (event,) = watched(steps)
    assert (event.first_step, event.step, event.value, event.threshold, event.item_ids) == (
        3,
        7,
        0.6,
        0.5,
        ("i2",),
    )
    assert (
        event.message
        == "The share of groups that fail somewhere and whose rewards are all equal is 0.6, above 0.5 since"
        " step 3; take items of another difficulty or a larger train.group_size, since equal rewards teach"
        " nothing."
    )


def test_limits_of_a_relative_rule_are_in_the_unit_of_its_signal() -> None:
    (event,) = watched(series("entropy", [0.6, 0.4, 0.2]))
    assert (event.value, event.threshold, event.baseline) == (0.2, 0.25, 0.5)


def test_at_most_eight_items_are_named() -> None:
    (event,) = watched([StepSignals(step=1, kl=0.5, item_ids=tuple(f"i{k}" for k in range(20)))])
    assert event.item_ids == tuple(f"i{k}" for k in range(8))


# Episode texts: three steps fill the window.


def texts(*steps: dict[str, list[str]] | None) -> list[StepSignals]:
    return [StepSignals(step=k, texts=found, item_ids=("any",)) for k, found in enumerate(steps, start=1)]


def own(step: int, n: int) -> dict[str, list[str]]:
    """Return n items that are each answered in words of their own, twice."""
    return {f"{step}.{k}": [f"text {step}.{k}"] * 2 for k in range(n)}


def shared(step: int, n: int) -> dict[str, list[str]]:
    """Return n items that are answered by the same text."""
    return {f"{step}.shared{k}": ["same"] * 2 for k in range(n)}


TEXTS: list[tuple[str, list[dict[str, list[str]] | None], list[tuple[int, str]]]] = [
    ("each item has its own text", [own(1, 10), own(2, 10), own(3, 10)], []),
    ("two of 30 items share a text", [own(1, 10) | shared(1, 2), own(2, 10), own(3, 8)], [(3, A)]),
    (
        "one of 20 items' worth shares a text",
        [own(1, 10), own(2, 9) | {"x": ["same", "x"]}, own(3, 20) | {"y": ["same", "y"]}],
        [],
    ),
    ("half of all items share a text", [shared(1, 5), shared(2, 5), own(3, 10)], [(3, R)]),
    ("the window is not full", [shared(1, 5), shared(2, 5)], []),
    ("a step without texts does not fill it", [shared(1, 5), None, shared(3, 5), {"x": []}], []),
    ("it passes out of the window", [shared(1, 5), own(2, 5), own(3, 5), own(4, 5)], [(3, R), (4, G)]),
    ("one item played every step is no evidence", [{"x": ["same"] * 8}] * 4, []),
]


@pytest.mark.parametrize(("steps", "expected"), [row[1:] for row in TEXTS], ids=[row[0] for row in TEXTS])
def test_one_text_for_many_items_is_told(
    steps: list[dict[str, list[str]] | None], expected: list[tuple[int, str]]
) -> None:
    assert told(watched(texts(*steps))) == [(step, "top_share", level) for step, level in expected]


def test_an_item_counts_by_the_share_of_its_own_episodes() -> None:
    common, items = most_common([{"a": {"x": 1, "y": 3}, "b": {"x": 8}}, {"a": {"x": 4}, "c": {"z": 1}}])
    assert common.share == pytest.approx((5 / 8 + 1 + 0) / 3) and items == ("a", "b")


def test_the_items_with_the_common_text_are_named_and_the_text_is_not() -> None:
    (event,) = watched(texts(shared(1, 2), own(2, 2), own(3, 2)))
    assert event.item_ids == ("1.shared0", "1.shared1") and "same" not in event.message


# Values that are not finite.


def test_a_skipped_step_is_red_once_judged_by_nothing_else_and_over_with_the_next_sound_step() -> None:
    steps = [
        StepSignals(step=1, kl=0.0),
        StepSignals(step=2, kl=5.0, item_ids=("i1",), skipped="the gradient"),
        StepSignals(step=3, kl=5.0, skipped="the loss"),
        StepSignals(step=4, kl=0.0),
    ]
    events = watched(steps)
    assert told(events) == [(2, "non_finite", R), (4, "non_finite", G)]
    assert events[0].item_ids == ("i1",) and events[0].value is None
    assert events[0].message.startswith("The gradient is not finite at step 2; lower train.learning_rate")


def test_the_trainer_can_tell_that_it_stops_after_steps_that_were_skipped() -> None:
    monitor = Monitor(SETTINGS, ONE_PART)
    assert told(monitor.step(StepSignals(step=1, skipped="the loss"))) == [(1, "non_finite", R)]
    assert told(monitor.non_finite("the loss", 2, ["i1"], stop=True)) == [(2, "non_finite", STOP)]


# In short, and from episodes.


def test_a_summary_names_the_worst_level_and_each_rule_that_left_green() -> None:
    events = watched(
        [
            StepSignals(step=k, kl=kl, lost=lost)
            for k, (kl, lost) in enumerate(
                [(0.2, 0.0), (1.2, 0.02), (0.0, 0.0), (0.2, 0.0), (0.3, 0.0)], start=1
            )
        ]
    )
    summary = HealthSummary.of(events)
    assert summary.worst == "RED"
    assert [(r.rule, r.level, r.first_step, r.times) for r in summary.rules] == [
        ("kl", R, 1, 2),
        ("infrastructure", A, 2, 1),
    ]
    assert HealthSummary.of([]) == HealthSummary(worst="GREEN", rules=(), unmeasured=())


def test_signals_of_a_step_come_from_its_episodes() -> None:
    cut = turn().model_copy(update={"truncated": True, "outcome": "failed", "n_tokens": 9})
    long = episode("b", 1.0, True).model_copy(update={"turns": (turn(), cut)})
    episodes = [episode("a", 0.5, True), episode("a", 0.5, False), episode("b", 0.0, False), long]
    signals = StepSignals.of(7, episodes)
    assert (signals.reward, signals.zero_variance, signals.truncated, signals.parsed) == (0.5, 0.5, 0.2, 0.8)
    assert signals.mean_length == pytest.approx(21 / 5)
    assert signals.concerned == {"zero_variance": ["a"], "truncated": ["b"], "distinct": ["a", "b"]}
    assert signals.texts == {"a": ["x", "x"], "b": ["x", "x\x1ex"]} and signals.item_ids == ("a", "b")


def answered(item: str, *texts: str, success: bool = False) -> list[Episode]:
    """Return a group of episodes with these texts; with `success` all of them succeed, else the first one
    does."""
    return [
        episode(item, 0.5, success or k == 0).model_copy(
            update={"turns": (turn().model_copy(update={"completion": text}),)}
        )
        for k, text in enumerate(texts)
    ]


DISTINCT: list[tuple[str, list[list[Episode]], float | None, list[str]]] = [
    ("each its own", [answered("a", "x", "y", "z")], 1.0, ["a"]),
    ("copies of one", [answered("a", "x", "x", "x")], 0.0, ["a"]),
    ("one of three is another", [answered("a", "x", "x", "y")], 0.5, ["a"]),
    (
        "the mean over groups, not over episodes, the least varied first",
        [answered("a", "x", "y"), answered("b", "x", "x", "x", "x", "x")],
        0.5,
        ["b", "a"],
    ),
    (
        "a group that has solved its item is as well as one whose members differ",
        [answered("a", "x", "x", success=True), answered("b", "x", "x")],
        0.5,
        ["b"],
    ),
    ("all have solved theirs", [answered("a", "x", "x", success=True)], 1.0, []),
    ("one episode has nobody to differ from", [answered("a", "x")[:1]], None, []),
]


@pytest.mark.parametrize(
    ("groups", "value", "items"), [row[1:] for row in DISTINCT], ids=[row[0] for row in DISTINCT]
)
def test_how_far_the_completions_of_a_group_differ(
    groups: list[list[Episode]], value: float | None, items: list[str]
) -> None:
    episodes = [each for group in groups for each in group]
    signals = StepSignals.of(1, episodes)
    assert signals.distinct == value and signals.concerned["distinct"] == items


def test_a_validation_that_lost_episodes_is_amber_at_one_red_beyond_the_limit_over_with_the_next() -> None:
    monitor = Monitor(SETTINGS, ONE_PART)
    assert told(monitor.step(StepSignals(step=9, lost=0.0))) == []
    (one,) = monitor.lost_validation(10, 1, 768, ["v3"])
    assert told([one]) == [(10, "infrastructure", A)] and one.item_ids == ("v3",)
    assert (
        "1 of the 768 episodes of a validation were lost" in one.message
        and "chooses no checkpoint" in one.message
    )
    assert told(monitor.step(StepSignals(step=10, lost=0.0))) == [(10, "infrastructure", G)]
    assert told(monitor.lost_validation(20, 39, 768, ["v3"])) == [(20, "infrastructure", R)]
    assert told(monitor.lost_validation(30, 38, 768, ["v3"])) == [(30, "infrastructure", A)]


def test_a_step_whose_episodes_are_all_lost_measures_nothing_of_them() -> None:
    signals = replace(StepSignals.of(1, []), lost=1.0)
    assert (signals.reward, signals.zero_variance, signals.parsed, signals.texts) == (None, None, None, {})
    assert told(watched([signals])) == [(1, "infrastructure", R)]


# The run that is in the repository.


def test_the_committed_training_raised_no_red_alarm() -> None:
    facts = TrainFacts.model_validate_json((ROOT / "evidence/results/train/train.json").read_text())
    assert facts.health.worst != "RED", facts.health.rules
