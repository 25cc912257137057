"""The one contract that every task keeps: training, evaluation and replay use nothing else.

An `Environment` or a reward function keeps it by `own/task.py`; a class of `Task` keeps it itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

import numpy as np

from assay.core.config.tasks import PartKind
from assay.core.errors import EnvironmentFailure, TaskError
from assay.core.records import ParseOutcome

Message = dict[str, str]
# What a claim of skill is compared with: a player that needs none, one that works by rules that somebody
# wrote, what one would do with the base instead of training it, and another training of the base.
RivalKind = Literal["trivial", "scripted", "instead of training", "trained otherwise"]
ScriptedRival = Literal["trivial", "scripted"]
SILENT = "silent"  # a player that says nothing


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to solve. `public` is all the model may learn from; `hidden` decides what is right."""

    id: str
    cluster: str
    strata: Mapping[str, str]
    public: Any
    hidden: Any
    chars_cut: int = 0  # left out of what the model is told, so that it fits
    # digest of the record it was read from, which the dataset room knows; "" where it came from no file
    record: str = ""
    # that record as it stood in its file, by which near-duplicates are found; None where it came from no file
    row: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Step:
    """What one completion led to. Exactly one of `observation` and `ending` is not None."""

    state: Any
    observation: str | None
    ending: str | None
    outcome: ParseOutcome
    failure: str | None
    action: str | None
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a finished episode amounts to, decided by the hidden truth."""

    success: bool
    flags: Mapping[str, bool | None]
    metrics: Mapping[str, float | None]


def already_ended(found: str, where: str) -> TaskError:
    """Return the error of a step after an episode's ending."""
    return TaskError("an episode that goes on", found=found, where=where, fix="stop after the ending")


def not_ended(where: str) -> TaskError:
    """Return the error of a judgement before an episode's ending."""
    fix = "play on to its ending"
    return TaskError("a finished episode", found="one that goes on", where=where, fix=fix)


def no_lessons(where: str) -> TaskError:
    """Return the error of a base from scratch that is to be taught a task without lessons."""
    fix = "choose a preset with a pretrained base"
    return TaskError("lessons for a base from scratch", found="none", where=where, fix=fix)


@dataclass(frozen=True, slots=True)
class Oddity:
    """Something odd about one record; `kind` is a field of config.AuditSettings, which says what happens
    then."""

    kind: str
    detail: str


class Baseline(Protocol):
    """A scripted player: reads the state (an oracle may read the hidden part too) and writes one
    completion."""

    def __call__(self, item: Item, state: Any, rng: np.random.Generator) -> str: ...


