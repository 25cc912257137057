"""Ctrl-C and SIGTERM during a training: the step is finished and saved before the process ends."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# A parent that dies with several threads says so once for each: SIGTERMs so close together are one.
ONE_SIGTERM_SECONDS = 1.0


class Interruption:
    """While entered, remembers the first signal to stop instead of dying of it; a second one acts at once.

    Args:
        told: Called with the signal's name when it arrives, so that somebody who waits knows why.
    """

    def __init__(self, told: Callable[[str], None]) -> None:
        self._told = told
        self._before: dict[signal.Signals, Any] = {}
        self.signal: signal.Signals | None = None
        self.heard: signal.Signals | None = (
            None  # of any process: whoever was asked, all stop for the same reason
        )
        self._since = 0.0

    def __enter__(self) -> Interruption:
        """Take over the signals; only a main thread can."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._remember) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signals back."""
        self._give_back()

    def _give_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _remember(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.signal is None:
            self.signal, self._since = signal.Signals(number), now
            self._told(self.signal.name)
        elif number == signal.SIGINT or now - self._since > ONE_SIGTERM_SECONDS:
            self._give_back()
            signal.raise_signal(number)

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that a signal ended."""
        return 128 + int(self.heard or self.signal or 0)
