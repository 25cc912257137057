"""Calls to an environment that are made again where it failed, until it is given up."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from assay.core.errors import AssayError, EnvironmentFailure, EnvironmentLost, TaskError
from assay.rollout.dataset.suite import Play

P = ParamSpec("P")
T = TypeVar("T")
# Before a failed call is made again: 0.05 s, then four times as long each time, at most 5 s. What has
# restarted or was overloaded for a moment is there again; an environment that is gone for good costs a batch
# of 256 a minute (2 retries).
FIRST_WAIT_S, GROWTH, LONGEST_WAIT_S = 0.05, 4.0, 5.0


class GivenUp(Exception):
    """The environment failed as often as it was allowed to."""

    reward: float | None = None

    def __init__(self, reason: str, attempts: int) -> None:
        self.reason, self.attempts = reason, attempts
        super().__init__(reason)

    def of(self, play: Play) -> AssayError:
        """Return this as the end of an evaluation."""
        return EnvironmentLost(
            "an environment that answers",
            found=f"{self.reason} ({self.attempts} attempt{'s' if self.attempts > 1 else ''})",
            where=f"item {play.item.id}, draw {play.draw}",
            fix=(
                "see to the environment and give the same command again; a stage goes on with the batches it"
                " has finished"
            ),
        )


class NotFinite(GivenUp):
    """A task gave NaN or Inf as a part of the reward: its own fault, and no second call would help."""

    def __init__(self, part: str, reward: float, reason: str | None = None) -> None:
        super().__init__(reason or f"reward part {part} is {reward}", 1)
        self.reward = reward

    def of(self, play: Play) -> AssayError:
        """Return this as the end of an evaluation."""
        where = f"item {play.item.id}, draw {play.draw}"
        return TaskError(
            "finite reward parts",
            found=self.reason,
            where=where,
            fix="see to the task's grading of this item",
        )


def tried(retries: int, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[T, int]:
    """Return what a call returns and how often it was made again; states are values, so a second call is the
    same call.

    There is a short, growing wait before each further call, since what ails an environment often passes in a
    moment.

    Raises:
        GivenUp: It failed `retries` + 1 times; the environment's fault, never the model's.
    """
    reason = ""
    for again in range(retries + 1):
        if again:
            pause(wait_before(again))
        try:
            return call(*args, **kwargs), again
        except EnvironmentFailure as error:
            reason = _reason(error)
    raise GivenUp(reason, retries + 1)


def tried_together(
    retries: int, call: Callable[[Sequence[int]], Sequence[T | EnvironmentFailure]], n: int
) -> list[tuple[T | GivenUp, int]]:
    """Return by place what calls made at once return, and how often each was made again.

    Those that failed are made again, at once too, as `tried` makes one again.

    Args:
        retries: How often each may be made again.
        call: Makes the calls of some places.
        n: Places.
    """
    found: dict[int, tuple[T | GivenUp, int]] = {}
    left: Sequence[int] = range(n)
    for again in range(retries + 1):
        if again:
            pause(wait_before(again))
        for place, one in zip(left, call(left), strict=True):
            found[place] = (
                (GivenUp(_reason(one), again + 1), again)
                if isinstance(one, EnvironmentFailure)
                else (one, again)
            )
        left = [place for place in left if isinstance(found[place][0], GivenUp)]
        if not left:
            break
    return [found[place] for place in range(n)]


def _reason(error: EnvironmentFailure) -> str:
    return ": ".join(part for part in (type(error).__name__, str(error).split("\n")[0]) if part)


def wait_before(again: int) -> float:
    """Return the seconds of waiting before a call is made again for the n-th time.

    >>> [wait_before(again) for again in (1, 2, 3, 4, 5, 500)]
    [0.05, 0.2, 0.8, 3.2, 5.0, 5.0]
    """
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * GROWTH ** min(again - 1, 16))


def pause(seconds: float) -> None:
    """Wait; a function of its own, so that tests of failing environments take no time."""
    time.sleep(seconds)
