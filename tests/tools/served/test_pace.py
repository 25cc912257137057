"""How fast a server is asked: never faster than the limits, whatever the number of threads."""

from __future__ import annotations

import threading
import time

import pytest

from assay.rollout.policy.served.pace import Pace, Stopped


def let_through(pace: Pace, n: int, threads: int, tokens: int = 10) -> list[float]:
    """Return when each of n requests was let through, in order; each turns out to have so many tokens."""
    times: list[float] = []

    def work(many: int) -> None:
        for _ in range(many):
            sent = pace.enter(tokens)
            times.append(sent.at)
            pace.count(sent, tokens)

    workers = [threading.Thread(target=work, args=(n // threads,)) for _ in range(threads)]
    for each in workers:
        each.start()
    for each in workers:
        each.join(30)
    assert len(times) == n
    return sorted(times)


def most_within(times: list[float], window: float) -> int:
    return max(sum(start <= each < start + window for each in times) for start in times)


@pytest.mark.parametrize("threads", [1, 8])
def test_no_window_has_more_requests_than_its_limit(threads: int) -> None:
    times = let_through(Pace(8, None, window=0.3), 32, threads)
    assert most_within(times, 0.3) <= 8
    assert 0.9 <= times[-1] - times[0] < 3


@pytest.mark.parametrize("threads", [1, 8])
def test_no_window_has_more_tokens_than_its_limit(threads: int) -> None:
    times = let_through(Pace(None, 40, window=0.3), 16, threads)
    assert most_within(times, 0.3) <= 4
    assert 0.9 <= times[-1] - times[0] < 3


def test_without_limits_nobody_waits() -> None:
    times = let_through(Pace(None, None), 2000, 4)
    assert times[-1] - times[0] < 2


def test_a_request_larger_than_the_limit_goes_alone() -> None:
    times = let_through(Pace(None, 5, window=0.2), 3, 1)
    assert times[1] - times[0] >= 0.2 and times[2] - times[1] >= 0.2


def test_what_is_under_way_is_reckoned_with_before_it_is_counted() -> None:
    pace = Pace(None, 100, window=0.3)
    first, second = pace.enter(50), pace.enter(50)
    began = time.monotonic()
    pace.enter(50)
    assert time.monotonic() - began >= 0.25 and (first.tokens, second.tokens) == (50, 50)


def test_fewer_tokens_than_reckoned_with_let_others_through_at_once() -> None:
    pace, through = Pace(None, 100, window=30), threading.Event()
    sent = pace.enter(100)

    def wait() -> None:
        pace.enter(100)
        through.set()

    threading.Thread(target=wait, daemon=True).start()
    assert not through.wait(0.1)
    pace.count(sent, 10)
    assert through.wait(5)


def test_nobody_is_let_through_while_the_server_wants_to_be_left_alone() -> None:
    pace = Pace(None, None)
    pace.hold(0.3)
    pace.hold(0.1)  # the longer one holds
    began = time.monotonic()
    pace.enter(1)
    assert 0.28 <= time.monotonic() - began < 2


def test_whoever_waits_is_told_when_it_is_over() -> None:
    pace, stopped = Pace(None, None), []
    pace.hold(60)

    def wait(how: str) -> None:
        try:
            pace.pause(60) if how == "pause" else pace.enter(1)
        except Stopped:
            stopped.append(how)

    threads = [threading.Thread(target=wait, args=(how,)) for how in ("pause", "enter")]
    for each in threads:
        each.start()
    pace.stop()
    for each in threads:
        each.join(5)
    assert sorted(stopped) == ["enter", "pause"]
