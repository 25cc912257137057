"""Where the time of playing goes: seconds by the name of what was being done, each second counted once.

Times are reported beside the results, and are never part of a result or a reward.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from pydantic import Field

from assay.core.records import Episode, Record

Timed = Callable[[str], AbstractContextManager[None]]
_NOTHING = nullcontext()
# Of a training step, in the order they come.
PHASES = (
    "encode",
    "generate",
    "environment",
    "reward",
    "forward",
    "backward",
    "optimizer",
    "kl_probe",
    "logging",
    "checkpoint",
    "validation",
    "other",
)


def untimed(name: str) -> AbstractContextManager[None]:
    """Return a context that takes no time, where nobody asked for it."""
    return _NOTHING


class Phases:
    """Wall seconds by name: `with phases("generate"): ...`.

    Phases may be nested; a second belongs to the innermost one that is open, so that all of them add up to
    the time in which any was open.

    >>> ticks = iter([0.0, 1.0, 3.0, 7.0])
    >>> phases = Phases(lambda: next(ticks))
    >>> with phases("encode"):
    ...     with phases("environment"):
    ...         pass
    >>> phases.take(), phases.take()
    ({'encode': 5.0, 'environment': 2.0}, {})
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Start with nothing; `clock` gives seconds."""
        self._clock = clock
        self._seconds: dict[str, float] = {}
        self._open: list[str] = []
        self._since = 0.0

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Count what happens inside under a name; also when it raises."""
        self._credit()
        self._open.append(name)
        self._seconds.setdefault(name, 0.0)
        try:
            yield
        finally:
            self._credit()
            self._open.pop()

    def take(self) -> dict[str, float]:
        """Return the seconds by name since the last call, and begin anew."""
        if self._open:
            self._credit()
        taken, self._seconds = self._seconds, {}
        return taken

    def _credit(self) -> None:
        """Give the time since the last change to the phase that was open then."""
        now = self._clock()
        if self._open:
            name = self._open[-1]
            self._seconds[name] = self._seconds.get(name, 0.0) + now - self._since
        self._since = now


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
