"""Somebody's code in this very process."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from assay.core.errors import EnvironmentFailure
from assay.tasks.own.api import Environment, Message, Told
from assay.tasks.own.calls import Ask, Call, Failed, Reply
from assay.tasks.own.loading import NoReward
from assay.tasks.own.players import move


class Inline:
    """Plays each call from its reset.

    Args:
        make: Gives a fresh environment.
        parts: Names that rewards may have.
    """

    def __init__(self, make: Callable[[], Environment], parts: Sequence[str]) -> None:
        self._make, self._parts = make, frozenset(parts)

    def tell(self, calls: Sequence[Call]) -> list[Reply | Failed]:
        """Return what each call leads to."""
        return [self._told(call) for call in calls]

    def say(self, asks: Sequence[Ask]) -> list[str | Failed]:
        """Return what each player says next."""
        return [self._said(ask) for ask in asks]

    def close(self) -> None:
        """Nothing is held."""

    def _told(self, call: Call) -> Reply | Failed:
        try:
            return self._played(self._make(), call)
        except (NoReward, EnvironmentFailure, TimeoutError, ConnectionError) as error:
            return Failed("lost", f"{type(error).__name__}: {error}")
        except Exception as error:  # somebody's code may raise anything
            return Failed("raised", f"{type(error).__name__}: {error}")

    def _played(self, environment: Environment, call: Call) -> Reply:
        opening = environment.reset(call.row, call.seed)
        told = Reply(messages_of(opening), {})
        for completion in call.completions:
            told = checked(environment.step(completion), self._parts)
        return told

    def _said(self, ask: Ask) -> str | Failed:
        environment = self._make()
        try:
            told = self._played(environment, ask.call)
            return move(environment, ask, told, np.random.default_rng(ask.seed))
        except Exception as error:  # somebody's code may raise anything
            return Failed("raised", f"player {ask.player}: {type(error).__name__}: {error}")


def messages_of(told: str | list[Message] | None) -> tuple[Message, ...]:
    """Return what is told as messages; a text is the user's.

    Raises:
        TypeError: It is neither a text nor a list of messages.
    """
    if told is None:
        return ()
    if isinstance(told, str):
        return ({"role": "user", "content": told},)
    if isinstance(told, list) and all(
        isinstance(each, Mapping)
        and isinstance(each.get("content"), str)
        and isinstance(each.get("role"), str)
        for each in told
    ):
        return tuple({"role": each["role"], "content": each["content"]} for each in told)
    raise TypeError(f"told {type(told).__name__}, not a text or a list of messages")


def checked(told: Told, parts: frozenset[str]) -> Reply:
    """Return what an environment told, its parts known to be declared and finite.

    Raises:
        TypeError: It is no Told, a part is not declared, or no finite number.
    """
    if not isinstance(told, Told):
        raise TypeError(f"step returned {type(told).__name__}, not Told")
    named = told.parts if isinstance(told.parts, Mapping) else {"reward": told.parts}
    found = {}
    for name, value in named.items():
        if name not in parts:
            raise TypeError(
                f"reward part {name!r} is not declared in task.parts ({', '.join(sorted(parts))})"
            )
        number = value.item() if hasattr(value, "item") else value
        if not isinstance(number, int | float) or not math.isfinite(number):
            raise TypeError(f"reward part {name} is {number!r}, no finite number")
        found[name] = float(number)
    success = None if told.success is None else bool(told.success)
    return Reply(messages_of(told.text), found, success, told.failure)
