"""Somebody's code in this very process."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence

import numpy as np

from assay.core.errors import EnvironmentFailure
from assay.tasks.own.api import Environment
from assay.tasks.own.calls import Ask, Call, Failed, Reply
from assay.tasks.own.isolation.threads import Threads
from assay.tasks.own.kept import Beat, Kept, Unrepeatable
from assay.tasks.own.loading import IMPORTED, NoReward
from assay.tasks.own.players import move

# Classes, by name, in which libraries tell a lost connection or a time-out without Python's own: requests,
# httpx, aiohttp, websockets and clients of models. Their names are enough, so none of them is imported.
LOST = frozenset(
    {
        "APIConnectionError",
        "ClientConnectionError",
        "ConnectionClosed",
        "ConnectionError",
        "Timeout",
        "TransportError",
    }
)


class Inline:
    """Plays calls side by side in threads.

    Args:
        make: Gives a fresh environment.
        parts: Names that rewards may have.
        threads: Calls at once.
        timeout_s: Of one reset, step or player's move.
        on_beat: Told the place of a call each time something of somebody's code is about to run.
    """

    def __init__(
        self,
        make: Callable[[], Environment],
        parts: Sequence[str],
        *,
        threads: int,
        timeout_s: float,
        on_beat: Callable[[int], None] | None = None,
    ) -> None:
        self._kept = Kept(make, frozenset(parts))
        self._threads, self._timeout_s = Threads(threads, timeout_s), timeout_s
        self._on_beat = on_beat

    @property
    def stuck(self) -> int:
        """Calls that overran and still go on."""
        return self._threads.stuck

    def tell(self, calls: Sequence[Call]) -> list[Reply | Failed]:
        """Return what each call leads to."""
        found = self._threads.run(self._told, calls)
        return [self._overran() if each is None else each for each in found]

    def say(self, asks: Sequence[Ask]) -> list[str | Failed]:
        """Return what each player says next."""
        found = self._threads.run(self._said, asks)
        return [self._overran() if each is None else each for each in found]

    def close(self) -> None:
        """Close the environments that are kept."""
        self._kept.close()

    def _overran(self) -> Failed:
        return Failed("lost", f"no answer in {self._timeout_s:g} s (task.timeout_s)")

    def _heard(self, place: int, beat: Beat) -> Beat:
        if self._on_beat is None:
            return beat
        tell = self._on_beat

        def both() -> None:
            beat()
            tell(place)

        return both

    def _told(self, call: Call, place: int, beat: Beat) -> Reply | Failed:
        try:
            return self._kept.told(call, self._heard(place, beat))
        except BaseException as error:  # noqa: BLE001 - somebody's code raises anything
            return failed(error)

    def _said(self, ask: Ask, place: int, beat: Beat) -> str | Failed:
        rng = np.random.default_rng(ask.seed)
        try:
            return self._kept.look(
                ask.call, self._heard(place, beat), lambda live: move(live.environment, ask, live.told, rng)
            )
        except BaseException as error:  # noqa: BLE001 - somebody's code raises anything
            found = failed(error)
            return Failed(found.kind, f"player {ask.player}: {found.reason}")


def failed(error: BaseException) -> Failed:
    """Return what an exception of somebody's code means; it says the line of their file."""
    if isinstance(error, Unrepeatable):
        return Failed("unrepeatable", str(error))
    lines = [
        f" (line {line} of {frame.f_code.co_filename.rpartition('/')[2]})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).startswith(IMPORTED)
    ]
    reason = f"{type(error).__name__}: {error}"[:1000] + (lines[-1] if lines else "")
    python = isinstance(error, NoReward | EnvironmentFailure | TimeoutError | ConnectionError)
    lost = python or any(kind.__name__ in LOST for kind in type(error).__mro__)
    return Failed("lost" if lost else "raised", reason)
