"""How fast a server is asked: limits a minute, and waiting while it says so."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass

MINUTE = 60.0


class Stopped(Exception):
    """Nobody wants the answer any more."""


@dataclass(slots=True)
class Sent:
    """One request: when it was let through, and the tokens it is counted with."""

    at: float
    tokens: int


class Pace:
    """Lets requests through, from any thread: in no `window` more than its limits.

    The tokens of a request are known once it is answered; until then it is counted with the most that one
    had so far.

    Args:
        requests: How many a window; None for any number.
        tokens: How many of prompts and answers a window; a single request that has more goes alone.
        window: Seconds.
    """

    def __init__(self, requests: int | None, tokens: int | None, window: float = MINUTE) -> None:
        self._requests, self._tokens, self._window = requests, tokens, window
        self._sent: deque[Sent] = deque()
        self._most: int | None = None
        self._held = 0.0
        self._stopped = False
        self._turned = threading.Condition()

    def enter(self, guess: int) -> Sent:
        """Wait for room and take it; `guess` are the tokens to reckon with before any answer is there.

        Raises:
            Stopped: `stop` was called.
        """
        with self._turned:
            while not self._stopped:
                now = time.monotonic()
                while self._sent and self._sent[0].at <= now - self._window:
                    self._sent.popleft()
                expected = guess if self._most is None else self._most
                wait = max(self._held - now, self._until_room(now, expected))
                if wait <= 0:
                    self._sent.append(Sent(now, expected))
                    return self._sent[-1]
                self._turned.wait(wait)
        raise Stopped

    def _until_room(self, now: float, expected: int) -> float:
        if not self._sent:
            return 0.0
        wait = 0.0
        if self._requests is not None and len(self._sent) >= self._requests:
            wait = self._sent[-self._requests].at + self._window - now
        if self._tokens is not None:
            over = sum(each.tokens for each in self._sent) + expected - self._tokens
            for each in self._sent:
                if over <= 0:
                    break
                over -= each.tokens
                wait = max(wait, each.at + self._window - now)
        return wait

    def count(self, sent: Sent, tokens: int) -> None:
        """Count a request with the tokens that it had."""
        with self._turned:
            sent.tokens = tokens
            self._most = max(self._most or 0, tokens)
            self._turned.notify_all()

    def hold(self, seconds: float) -> None:
        """Let nothing through for so long."""
        with self._turned:
            self._held = max(self._held, time.monotonic() + seconds)

    def pause(self, seconds: float) -> None:
        """Wait, in one thread alone.

        Raises:
            Stopped: `stop` was called.
        """
        end = time.monotonic() + seconds
        with self._turned:
            while not self._stopped and (left := end - time.monotonic()) > 0:
                self._turned.wait(left)
            if self._stopped:
                raise Stopped

    def stop(self) -> None:
        """Let nothing through any more; whoever waits is told."""
        with self._turned:
            self._stopped = True
            self._turned.notify_all()
