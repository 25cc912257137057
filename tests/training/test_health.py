"""Every alarm of a training has a series that raises it at each level, and a near miss that does not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from assay.core.config.health import HealthSettings
from assay.core.records import HEALTH_RULES, Episode, HealthEvent, HealthSummary, TrainFacts, Turn
from assay.core.seeds import rng
from assay.training.health.commonest import most_common
from assay.training.health.rules import Monitor
from assay.training.health.signals import StepSignals
from assay.training.health.validation_rules import rank_correlation
from tests.house import ROOT

SETTINGS = HealthSettings.model_validate(
    {
        "preflight": True,
        "on_non_finite": "stop",
        "max_skipped": 3,
        "retries": 2,
        "max_lost_share": 0.5,
        "baseline_steps": 2,
        "zero_variance": {
            "amber": 0.5,
            "amber_for": 5,
            "red": 0.8,
            "red_for": 10,
            "stop": 1.0,
            "stop_for": 3,
        },
        "entropy": {"amber": 0.5, "amber_for": 1, "red": 0.33, "red_for": 5},
        "kl": {"amber": 0.1, "amber_for": 1, "red": 1.0, "red_for": 1},
        "truncated": {"amber": 0.1, "amber_for": 1, "red": 0.5, "red_for": 5, "stop": 0.99, "stop_for": 5},
        "length": {"amber": 2.0, "red": 4.0},
        "parsed": {"amber": 0.9, "amber_for": 1, "red": 0.7, "red_for": 1},
        "parsed_drop": 0.05,
        "distinct": {"amber": 0.25, "amber_for": 5, "red": 0.1, "red_for": 5},
        "top_share": {"amber": 0.05, "amber_for": 1, "red": 0.2, "red_for": 1},
        "top_share_window": 3,
        "field_collapse": {"amber": 0.15, "amber_for": 1, "red": 0.3, "red_for": 1},
        "clip": {"amber": 3.0, "amber_for": 1, "red": 10.0, "red_for": 1},
        "grad_norm": {"amber": 3.0, "amber_for": 1, "red": 10.0, "red_for": 1},
        "infrastructure": {"amber": 0.01, "amber_for": 1, "red": 0.05, "red_for": 1},
        "validation": {"evaluations": 3, "gap": 0.05, "correlation": 0.5, "part_share": 0.8},
    }
)


class Parts:
    """What the monitor needs to know of a task."""

    def __init__(self, **kinds: str) -> None:
        self.parts = kinds


ONE_PART: Any = Parts(terminal="outcome")
THREE_PARTS: Any = Parts(answer="outcome", detail="outcome", form="format")
Told = list[tuple[int, str, str]]


def told(events: Sequence[HealthEvent]) -> Told:
    """Return step, rule and level of events; STOP for the RED that ends a training."""
    return [(event.step, event.rule, "STOP" if event.stop else event.level) for event in events]


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
    ("grad_norm", "grad_norm", [1.0, 1.0, 3.1, 10.1, 0.5], [(3, A), (4, R), (5, G)]),
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


# Validations. 20 items, each its own cluster; item k has a reward of its own level, the same at every
# validation.

SPREAD = [float(x) for x in rng("validation items").normal(0.0, 0.1, 20)]
JITTER = [[float(x) for x in rng("validation noise", k).normal(0.0, 0.02, 20)] for k in range(20)]


def turn() -> Turn:
    return Turn(
        prompt_digest="0",
        completion="x",
        n_tokens=3,
        truncated=False,
        outcome="ok",
        failure=None,
        action="x",
        observation=None,
        parts={},
    )


def episode(item: str, reward: float, success: bool, parts: Mapping[str, float] | None = None) -> Episode:
    return Episode(
        item_id=item,
        cluster=item,
        strata={},
        draw=0,
        seed=0,
        turns=(turn(),),
        prompt_chars_cut=0,
        ending="done",
        reward=reward,
        parts={"terminal": reward} if parts is None else dict(parts),
        success=success,
        flags={},
        metrics={},
    )


def validation(k: int, reward: float, success: float) -> list[Episode]:
    """Return one episode of 20 items: rewards around a mean, the best-paid share of them a success."""
    rewards = [reward + own + noise for own, noise in zip(SPREAD, JITTER[k], strict=True)]
    best = sorted(rewards, reverse=True)[: round(20 * success)]
    found = [episode(f"v{i}", each, each in best) for i, each in enumerate(rewards)]
    # Two that bound the range of rewards by 0 and 1, whatever the others do.
    return [*found, episode("v-least", 0.0, False), episode("v-most", 1.0, True)]


class Block(NamedTuple):
    """Ten training steps with rewards around a mean, then one validation."""

    training: float
    reward: float
    success: float


def run(blocks: Sequence[Block], monitor: Monitor | None = None) -> list[HealthEvent]:
    monitor, events = monitor or Monitor(SETTINGS, ONE_PART), []
    for k, block in enumerate(blocks):
        if k:
            for n in range(10):
                signals = StepSignals(step=10 * (k - 1) + n + 1, reward=block.training + 0.05 * (-1) ** n)
                events += monitor.step(signals)
        events += monitor.validation(10 * k, validation(k, block.reward, block.success))
    return events


def blocks(
    training: Sequence[float], rewards: Sequence[float], successes: Sequence[float] | None = None
) -> list[Block]:
    """Return a start at 0.3, then blocks; success goes with reward if not given."""
    start = Block(math.nan, 0.3, 0.3)
    successes = rewards if successes is None else successes
    return [start, *(Block(*each) for each in zip(training, rewards, successes, strict=True))]


FLAT_OR_NOT: list[tuple[str, list[Block], Told]] = [
    ("both rise", blocks([0.3, 0.5, 0.7], [0.3, 0.5, 0.7]), []),
    ("neither rises", blocks([0.3] * 5, [0.3] * 5), []),
    (
        "validation is flat while training rises",
        blocks([0.3, 0.5, 0.7], [0.3, 0.3, 0.3]),
        [(30, "reward_vs_validation", A)],
    ),
    ("training rises by less than a deviation", blocks([0.3, 0.31, 0.33], [0.3, 0.3, 0.3]), []),
    ("validation is flat over two evaluations only", blocks([0.3, 0.5], [0.3, 0.3]), []),
    (
        "validation is flat, then rises",
        blocks([0.3, 0.5, 0.7, 0.8, 0.9], [0.3, 0.3, 0.3, 0.5, 0.7]),
        [(30, "reward_vs_validation", A), (40, "reward_vs_validation", G)],
    ),
    (
        "validation falls below its best while training is at its best",
        blocks([0.3, 0.5, 0.7, 0.8], [0.3, 0.7, 0.7, 0.5]),
        [(40, "reward_vs_validation", R)],
    ),
    ("validation falls as training does", blocks([0.3, 0.7, 0.7, 0.6], [0.3, 0.7, 0.7, 0.5]), []),
    ("validation falls by less than its interval", blocks([0.3, 0.7, 0.7, 0.72], [0.3, 0.7, 0.7, 0.698]), []),
]


@pytest.mark.parametrize(
    ("given", "expected"), [row[1:] for row in FLAT_OR_NOT], ids=[row[0] for row in FLAT_OR_NOT]
)
def test_training_reward_is_held_against_validation(given: list[Block], expected: Told) -> None:
    assert [each for each in told(run(given)) if each[1] == "reward_vs_validation"] == expected


SUCCESS: list[tuple[str, list[Block], Told]] = [
    ("they rise together", blocks([0.5, 0.7], [0.5, 0.7]), []),
    ("reward rises without success", blocks([0.5], [0.6], [0.3]), [(10, "reward_vs_success", A)]),
    ("the gap is within its limit", blocks([0.33], [0.34], [0.3]), []),
    (
        "the gap closes again",
        blocks([0.5, 0.5], [0.6, 0.6], [0.3, 0.6]),
        [(10, "reward_vs_success", A), (20, "reward_vs_success", G)],
    ),
]


@pytest.mark.parametrize(("given", "expected"), [row[1:] for row in SUCCESS], ids=[row[0] for row in SUCCESS])
def test_reward_is_held_against_success(given: list[Block], expected: Told) -> None:
    assert [each for each in told(run(given)) if each[1] == "reward_vs_success"] == expected


def ranked(successes: Sequence[bool]) -> list[Episode]:
    """Return one validation whose k-th item earns k."""
    return [episode(f"v{k}", float(k), success) for k, success in enumerate(successes)]


CORRELATIONS: list[tuple[str, list[bool], Told]] = [
    ("the best-paid items are the successes", [False] * 10 + [True] * 10, []),
    ("one success, which is paid best: ties do not count against it", [False] * 19 + [True], []),
    ("the worst-paid items are the successes", [True] * 10 + [False] * 10, [(0, "reward_vs_success", R)]),
    ("success has nothing to do with reward", [True, False] * 10, [(0, "reward_vs_success", R)]),
    ("nothing succeeds: undefined", [False] * 20, []),
    ("everything succeeds: undefined", [True] * 20, []),
    ("nine items are too few", [True] * 4 + [False] * 5, []),
]


@pytest.mark.parametrize(
    ("successes", "expected"), [row[1:] for row in CORRELATIONS], ids=[row[0] for row in CORRELATIONS]
)
def test_reward_has_to_rank_items_as_success_does(successes: list[bool], expected: Told) -> None:
    assert told(Monitor(SETTINGS, ONE_PART).validation(0, ranked(successes))) == expected


def test_a_rank_correlation_is_a_share_of_what_ties_allow() -> None:
    few = {str(k): float(k >= 18) for k in range(20)}
    assert rank_correlation({str(k): float(k) for k in range(20)}, few) == pytest.approx(1.0)
    assert rank_correlation({str(k): -float(k) for k in range(20)}, few) == pytest.approx(-1.0)
    assert rank_correlation({str(k): 1.0 for k in range(20)}, few) is None


# Reward parts: 20 items; item k earns each part's mean plus a little of its own.


def parts_validation(k: int, **means: float) -> list[Episode]:
    found = []
    for i in range(20):
        parts = {name: mean + 0.2 * JITTER[k][i] for name, mean in means.items()}
        found.append(episode(f"v{i}", math.fsum(parts.values()), i % 2 == 0, parts))
    # Two that widen the range of rewards and show that an answer can earn 1.
    bounds = {
        "v-least": {"answer": 0.0, "form": means["form"]},
        "v-most": {"answer": 1.0, "form": means["form"]},
    }
    return found + [episode(name, math.fsum(p.values()), name == "v-most", p) for name, p in bounds.items()]


def parts_told(validations: Sequence[dict[str, float]], task: Any) -> Told:
    monitor = Monitor(SETTINGS, task)
    events = [
        e for k, means in enumerate(validations) for e in monitor.validation(k, parts_validation(k, **means))
    ]
    return [each for each in told(events) if each[1] == "part_share"]


PARTS: list[tuple[str, list[dict[str, float]], Told]] = [
    (
        "all parts gain",
        [{"answer": 0.1, "detail": 0.1, "form": 0.0}, {"answer": 0.5, "detail": 0.4, "form": 0.1}],
        [],
    ),
    (
        "one part gains though others had room",
        [{"answer": 0.1, "detail": 0.1, "form": 0.1}, {"answer": 0.1, "detail": 0.3, "form": 0.1}],
        [(1, "part_share", A)],
    ),
    (
        "one part makes less than its share",
        [{"answer": 0.1, "detail": 0.1, "form": 0.1}, {"answer": 0.2, "detail": 0.4, "form": 0.1}],
        [],
    ),
    (
        "one part gains because the others cannot",
        [{"answer": 0.1, "detail": 0.3, "form": 0.1}, {"answer": 0.6, "detail": 0.3, "form": 0.1}],
        [],
    ),
    (
        "the gain is not material",
        [{"answer": 0.1, "detail": 0.1, "form": 0.1}, {"answer": 0.1, "detail": 0.13, "form": 0.1}],
        [],
    ),
    (
        "the form is full while the answer stands still",
        [{"answer": 0.2, "detail": 0.2, "form": 0.0}, {"answer": 0.2, "detail": 0.2, "form": 0.5}],
        [(1, "part_share", R)],
    ),
    (
        "the form is full while the answer falls",
        [{"answer": 0.4, "detail": 0.2, "form": 0.0}, {"answer": 0.1, "detail": 0.2, "form": 0.5}],
        [(1, "part_share", R)],
    ),
    (
        "the form is full and the answer rises too",
        [{"answer": 0.2, "detail": 0.2, "form": 0.0}, {"answer": 0.4, "detail": 0.3, "form": 0.5}],
        [],
    ),
    (
        "the form was full from the start",
        [{"answer": 0.2, "detail": 0.2, "form": 0.5}, {"answer": 0.2, "detail": 0.2, "form": 0.5}],
        [],
    ),
]


@pytest.mark.parametrize(
    ("validations", "expected"), [row[1:] for row in PARTS], ids=[row[0] for row in PARTS]
)
def test_the_gain_is_held_against_its_parts(validations: list[dict[str, float]], expected: Told) -> None:
    assert parts_told(validations, THREE_PARTS) == expected


def test_a_task_of_one_part_has_no_shares() -> None:
    monitor = Monitor(SETTINGS, ONE_PART)
    run(blocks([0.5, 0.7], [0.5, 0.7]), monitor)
    assert "part_share" in monitor.unmeasured


# Taken up again.


def long_run() -> list[Callable[[Monitor], list[HealthEvent]]]:
    """Return a training as calls: 60 steps in which much goes wrong, a validation every ten of them, one step
    skipped."""
    noise, calls = rng("long run"), []

    def validated(k: int) -> Callable[[Monitor], list[HealthEvent]]:
        form = min(0.5, 0.25 * k)
        found = parts_validation(k, answer=0.3, detail=0.2 - 0.02 * k, form=form)
        return lambda monitor: monitor.validation(10 * k, found)

    def stepped(n: int) -> Callable[[Monitor], list[HealthEvent]]:
        signals = StepSignals(
            step=n,
            reward=n / 60 + float(noise.normal(0.0, 0.05)),
            zero_variance=min(1.0, n / 40),
            entropy=0.5 * 0.95**n,
            kl=n / 50,
            truncated=0.12 * (n % 3 == 0),
            mean_length=20.0 * 1.04**n,
            parsed=1.0 - 0.006 * n,
            clip=0.01 * (n % 7),
            distinct=max(0.0, 0.6 - n / 60),
            grad_norm=0.1 + 2.0 * (n % 25 == 0),
            lost=0.02 * (n == 30),
            item_ids=(f"i{n}",),
            texts={f"i{n}.{j}": ["same" if j * n > 60 else f"{n} {j}"] * 2 for j in range(4)},
            skipped="the loss" if n == 33 else None,
        )
        return lambda monitor: monitor.step(signals)

    for n in range(61):
        calls += [stepped(n)] if n else []
        calls += [validated(n // 10)] if n % 10 == 0 else []
    return calls


def test_a_training_cut_anywhere_and_taken_up_again_raises_the_same_events() -> None:
    calls = long_run()
    whole = Monitor(SETTINGS, THREE_PARTS)
    told_at = [call(whole) for call in calls]
    assert {event.rule for events in told_at for event in events} >= set(HEALTH_RULES) - {
        "reward_vs_success",
        "field_collapse",
    }
    monitor = Monitor(SETTINGS, THREE_PARTS)
    for cut, call in enumerate(calls):
        state = json.loads(json.dumps(monitor.state(), allow_nan=False, sort_keys=True))
        rest = Monitor.restore(SETTINGS, THREE_PARTS, state)
        assert [call(rest) for call in calls[cut : cut + 25]] == told_at[cut : cut + 25]
        assert call(monitor) == told_at[cut]


def test_a_state_is_not_changed_by_those_who_go_on() -> None:
    calls = long_run()
    monitor = Monitor(SETTINGS, THREE_PARTS)
    for call in calls[:40]:
        call(monitor)
    state = monitor.state()
    before, other = json.dumps(state), Monitor.restore(SETTINGS, THREE_PARTS, state)
    for call in calls[40:]:
        call(monitor)
        call(other)
    assert json.dumps(state) == before
    assert monitor.state() == other.state()


def test_what_is_kept_does_not_grow_with_the_training() -> None:
    monitor, sizes = Monitor(SETTINGS, ONE_PART), []
    for _ in range(20):
        run([Block(0.5, 0.5, 0.5)] * 4, monitor)
        sizes.append(len(json.dumps(monitor.state())))
    assert max(sizes[5:]) < 1.05 * sizes[2]


def test_equal_trainings_raise_equal_events() -> None:
    first, second = ([e.model_dump_json() for call in long_run() for e in call(m)] for m in _two_monitors())
    assert first == second


def _two_monitors() -> tuple[Monitor, Monitor]:
    return Monitor(SETTINGS, THREE_PARTS), Monitor(SETTINGS, THREE_PARTS)


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
    signals = StepSignals.of(7, episodes, entropy=0.4, kl=None, clip=0.0, grad_norm=0.1, lost=None)
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
    signals = StepSignals.of(1, episodes, entropy=None, kl=None, clip=None, grad_norm=None, lost=None)
    assert signals.distinct == value and signals.concerned["distinct"] == items


def test_a_validation_that_lost_episodes_is_amber_at_one_and_red_beyond_the_limit_and_over_with_the_next_sound_step() -> (
    None
):
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
    signals = StepSignals.of(1, [], entropy=None, kl=None, clip=None, grad_norm=None, lost=1.0)
    assert (signals.reward, signals.zero_variance, signals.parsed, signals.texts) == (None, None, None, {})
    assert told(watched([signals])) == [(1, "infrastructure", R)]


# The run that is in the repository.


def test_the_committed_training_raised_no_red_alarm() -> None:
    facts = TrainFacts.model_validate_json((ROOT / "evidence/results/train/train.json").read_text())
    assert facts.health.worst != "RED", facts.health.rules
