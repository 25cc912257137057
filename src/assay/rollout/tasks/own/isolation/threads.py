"""Calls side by side in threads, each with a time-out."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")
# One thread is left alone as long as it begins so many calls in so many seconds: where calls compute for
# microseconds, further threads would only take turns with it.
ALONE_S, QUICK = 0.001, 10
Beat = Callable[[], None]


class Threads:
    """Threads that wait for calls.

    One that overruns is abandoned: its call has no result, `SystemExit` is raised in it (which ends an
    endless loop of Python), and another thread takes its place.

    Args:
        most: At once; 0: one after the other in the calling thread, which nobody interrupts.
        timeout_s: Between two beats of a call.
    """

    def __init__(self, most: int, timeout_s: float) -> None:
        self._most, self._timeout_s = most, timeout_s
        self._begin()

    def _begin(self) -> None:
        self._process, self._lock = os.getpid(), threading.Lock()
        self._idle: list[_Hand] = []
        self._waiting: deque[_Batch[Any, Any]] = deque()
        self._hands = 0
        self._abandoned: list[threading.Thread] = []

    @property
    def stuck(self) -> int:
        """How many abandoned threads still run."""
        self._abandoned = [thread for thread in self._abandoned if thread.is_alive()]
        return len(self._abandoned)

    def run(
        self,
        work: Callable[[A, Beat], B],
        on: Sequence[A],
        heard: Callable[[int, B | None], None] | None = None,
    ) -> list[B | None]:
        """Return what the work makes of each, by place; None where it overran.

        Args:
            work: Takes one, and what it calls whenever its time begins anew; raises nothing.
            on: What to work on.
            heard: Called in the thread that works, never by two at once, with the place of one: with None at
                a beat, and with what the work makes of it.
        """
        if not on:
            return []
        if os.getpid() != self._process:  # a fork has no threads
            self._begin()
        batch = _Batch(work, on, heard)
        if not self._most:
            batch.work(_Hand())
            return batch.results
        try:
            self._call(batch, 1)
            begun = -QUICK
            while batch.begun >= begun + QUICK:
                begun = batch.begun
                if batch.done.acquire(timeout=ALONE_S):
                    return batch.results
            self._call(batch, min(self._most, len(on)) - 1)
            while not batch.done.acquire(timeout=batch.patience(self._timeout_s)):
                for hand in batch.overdue(self._timeout_s):
                    self._abandon(hand, batch)
            return batch.results
        finally:
            batch.stop()

    def _call(self, batch: _Batch[Any, Any], hands: int) -> None:
        for _ in range(hands):
            with self._lock:
                if self._idle:
                    hand = self._idle.pop()  # the one that was busy last is the quickest
                elif self._hands < self._most:
                    hand, self._hands = _Hand(), self._hands + 1
                    hand.thread = threading.Thread(target=self._serve, args=(hand,), daemon=True)
                    hand.thread.start()
                else:
                    self._waiting.append(batch)
                    continue
            hand.batch = batch
            hand.wake.release()

    def _serve(self, hand: _Hand) -> None:
        while True:
            hand.wake.acquire()
            while hand.batch is not None:
                hand.batch.work(hand)
                if hand.gone:
                    return
                with self._lock:
                    hand.batch = self._waiting.popleft() if self._waiting else None
                    if hand.batch is None:
                        self._idle.append(hand)

    def _abandon(self, hand: _Hand, batch: _Batch[Any, Any]) -> None:
        self._abandoned.append(hand.thread)
        with self._lock:
            self._hands -= 1
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(hand.thread.ident or 0), ctypes.py_object(SystemExit)
        )
        self._call(batch, 1)


class _Hand:
    """A thread, the place it works on, and since when."""

    __slots__ = ("batch", "gone", "place", "since", "thread", "wake")

    thread: threading.Thread

    def __init__(self) -> None:
        self.place, self.since, self.gone = -1, 0.0, False
        self.batch: _Batch[Any, Any] | None = None
        self.wake = threading.Lock()
        self.wake.acquire()

    def beat(self) -> None:
        self.since = time.monotonic()


class _Batch(Generic[A, B]):
    def __init__(
        self, work: Callable[[A, Beat], B], on: Sequence[A], heard: Callable[[int, B | None], None] | None
    ) -> None:
        self._work, self._on, self._heard = work, on, heard
        self._lock, self.done = threading.Lock(), threading.Lock()
        self.done.acquire()
        self.results: list[B | None] = [None] * len(on)
        self._next, self._left = 0, len(on)
        self._busy: set[_Hand] = set()

    def work(self, hand: _Hand) -> None:
        """Work on one place after the other, until none is left or the thread is abandoned."""
        work, on = self._work, self._on
        beat = hand.beat if self._heard is None else partial(self._beat, hand)
        with self._lock:
            more = self._take(hand)
        while more:
            result = work(on[hand.place], beat)
            with self._lock:
                if hand.gone:
                    return
                self.results[hand.place] = result
                if self._heard is not None:
                    self._heard(hand.place, result)
                self._finished()
                more = self._take(hand)

    def _beat(self, hand: _Hand) -> None:
        hand.beat()
        with self._lock:
            if self._heard is not None and not hand.gone:
                self._heard(hand.place, None)

    def _take(self, hand: _Hand) -> bool:
        if self._next >= len(self._on):
            self._busy.discard(hand)
            return False
        hand.place, self._next = self._next, self._next + 1
        hand.since = time.monotonic()
        self._busy.add(hand)
        return True

    def _finished(self) -> None:
        self._left -= 1
        if not self._left:
            self.done.release()

    @property
    def begun(self) -> int:
        """How many calls have been begun."""
        return self._next

    def patience(self, timeout_s: float) -> float:
        """Return the seconds until somebody may be overdue."""
        with self._lock:
            since = min((hand.since for hand in self._busy), default=time.monotonic())
        return max(0.001, since + timeout_s - time.monotonic())

    def overdue(self, timeout_s: float) -> list[_Hand]:
        """Take their places from those who overran, and return them."""
        now = time.monotonic()
        with self._lock:
            found = [hand for hand in self._busy if now - hand.since >= timeout_s]
            for hand in found:
                hand.gone = True
                self._busy.discard(hand)
                self._finished()
        return found

    def stop(self) -> None:
        """Begin nothing further."""
        with self._lock:
            self._next = len(self._on)
