"""What the file of a task may import: an environment of several turns, and what it tells.

A reward function needs none of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

Message = dict[str, str]


@dataclass(frozen=True, slots=True)
class Told:
    """What an environment says after a completion.

    Attributes:
        text: What the policy reads next; None ends the episode.
        parts: Rewards of this completion by name; a number alone is the part `reward`.
        success: Whether the episode succeeded, where `task.success` says `compare: environment`; None: not
            known.
        failure: Why the completion could not be read; None if it could.
    """

    text: str | None
    parts: Mapping[str, float] | float = field(default_factory=dict)
    success: bool | None = None
    failure: str | None = None


class Environment:
    """An environment of several turns.

    It may keep what it likes in itself: an instance plays one episode, and an earlier moment of that episode
    is reached again by another instance, `reset`, and the same completions.

    `Options`, a pydantic model, may be declared in the class: it reads `task.options`, and `self.options` is
    the result. Players are methods that `task.players` names: they only look at the environment, and take by
    name what they need of `row`, `observation` (what was told last), `messages`, `rng` (numpy's Generator),
    and any column of the record. Of `most_alive` instances the one unused longest is closed.
    """

    Options: ClassVar[type[Any] | None] = None
    most_alive: ClassVar[int] = 512
    options: Any = None

    def reset(self, row: Mapping[str, Any], seed: int) -> str | list[Message]:
        """Begin an episode on a record and return what opens it: equal (row, seed) give equal episodes."""
        raise NotImplementedError

    def step(self, completion: str) -> Told:
        """Play one completion."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what it holds; nothing is asked of it afterwards."""
