"""Calls to somebody's code and what comes back: plain values, which also cross to another process."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from assay.rollout.tasks.own.api import Message, Told

MOST_TOLD = 1_000_000  # characters that an environment may tell at once

# lost: no fault of the completion, may go better next time. raised: the code failed on a completion, and
# would again. unrepeatable: the same calls told something else than before.
FailureKind = Literal["lost", "raised", "unrepeatable"]


@dataclass(frozen=True, slots=True)
class Call:
    """An episode so far: its record, the seed of its world, every completion; with none it is the reset."""

    row: Mapping[str, Any]
    seed: int
    completions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class More:
    """What few environments say of a completion, each as in `Told`."""

    flags: Mapping[str, bool | None] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    action: str | None = None
    repaired: bool = False
    ending: str | None = None


NOTHING_MORE = More()


@dataclass(frozen=True, slots=True)
class Reply:
    """What was told after the last completion of a call, checked.

    Attributes:
        messages: What the policy reads next, the opening after a reset; empty ends the episode.
        parts: Rewards of the last completion by name, finite.
        success: What the environment said of it.
        failure: Why the last completion could not be read; None if it could.
        more: What else was said of it.
    """

    messages: tuple[Message, ...]
    parts: Mapping[str, float]
    success: bool | None = None
    failure: str | None = None
    more: More = NOTHING_MORE


@dataclass(frozen=True, slots=True)
class Ask:
    """A player by name, and the episode in which it is to move; `seed` is that of its own chances.

    With `given`, the JSON of its arguments, it is a method of a mix-in instead, whose answer is JSON.
    """

    player: str
    call: Call
    seed: int
    given: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """Why there is no reply."""

    kind: FailureKind
    reason: str


class Runner(Protocol):
    """Runs somebody's code, in this process or another."""

    def tell(self, calls: Sequence[Call]) -> list[Reply | Failed]:
        """Return what each call leads to, by place; calls run side by side."""
        ...

    def say(self, asks: Sequence[Ask]) -> list[str | Failed]:
        """Return what each player says next, by place."""
        ...

    def close(self) -> None:
        """End processes and connections."""
        ...


def messages_of(told: str | list[Message] | None) -> tuple[Message, ...]:
    """Return what is told as messages; a text is the user's.

    Raises:
        TypeError: It is neither a text nor a list of messages.
        ValueError: It is too long, or no Unicode text.
    """
    if told is None:
        return ()
    if isinstance(told, str):
        return ({"role": "user", "content": _text(told)},)
    if not isinstance(told, list) or not all(map(_is_message, told)):
        raise TypeError(f"told {type(told).__name__}, not a text or a list of messages")
    return tuple({"role": each["role"], "content": _text(each["content"])} for each in told)


def _text(told: str) -> str:
    if len(told) > MOST_TOLD:
        raise ValueError(f"told {len(told):,} characters, more than {MOST_TOLD:,}")
    if not told.isascii():
        told.encode()  # half a surrogate pair is a UnicodeEncodeError, which is a ValueError
    return told


def _is_message(found: Any) -> bool:
    return (
        isinstance(found, Mapping)
        and isinstance(found.get("content"), str)
        and isinstance(found.get("role"), str)
    )


def checked(told: Told, parts: frozenset[str]) -> Reply:
    """Return what an environment told, its parts known to be declared and finite.

    Raises:
        TypeError: It is no Told, a part is not declared or no finite number, or success or failure are not
            what they should be.
        ValueError: The text is too long, or no Unicode text.
    """
    if not isinstance(told, Told):
        raise TypeError(f"step returned {type(told).__name__}, not Told")
    named: Any = {"reward": told.parts} if type(told.parts) is float else told.parts
    named = named if isinstance(named, Mapping) else {"reward": named}
    found = {}
    for name, value in named.items():
        if name not in parts:
            declared = ", ".join(sorted(parts))
            raise TypeError(f"reward part {name!r} is not declared in task.parts ({declared})")
        number = _unwrapped(value)
        if not isinstance(number, int | float) or not math.isfinite(number):
            raise TypeError(f"reward part {name} is {number!r}, no finite number")
        found[name] = float(number)
    success = _unwrapped(told.success)
    if success is not None and not isinstance(success, bool):
        raise TypeError(f"success is {success!r}, not True, False or None")
    if told.failure is not None and not isinstance(told.failure, str):
        raise TypeError(f"failure is {told.failure!r}, not a text or None")
    return Reply(messages_of(told.text), found, success, told.failure, _more(told))


def _more(told: Told) -> More:
    if told.action is None and not (told.flags or told.metrics or told.repaired or told.ending):
        return NOTHING_MORE
    if not (isinstance(told.flags, Mapping) and isinstance(told.metrics, Mapping)):
        raise TypeError("flags and metrics are no dicts by name")
    flags = {name: _unwrapped(value) for name, value in told.flags.items()}
    metrics = {name: _unwrapped(value) for name, value in told.metrics.items()}
    if odd := [name for name, value in flags.items() if value is not None and not isinstance(value, bool)]:
        raise TypeError(f"flag {odd[0]} is {flags[odd[0]]!r}, not True, False or None")
    for name, value in metrics.items():
        if value is not None and not (isinstance(value, int | float) and math.isfinite(value)):
            raise TypeError(f"metric {name} is {value!r}, no finite number or None")
    for name in ("action", "ending"):
        if not isinstance(getattr(told, name), str | None):
            raise TypeError(f"{name} is {getattr(told, name)!r}, not a text or None")
    if told.text is not None and (told.ending is not None or flags or metrics):
        raise TypeError("flags, metrics or ending of an episode that goes on")
    numbers = {name: None if value is None else float(value) for name, value in metrics.items()}
    return More(flags, numbers, told.action, bool(told.repaired), told.ending)


def _unwrapped(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
