"""Somebody's code in this very process."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from assay.core.errors import EnvironmentFailure
from assay.rollout.tasks.own.api import Environment
from assay.rollout.tasks.own.calls import Ask, Call, Failed, Reply
from assay.rollout.tasks.own.isolation.threads import Threads
from assay.rollout.tasks.own.kept import Beat, Kept, Unrepeatable
from assay.rollout.tasks.own.loading import IMPORTED, NoReward, load
from assay.rollout.tasks.own.mixins import OF_MOMENT, answered, step_batch_of
from assay.rollout.tasks.own.players import move
from assay.rollout.tasks.own.settings import OwnTask

A = TypeVar("A")
B = TypeVar("B", bound=Reply | str | Failed)

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


Heard = Callable[[int, Reply | str | Failed | None], None]


class Inline:
    """Plays calls side by side in threads.

    Args:
        make: Gives a fresh environment.
        parts: Names that rewards may have.
        threads: Calls at once; 0: in the calling thread, without a time-out.
        timeout_s: Of one reset, step or player's move; with `together`, of one step of all.
        together: Whether environments are stepped together.
    """

    def __init__(
        self,
        make: Callable[[], Environment],
        parts: Sequence[str],
        *,
        threads: int,
        timeout_s: float,
        together: bool = False,
    ) -> None:
        self._make, self._together = make, together
        self._kept = Kept(make, frozenset(parts))
        self._threads, self._timeout_s = Threads(threads, timeout_s), timeout_s

    @property
    def stuck(self) -> int:
        """Calls that overran and still go on."""
        return self._threads.stuck

    def tell(self, calls: Sequence[Call], heard: Heard | None = None) -> list[Reply | Failed]:
        """Return what each call leads to.

        Args:
            calls: To play.
            heard: Called in the thread that plays, never by two at once, with the place of a call: with None
                before anything of somebody's runs, and with what the call leads to.
        """
        places = [place for place, call in enumerate(calls) if call.completions] if self._together else []
        if len(places) < 2:
            return self._all(self._told, calls, heard)
        found: dict[int, Reply | Failed] = {}

        def heard_of_all(_: int, replies: list[Reply] | Failed | None) -> None:
            if heard is not None and not isinstance(replies, Failed):
                if replies is None:
                    heard(places[0], None)
                for place, reply in zip(places, replies or (), strict=False):
                    heard(place, reply)

        replies = self._threads.run(self._told_together, [[calls[place] for place in places]], heard_of_all)[
            0
        ]
        if isinstance(replies, list):
            found = dict(zip(places, replies, strict=True))
        # One by one what is opened, and all of it where a batch failed: so that what is at fault is named.
        left = [place for place in range(len(calls)) if place not in found]
        alone = None if heard is None else lambda n, each: heard(left[n], each)
        found |= dict(zip(left, self._all(self._told, [calls[place] for place in left], alone), strict=True))
        return [found[place] for place in range(len(calls))]

    def _told_together(self, calls: Sequence[Call], beat: Beat) -> list[Reply] | Failed:
        try:
            return self._kept.told_together(calls, beat, step_batch_of(self._make()))
        except BaseException as error:  # noqa: BLE001 - somebody's code raises anything
            return failed(error)

    def say(self, asks: Sequence[Ask], heard: Heard | None = None) -> list[str | Failed]:
        """Return what each player says next; `heard` as in `tell`."""
        return self._all(self._said, asks, heard)

    def close(self) -> None:
        """Close the environments that are kept."""
        self._kept.close()

    def _all(self, play: Callable[[A, Beat], B], on: Sequence[A], heard: Heard | None) -> list[B | Failed]:
        overran = Failed("lost", f"no answer in {self._timeout_s:g} s (task.timeout_s)")
        return [overran if each is None else each for each in self._threads.run(play, on, heard)]

    def _told(self, call: Call, beat: Beat) -> Reply | Failed:
        try:
            return self._kept.told(call, beat)
        except BaseException as error:  # noqa: BLE001 - somebody's code raises anything
            return failed(error)

    def _said(self, ask: Ask, beat: Beat) -> str | Failed:
        if ask.given is not None:
            return self._answered(ask, beat)
        rng = np.random.default_rng(ask.seed)
        try:
            return self._kept.look(ask.call, beat, lambda live: move(live.environment, ask, live.told, rng))
        except BaseException as error:  # noqa: BLE001 - somebody's code raises anything
            found = failed(error)
            return Failed(found.kind, f"player {ask.player}: {found.reason}")

    def _answered(self, ask: Ask, beat: Beat) -> str | Failed:
        try:
            if ask.player in OF_MOMENT:
                return self._kept.look(ask.call, beat, lambda live: answered(live.environment, ask))
            beat()
            environment = self._make()
            try:
                return answered(environment, ask)
            finally:
                with contextlib.suppress(Exception):
                    environment.close()
        except BaseException as error:  # noqa: BLE001 - somebody's code raises anything
            found = failed(error)
            return Failed(found.kind, f"{ask.player}: {found.reason}")


def inline_of(settings: OwnTask, root: str, threads: int | None = None) -> Inline:
    """Return what runs a task's code in this process; in so many threads, None: as the settings say.

    Raises:
        ConfigError: Its code cannot be loaded.
    """
    make = load(settings, root)
    threads = settings.threads if threads is None else threads
    together = "batch_step" in settings.abilities
    return Inline(
        make, list(settings.parts), threads=threads, timeout_s=settings.timeout_s, together=together
    )


def failed(error: BaseException) -> Failed:
    """Return what an exception of somebody's code means; it says the line of their file."""
    if isinstance(error, Unrepeatable):
        return Failed("unrepeatable", str(error))
    lines = [
        f" (line {line} of {frame.f_code.co_filename.rpartition('/')[2]})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).startswith(IMPORTED)
    ]
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - somebody's exception
        said = "it cannot be told"
    reason = f"{type(error).__name__}: {said}"[:1000] + (lines[-1] if lines else "")
    python = isinstance(error, NoReward | EnvironmentFailure | TimeoutError | ConnectionError)
    lost = python or any(kind.__name__ in LOST for kind in type(error).__mro__)
    return Failed("lost" if lost else "raised", reason)