class Task(Protocol):
    """A task is pure: no torch, no files, no clock, no global randomness; states are values.

    A class that takes it as a base has to say `name`, `item`, `truth`, `start`, `step` and `judge`; all else
    is as it stands here, for prompts that ask for one completion each and records that say nothing odd.

    Where an environment of someone's own stands behind it, `start`, `step` and `judge` may raise
    `errors.EnvironmentFailure` when that crashed or timed out: the call is then made again with the same
    arguments.
    """

    name: str
    about: str = ""  # what is asked and what success is, in a sentence or two, for readers of evidence
    cluster_name: str = "records"  # what there are many of; of one its last letter, an s, is left out
    parts: Mapping[str, PartKind] = {"reward": "outcome"}
    flags: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    floor: str = SILENT  # the baselines between which a score is normalised
    ceiling: str = SILENT
    # Of `baselines`, those that see only what a policy sees, and whether they need any skill: a claim
    # compares with each.
    rivals: Mapping[str, ScriptedRival] = {SILENT: "trivial"}
    # Flags that hold of every answer of the right form, whatever is right; with `parsed` they say what is
    # valid
    valid_flags: tuple[str, ...] = ()
    # flag -> the rate of it over a batch or suite beyond which something is ill
    alarms: Mapping[str, float] = {}
    max_prompt_tokens: int | None = None  # of a rendered opening; None: as many as the model takes

    def item(self, row: Mapping[str, Any]) -> Item:
        """Read one row of a data file; TaskError if the row is broken."""
        ...

    def examine(self, row: Mapping[str, Any]) -> tuple[Item, Sequence[Oddity]]:
        """Read one row as `item` does, and say what is odd about it; the dataset room counts it and acts on
        it."""
        return self.item(row), ()

    def contradictory(self, items: Sequence[Item]) -> Sequence[int]:
        """Return the places of items, all of one question, that another one contradicts: who is right there
        is wrong here."""
        return ()

    def most_right(self, items: Sequence[Item]) -> int:
        """Return at most how many of some items, all of one question, one completion is right for."""
        return len(items)

    def shortened(self, item: Item, chars: int) -> Item | None:
        """Return the item with at least so many characters less in its opening, counted in `chars_cut`; None
        if it cannot."""
        return None

    def truth(self, item: Item) -> str:
        """Say what is right for an item, in words, for readers of evidence; never shown to a policy."""
        ...

    def start(self, item: Item, world_seed: int) -> tuple[list[Message], Any]:
        """Open an episode; equal (item, world_seed) give equal worlds, whoever plays.

        Raises:
            EnvironmentFailure: The environment crashed or timed out.
        """
        ...

    def step(self, state: Any, completion: str) -> Step:
        """Play one completion. State is a value: the old one stays valid. A bad completion never raises.

        Raises:
            EnvironmentFailure: The environment crashed or timed out; the same step can be tried again.
        """
        ...

    def judge(self, state: Any) -> Verdict:
        """Judge a state after its episode ended.

        Raises:
            EnvironmentFailure: The environment crashed or timed out.
        """
        ...

    def generate(
        self, rows: Sequence[Mapping[str, Any]], rng: np.random.Generator, n: int
    ) -> Sequence[Mapping[str, Any]] | None:
        """Return n new records of the kind of some rows, such as the held-out ones, by the chances of `rng`
        alone; None if it has no generator of such rows."""
        return None

    def baselines(self) -> Mapping[str, Baseline]:
        """Scripted players by name, weakest first."""
        return {SILENT: lambda item, state, rng: ""}

    def demonstrations(self, rng: np.random.Generator, n: int) -> Sequence[Sequence[Message]]:
        """Whole dialogues of weak scripted players on items made on the fly, to teach syntax, not skill."""
        raise no_lessons("demonstrations")

    def drills(self, rng: np.random.Generator, n: int) -> Sequence[Sequence[Message]]:
        """Short dialogues whose last message can only be right by copying from the first; probes of
        read-off."""
        raise no_lessons("drills")

    def vocabulary(self) -> Sequence[str]:
        """Every word the task's compact surface can write or be told, for a tokenizer built from scratch."""
        raise no_lessons("vocabulary")


@dataclass(frozen=True, slots=True)
class FieldAnswer:
    """What an answer says in one field, and what is right there; both as text, "" where nothing is said."""

    found: str
    gold: str  # where the answer is right, what it says, so that other spellings are no other values
    right: bool


class AnswerKey(Protocol):
    """What a task offers beside `Task` where it can write down what is right; alarms compare with it. None of
    it is needed."""

    def right_answer(self, item: Item) -> str | None:
        """Return the graded part of a right answer as text, None where nothing is known to be right."""
        ...

    def solution(self, item: Item) -> str | None:
        """Return a whole completion that is right, None where nothing is known to be right."""
        ...

    def shape(self, item: Item) -> str:
        """Return what says, in what the model is told, which form an answer has; items alike in it take each
        other's answers."""
        ...

    def answer(self, item: Item, action: str) -> str:
        """Return the graded part of an answer that could be read, as `right_answer` writes it; `action` as in
        `Step`."""
        ...

    def fields(self, item: Item, action: str) -> Mapping[str, FieldAnswer]:
        """Return what an answer that could be read says in each graded field, by dotted name; none without a
        right answer."""
        ...

    def survey(self, items: Sequence[Item]) -> Sequence[Oddity]:
        """Return what is odd about all records together.

        Raises:
            ConfigError: The settings name what is in none of them.
        """
        ...


def answer_key(task: Task) -> AnswerKey | None:
    """Return the task as one that can write down what is right; None if it cannot."""
    return cast(AnswerKey, task) if hasattr(task, "right_answer") else None


