"""Each second is counted once, under the name of what was being done."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.rollout.evaluation.phases import Phases, Stopwatch, latency, untimed
from tests.evaluation.test_report import suite
from tests.evaluation.test_statistics import play


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_seconds_add_up_by_name_and_are_taken_once() -> None:
    clock = Clock()
    phases = Phases(clock)
    for seconds in (1.0, 2.0):
        with phases("generate"):
            clock.now += seconds
        clock.now += 10.0
    with phases("reward"):
        clock.now += 4.0
    assert phases.take() == {"generate": 3.0, "reward": 4.0}
    assert phases.take() == {}


def test_an_inner_phase_is_not_counted_in_the_outer() -> None:
    clock = Clock()
    phases = Phases(clock)
    with phases("encode"):
        clock.now += 1.0
        with phases("environment"):
            clock.now += 2.0
            with phases("encode"):
                clock.now += 4.0
        clock.now += 8.0
    assert phases.take() == {"encode": 13.0, "environment": 2.0}


def test_taken_in_the_middle_the_rest_comes_the_next_time() -> None:
    clock = Clock()
    phases = Phases(clock)
    with phases("generate"):
        clock.now += 1.0
        assert phases.take() == {"generate": 1.0}
        clock.now += 2.0
    assert phases.take() == {"generate": 2.0}


def test_what_raises_is_counted_too_and_closes_its_phase() -> None:
    clock = Clock()
    phases = Phases(clock)
    with pytest.raises(KeyError), phases("generate"):
        clock.now += 1.0
        raise KeyError
    clock.now += 5.0
    assert phases.take() == {"generate": 1.0}


@given(
    st.lists(st.tuples(st.sampled_from(["open", "close", "wait"]), st.sampled_from("abc"), st.integers(1, 9)))
)
def test_all_phases_add_up_to_the_time_in_which_one_was_open(acts: list[tuple[str, str, int]]) -> None:
    clock, counted = Clock(), 0
    phases = Phases(clock)
    stack = []
    for act, name, seconds in acts:
        if act == "open":
            stack.append(phases(name))
            stack[-1].__enter__()
        elif act == "close" and stack:
            stack.pop().__exit__(None, None, None)
        else:
            clock.now += seconds
            counted += seconds if stack else 0
    while stack:
        stack.pop().__exit__(None, None, None)
    assert sum(phases.take().values()) == counted


def test_nobody_pays_for_time_that_nobody_asked_for() -> None:
    assert untimed("generate") is untimed("reward")
    started = time.perf_counter()
    for _ in range(10_000):
        with untimed("generate"):
            pass
    assert time.perf_counter() - started < 0.5


def test_a_time_is_shared_out_over_episodes_completions_and_tokens() -> None:
    found = latency(suite(), 16.0)
    assert (found.episodes, found.completions, found.tokens) == (32, 64, 224)
    assert (found.seconds_per_episode, found.seconds_per_completion, found.tokens_per_second) == (
        0.5,
        0.25,
        14.0,
    )


def test_without_completions_their_speed_is_missing_and_not_zero() -> None:
    found = latency([play("item", 0, True)], 1.0)
    assert found.seconds_per_completion is None and found.tokens_per_second is None


def test_a_stopwatch_passes_on_what_it_is_told_and_stops_with_the_last_episode() -> None:
    told: list[int] = []
    stopwatch = Stopwatch(told.append)
    assert stopwatch.seconds == 0.0
    stopwatch(3)
    first = stopwatch.seconds
    stopwatch(2)
    assert told == [3, 2] and stopwatch.seconds >= first > 0
