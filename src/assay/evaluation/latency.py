"""How long playing took: measured, reported beside the results, and never part of a result or a reward."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from pydantic import Field

from assay.core.records import Episode, Record


class Latency(Record):
    """Wall-clock time of playing a suite in batches; null where nothing was written."""

    seconds: float = Field(ge=0, description="of the process that took longest")
    processes: int = Field(ge=1, description="that shared the playing")
    episodes: int = Field(ge=1, description="that were played in this time")
    episodes_kept: int = Field(
        ge=0, description="of the suite beside them: played in an earlier call that was interrupted"
    )
    completions: int = Field(ge=0)
    tokens: int = Field(ge=0, description="that the policy wrote")
    seconds_per_episode: float
    seconds_per_completion: float | None = Field(
        description="in batches: not what one request alone would wait"
    )
    tokens_per_second: float | None


def latency(episodes: Sequence[Episode], seconds: float, *, kept: int = 0, processes: int = 1) -> Latency:
    """Return what a measured time comes to per episode, completion and token.

    Args:
        episodes: Those that were played in this time, at least one.
        seconds: The time.
        kept: How many episodes of the suite were played before, in a time that nobody remembers.
        processes: How many played at once.
    """
    completions, tokens = sum(len(e.turns) for e in episodes), sum(e.n_tokens for e in episodes)
    return Latency(
        seconds=round(seconds, 6),
        processes=processes,
        episodes=len(episodes),
        episodes_kept=kept,
        completions=completions,
        tokens=tokens,
        seconds_per_episode=round(seconds / len(episodes), 6),
        seconds_per_completion=round(seconds / completions, 6) if completions else None,
        tokens_per_second=round(tokens / seconds, 3) if tokens and seconds > 0 else None,
    )


class Stopwatch:
    """A progress callback that passes on what it is told and remembers when it was told last.

    So loading a model and computing a report are not counted as playing.
    """

    def __init__(self, told: Callable[[int], object]) -> None:
        """Start now."""
        self._told, self._started = told, time.perf_counter()
        self.seconds = 0.0

    def __call__(self, episodes: int) -> None:
        """Take the time at which so many episodes ended."""
        self.seconds = time.perf_counter() - self._started
        self._told(episodes)
