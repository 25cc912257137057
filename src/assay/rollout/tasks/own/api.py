"""What the file of a task may import: an environment, what it tells, and mix-ins for what else it can do.

A reward function needs none of this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from assay.rollout.tasks.protocol import FieldAnswer, Mark, Message, Oddity, Panel, Picture

__all__ = [
    "AnswerKey",
    "Batched",
    "Environment",
    "FieldAnswer",
    "Generated",
    "Illustrated",
    "JsonAnswers",
    "Mark",
    "Message",
    "Oddity",
    "Panel",
    "Picture",
    "Records",
    "Shaped",
    "Taught",
    "Told",
]


@dataclass(frozen=True, slots=True)
class Told:
    """What an environment says after a completion.

    Attributes:
        text: What the policy reads next; None ends the episode.
        parts: Rewards of this completion by name; a number alone is the part `reward`.
        success: Whether the episode succeeded, where `task.success` says `compare: environment`; None: not
            known.
        failure: Why the completion could not be read; None if it could.
        flags: Where an episode ends, facts that hold or not, by the names in `task.flags`; None, or no value,
            where the question does not arise.
        metrics: Where it ends, numbers by the names in `task.metrics`.
        action: What the completion was read as, in one spelling, where `task.actions` is set; None: the
            completion, stripped.
        repaired: Whether it could be read only after something was mended; as `action`.
        ending: Where it ends, why, by a name in `task.endings`; None: `answered` or `ended`.
    """

    text: str | None
    parts: Mapping[str, float] | float = field(default_factory=dict)
    success: bool | None = None
    failure: str | None = None
    flags: Mapping[str, bool | None] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    action: str | None = None
    repaired: bool = False
    ending: str | None = None


class Environment:
    """An environment of several turns.

    It may keep what it likes in itself: an instance plays one episode, and an earlier moment of that episode
    is reached again by another instance, `reset`, and the same completions.

    `Options`, a pydantic model, may be declared in the class: it reads `task.options`, and `self.options` is
    the result. Players are methods that `task.players` names: they only look at the environment, and take by
    name what they need of `row`, `observation` (what was told last, as a text), `messages` (the same as
    messages), `completions` (what was said so far in this episode), `rng` (numpy's Generator), and any column
    of the record. Of `most_alive` instances the one unused longest is closed.
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


# Mix-ins: what a task can do beside playing. `task.abilities` names those that it has, by the names in
# `abilities.py`. Of a class they are bases; of a reward function, or an adapter, the methods are functions of
# the file in which its players stand. All parameters are given by name, those that a method does not take are
# left out. A method that takes no `completions` belongs to a record, or to the task: it is asked of an
# instance that was not reset.


class AnswerKey(ABC):
    """`answer_key`: it can write down what is right. Examples in the prompt, a constant player, alarms and
    tables by field come from it."""

    @abstractmethod
    def solution(self, row: Mapping[str, Any]) -> str | None:
        """Return a whole completion that is right, given at every turn; None where nothing is known."""

    def right_answer(self, row: Mapping[str, Any]) -> str | None:
        """Return what of a right completion is graded."""
        return self.solution(row)

    def answer(self, row: Mapping[str, Any], action: str) -> str:
        """Return what is graded of what was said, in the spelling of `right_answer`."""
        return action

    def shape(self, row: Mapping[str, Any]) -> str:
        """Return which form an answer has; records alike in it take each other's answers."""
        return ""

    def fields(self, row: Mapping[str, Any], action: str) -> Mapping[str, FieldAnswer]:
        """Return what was said in each graded field, and what is right there."""
        gold, found = self.right_answer(row), self.answer(row, action)
        return {} if gold is None else {"answer": FieldAnswer(found, gold, found == gold)}

    def survey(self, rows: Sequence[Mapping[str, Any]]) -> Sequence[Oddity]:
        """Return what is odd about all records together."""
        return ()


class JsonAnswers(ABC):
    """`schema`: every completion is JSON by a schema. Decoding can be constrained to it, as a rival."""

    @abstractmethod
    def answer_schema(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the JSON Schema of a completion, from what the model is told."""


class Taught(ABC):
    """`teach`: what a base that is built from scratch learns before it is measured: syntax, not skill.
    Without it that is derived from train records and the weak player."""

    @abstractmethod
    def demonstrations(
        self, rows: Sequence[Mapping[str, Any]], rng: np.random.Generator, n: int
    ) -> Iterable[Sequence[Message]]:
        """Return n whole dialogues of a player that speaks well and plays badly; `rows` are of train."""

    @abstractmethod
    def drills(
        self, rows: Sequence[Mapping[str, Any]], rng: np.random.Generator, n: int
    ) -> Iterable[Sequence[Message]]:
        """Return n short dialogues whose last message is copied from the first."""

    @abstractmethod
    def vocabulary(self, rows: Sequence[Mapping[str, Any]]) -> Iterable[str]:
        """Return every word that is written or told; each becomes one token."""


class Illustrated(ABC):
    """`illustrate`: it shows what was done in an episode: plain data, drawn elsewhere.

    Each method is asked of an instance in that moment of the episode; `mark` and `spent` of its end.
    `plane` names the axes of marks, with units. `marks` has the kinds of marks in the order of a legend:
    found rightly (True), wrongly (False), or there and not found (None).
    """

    plane: tuple[str, str]
    marks: Mapping[str, bool | None]

    @abstractmethod
    def picture(self, row: Mapping[str, Any], completions: Sequence[str]) -> Picture | None:
        """Return what the player has in hand now; None where there is nothing to draw."""

    @abstractmethod
    def mark(self, row: Mapping[str, Any], completions: Sequence[str]) -> Mark | None:
        """Return where the answer lies; None where there was nothing to find and nothing was named."""

    @abstractmethod
    def spent(self, row: Mapping[str, Any], completions: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        """Return what went where: budget -> use -> share in [0, 1]."""


class Batched(ABC):
    """`batch_step`: many episodes are stepped in one call, for speed; each as `step` would."""

    @staticmethod
    @abstractmethod
    def step_batch(environments: Sequence[Any], completions: Sequence[str]) -> Sequence[Told]:
        """Play a completion in each environment."""


class Shaped(ABC):
    """`shape`: training also pays `task.shaping` times what the potential grows by, as the part `shaping`.

    Source: potential-based shaping: Ng, Harada, Russell (1999), "Policy invariance under reward
    transformations".
    """

    @abstractmethod
    def potential(self, row: Mapping[str, Any], completions: Sequence[str]) -> float:
        """Return how good this moment is; at an episode's end it is 0 whatever this says."""


class Generated(ABC):
    """`generate`: it makes new records, so that `assay data fresh` can draw a held-out suite nobody has
    seen."""

    @abstractmethod
    def generate(
        self, rows: Sequence[Mapping[str, Any]], rng: np.random.Generator, n: int
    ) -> Iterable[Mapping[str, Any]] | None:
        """Return n records like those in `rows`, the held-out ones there are, by the chances of `rng` alone;
        None where rows are of another kind. Those that are there already are left out later."""


class Records:
    """`records`: it looks at records before they are used."""

    def oddities(self, row: Mapping[str, Any]) -> Sequence[Oddity]:
        """Return what is odd about a record, by kinds of `dataset.audit`, which says what happens then."""
        return ()

    def shortened(self, row: Mapping[str, Any], chars: int) -> Mapping[str, Any] | None:
        """Return the record with at least so many characters less to tell; None if it cannot."""
        return None
