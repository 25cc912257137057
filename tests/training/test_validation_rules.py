"""What validations show of a training's health is told at each level and not before it, also by a training
taken up again."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from assay.core.records import HEALTH_RULES, Episode, HealthEvent
from assay.core.seeds import rng
from assay.health.rules.rules import Monitor
from assay.health.rules.signals import StepSignals
from assay.health.rules.validation_rules import rank_correlation
from tests.training.health_levels import ONE_PART, SETTINGS, THREE_PARTS, Told, episode, told

A, R, STOP, G = "AMBER", "RED", "STOP", "GREEN"
# Validations. 20 items, each its own cluster; item k has a reward of its own level, the same at every
# validation.

SPREAD = [float(x) for x in rng("validation items").normal(0.0, 0.1, 20)]
JITTER = [[float(x) for x in rng("validation noise", k).normal(0.0, 0.02, 20)] for k in range(20)]


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
    ("all that training rose came before the first", blocks([0.3, 0.7, 0.7], [0.7, 0.7, 0.7]), []),
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
