"""Calls to somebody's code and what comes back: plain values, which also cross to another process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from assay.tasks.own.api import Message

# lost: no fault of the completion, may go better next time. raised: the code failed on a completion, and would
# again. unrepeatable: the same calls told something else than before.
FailureKind = Literal["lost", "raised", "unrepeatable"]


@dataclass(frozen=True, slots=True)
class Call:
    """An episode so far: its record, the seed of its world, and every completion; with none it is the reset."""

    row: Mapping[str, Any]
    seed: int
    completions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """What was told after the last completion of a call, checked.

    Attributes:
        messages: What the policy reads next, the opening after a reset; empty ends the episode.
        parts: Rewards of the last completion by name, finite.
        success: What the environment said of it.
        failure: Why the last completion could not be read; None if it could.
    """

    messages: tuple[Message, ...]
    parts: Mapping[str, float]
    success: bool | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """A player by name, and the episode in which it is to move; `seed` is that of its own chances."""

    player: str
    call: Call
    seed: int


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
