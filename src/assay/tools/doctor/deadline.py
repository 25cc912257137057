"""How long an examination may take: what does not fit into it is left out, and said."""

from __future__ import annotations

import time
from collections.abc import Callable

# With the import of torch and the loading of a base before it, a whole call stays under 110 s.
MOST_SECONDS = 85.0
AHEAD = 0.4  # of the time, for what is forecast before the base is played with
LEAST = 0.5 * MOST_SECONDS  # for the rest, however long the forecast and loading the base took


class TooSlow(Exception):
    """There is no time for what has to be done at least; says for what."""


class Deadline:
    """A time by which to be done.

    >>> ticks = iter([10.0, 14.0, 21.0])
    >>> deadline = Deadline(10.0, lambda: next(ticks))
    >>> deadline.left, deadline.left
    (6.0, 0.0)
    """

    def __init__(self, seconds: float = MOST_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin now; `clock` gives seconds."""
        self._clock, self._end = clock, clock() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self._end - self._clock())
