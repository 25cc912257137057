"""Where the time of playing goes: seconds by the name of what was being done, each second counted once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

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
