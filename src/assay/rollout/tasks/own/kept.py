"""Environments made values: live ones are kept by the state they are in, and any state is reached again by
replay."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.storage.json import digest
from assay.rollout.tasks.own.api import Environment
from assay.rollout.tasks.own.calls import NOTHING_MORE, Call, Reply, checked, messages_of
from assay.rollout.tasks.own.mixins import StepBatch

MOST_REMEMBERED = 1 << 16  # replies of which a hash is kept, and records of which the digest is
PLAIN = frozenset({str, int, float, bool, type(None)})

Beat = Callable[[], None]  # called before anything of somebody's is
Key = tuple[str, int, tuple[str, ...]]


class Unrepeatable(Exception):
    """The same record, seed and completions told something else than before."""


@dataclass(slots=True)
class Live:
    """An environment in a state, and what it told last."""

    environment: Environment
    told: Reply


class Kept:
    """Plays calls, each from the live environment that is in the state before it, or from a reset.

    Threads may share it: while an environment plays, it is nobody else's.

    Args:
        make: Gives a fresh environment.
        parts: Names that rewards may have.
    """

    def __init__(self, make: Callable[[], Environment], parts: frozenset[str]) -> None:
        self._make, self._parts = make, parts
        self._lock = threading.Lock()
        self._live: OrderedDict[Key, list[Live]] = OrderedDict()
        self._alive = 0
        self._hashes: dict[int, int] = {}
        self._digests: dict[int, tuple[Mapping[str, Any], str]] = {}

    def told(self, call: Call, beat: Beat) -> Reply:
        """Return what is told after the last completion of a call, and keep the environment.

        Raises:
            Unrepeatable: It is not what was told before.
            Exception: Whatever somebody's code raises.
        """
        key = self._key(call)
        live = self._reach(call, key, beat)
        self._give(key, live)
        return live.told

    def told_together(self, calls: Sequence[Call], beat: Beat, step: StepBatch) -> list[Reply]:
        """Return what is told after the last completion of each call, all of them stepped at once.

        Raises:
            Unrepeatable: Something is not what was told before.
            Exception: Whatever somebody's code raises; nothing is kept then.
        """
        keys, lives = [self._key(call) for call in calls], list[Live]()
        try:
            for call, (row, seed, completions) in zip(calls, keys, strict=True):
                before = row, seed, completions[:-1]
                earlier = Call(call.row, seed, completions[:-1])
                lives.append(self._take(before) or self._reach(earlier, before, beat))
            beat()
            told = step([live.environment for live in lives], [key[2][-1] for key in keys])
            if len(told) != len(calls):
                raise TypeError(f"step_batch returned {len(told)} for {len(calls)} completions")
            for key, live, each in zip(keys, lives, told, strict=True):
                live.told = checked(each, self._parts)
                self._compare(key, live.told)
        except BaseException:
            for live in lives:
                self._close(live.environment)
            raise
        for key, live in zip(keys, lives, strict=True):
            self._give(key, live)
        return [live.told for live in lives]

    def look(self, call: Call, beat: Beat, at: Callable[[Live], str]) -> str:
        """Return what somebody who only looks makes of the state that a call led to."""
        key = self._key(call)
        live = self._take(key) or self._reach(call, key, beat)
        beat()
        said = at(live)
        self._give(key, live)
        return said

    def close(self) -> None:
        """Close what is kept."""
        with self._lock:
            left = [live for there in self._live.values() for live in there]
            self._live.clear()
        for live in left:
            self._close(live.environment)

    def _reach(self, call: Call, key: Key, beat: Beat) -> Live:
        digest_of_row, seed, completions = key
        live = self._take((digest_of_row, seed, completions[:-1])) if completions else None
        if live is None:
            live, played = self._opened(call, beat), 0
            self._compare((digest_of_row, seed, ()), live.told)
        else:
            played = len(completions) - 1
        try:
            for n in range(played, len(completions)):
                beat()
                live.told = checked(live.environment.step(completions[n]), self._parts)
                self._compare((digest_of_row, seed, completions[: n + 1]), live.told)
        except BaseException:
            self._close(live.environment)  # in no state that anybody knows
            raise
        return live

    def _opened(self, call: Call, beat: Beat) -> Live:
        beat()
        environment = self._make()
        with self._lock:
            self._alive += 1
            spare = self._alive > environment.most_alive and self._oldest()
        if spare:
            self._close(spare.environment)
        beat()
        try:
            return Live(environment, Reply(messages_of(environment.reset(_own(call.row), call.seed)), {}))
        except BaseException:
            self._close(environment)
            raise

    def _compare(self, key: Key, told: Reply) -> None:
        """Remember what was told, or see that it is the same as before."""
        text = tuple(each["content"] for each in told.messages)
        # As text, since the hashes of -1.0 and -2.0 are the same.
        more = () if told.more is NOTHING_MORE else (str(told.more),)
        heard = hash((text, str(told.parts), told.success, told.failure, *more))
        with self._lock:
            before = self._hashes.setdefault(hash(key), heard)
            if len(self._hashes) > MOST_REMEMBERED:
                del self._hashes[next(iter(self._hashes))]
        if before != heard:
            after = f"after {len(key[2])} completions" if key[2] else "by the reset"
            raise Unrepeatable(f"{after} something else was told than before: {_shown(told)}")

    def _key(self, call: Call) -> Key:
        known = self._digests.get(id(call.row))
        if known is None or known[0] is not call.row:
            known = call.row, digest(call.row)
            with self._lock:
                if len(self._digests) >= MOST_REMEMBERED:
                    self._digests.clear()
                self._digests[id(call.row)] = known
        return known[1], call.seed, call.completions

    def _take(self, key: Key) -> Live | None:
        with self._lock:
            there = self._live.get(key)
            if there is None:
                return None
            if len(there) == 1:
                del self._live[key]
            return there.pop()

    def _give(self, key: Key, live: Live) -> None:
        if not live.told.messages:
            self._close(live.environment)
            return
        with self._lock:
            self._live.setdefault(key, []).append(live)
            self._live.move_to_end(key)

    def _oldest(self) -> Live | None:
        if not self._live:
            return None
        key, there = next(iter(self._live.items()))
        if len(there) == 1:
            del self._live[key]
        return there.pop()

    def _close(self, environment: Environment) -> None:
        with self._lock:
            self._alive -= 1
        if type(environment).close is not Environment.close:
            with contextlib.suppress(Exception):
                environment.close()


def _own(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record that somebody's code may write into."""
    if all(type(value) in PLAIN for value in row.values()):
        return dict(row)
    return copy.deepcopy(dict(row))


def _shown(told: Reply) -> str:
    text = "\n".join(each["content"] for each in told.messages) if told.messages else "the end"
    return f"{text[:200]!r}, rewards {dict(told.parts)}"