class SideBySide(Protocol):
    """What a task offers beside `Task` whose environments wait for something: calls made at once."""

    def starts(
        self, items: Sequence[Item], world_seeds: Sequence[int]
    ) -> list[tuple[list[Message], Any] | EnvironmentFailure]:
        """Open episodes as `start` does; a failure stands in the place of what failed."""
        ...

    def steps(self, states: Sequence[Any], completions: Sequence[str]) -> list[Step | EnvironmentFailure]:
        """Play completions as `step` does; a failure stands in the place of what failed."""
        ...


def side_by_side(task: Task) -> SideBySide | None:
    """Return the task as one that makes calls at once; None if it makes one after the other."""
    # Of the class: what stands around a task and hands on what it lacks would be passed over.
    return cast(SideBySide, task) if hasattr(type(task), "steps") else None


class Ranged(Protocol):
    """What a task offers beside `Task` that knows how small and how large the reward of an episode can be."""

    @property
    def reward_range(self) -> tuple[float, float]:
        """Return the smallest and the largest reward of an episode, shaping left out: it is for training."""
        ...


def reward_range(task: Task) -> tuple[float, float] | None:
    """Return what rewards lie between, by which means are tested; None where the task does not say."""
    return cast(Ranged, task).reward_range if hasattr(task, "reward_range") else None


class Schematic(Protocol):
    """What a task offers beside `Task` whose answers are JSON; decoding can be constrained to it."""

    def answer_schema(self, item: Item) -> str:
        """Return the JSON Schema that an answer must satisfy, as text, from what the model is told."""
        ...


def schematic(task: Task) -> Schematic | None:
    """Return the task as one whose answers have a JSON Schema; None if they have none."""
    return cast(Schematic, task) if hasattr(task, "answer_schema") else None


class Learner(Protocol):
    """What a task offers beside `Task` that derives its lessons from train records."""

    def learn_from(self, items: Sequence[Item]) -> None:
        """Take the train items from which vocabulary, drills and demonstrations are derived."""
        ...


def learner(task: Task) -> Learner | None:
    """Return the task as one that derives its lessons from train records; None if it makes them up."""
    return cast(Learner, task) if hasattr(task, "learn_from") else None


@dataclass(frozen=True, slots=True)
class Panel:
    """Counts along one axis beside what was expected there; `edges` has one value more than they.

    `named` is the stretch that the answer names, `right` where what is sought lies; None where there is none.
    """

    name: str
    edges: Sequence[float]
    measured: Sequence[float]
    expected: Sequence[float]
    named: tuple[float, float] | None = None
    right: float | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """What a player has in hand, for readers of evidence: panels, the same ones at every moment of an item.

    `said` tells in words what the last turn did, "" before the first; the axes come with their units.
    """

    x_name: str
    y_name: str
    panels: Sequence[Panel]
    said: str


@dataclass(frozen=True, slots=True)
class Mark:
    """Where the answer of an episode lies in the plane of its task, and of which kind it is."""

    x: float
    y: float
    kind: str


class Illustrated(Protocol):
    """What a task offers beside `Task` that can show what was done: plain data, drawn elsewhere.

    Each method is given every state of a finished episode, the one before the first turn too.
    """

    plane: tuple[str, str]  # names of its axes, with units
    # kinds of marks, in the order of a legend -> found rightly, wrongly, or (None) there and not found
    marks: Mapping[str, bool | None]

    def pictures(self, states: Sequence[Any]) -> Sequence[Picture]:
        """Return a picture a state; none where there is nothing to draw."""
        ...

    def mark(self, states: Sequence[Any]) -> Mark | None:
        """Return the mark of the episode; None where there was nothing to find and nothing was named."""
        ...

    def spent(self, states: Sequence[Any]) -> Mapping[str, Mapping[str, float]]:
        """Return what went where: budget -> use -> share in [0, 1]; which ones, the item decides."""
        ...


def illustrated(task: Task) -> Illustrated | None:
    """Return the task as one that shows what was done; None if it does not."""
    return cast(Illustrated, task) if hasattr(type(task), "pictures") else None
