"""Time is counted where episodes are played, and stays outside of what is compared."""

from __future__ import annotations

from assay.evaluation.phases import Stopwatch, latency
from tests.evaluation.test_report import suite
from tests.evaluation.test_statistics import play


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
