"""What a task of one's own can do beside playing, as the rest of assay asks for it.

A method of a mix-in is an `Ask` with arguments: it crosses to a worker or server, is written down for whoever
checks a package, and is answered from there again, as the texts of players are.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from assay.core.errors import EnvironmentFailure, TaskError
from assay.rollout.tasks.own.calls import Ask, Call, Failed
from assay.rollout.tasks.own.settings import Ability, OwnTask
from assay.rollout.tasks.protocol import FieldAnswer, Item, Mark, Message, Oddity, Picture, Step

NOWHERE = Call({}, 0, ())
LESSONS = 256  # dialogues asked for at once


class Asking:
    """A task that asks its code."""

    settings: OwnTask
    train: Sequence[Item] = ()

    def said(self, asks: Sequence[Ask]) -> list[str | Failed]:
        """Return what is said to each ask, by place."""
        raise NotImplementedError

    def asked(self, method: str, kind: Any, call: Call = NOWHERE, seed: int = 0, **given: Any) -> Any:
        """Return what a method of a mix-in gives.

        Args:
            method: Of a mix-in in `api.py`.
            kind: Type of what it gives.
            call: Record, or moment of an episode, that it is about.
            seed: Of its chances.
            given: Its further arguments.

        Raises:
            EnvironmentFailure: No answer came in time.
            TaskError: It failed, or gave something else.
        """
        return self.all_asked(method, kind, [call], seed, **given)[0]

    def all_asked(
        self, method: str, kind: Any, calls: Sequence[Call], seed: int = 0, **given: Any
    ) -> list[Any]:
        """Return what a method gives for each call, as `asked`."""
        asks = [Ask(method, call, seed, json.dumps(given, sort_keys=True)) for call in calls]
        return [self._read(method, kind, said) for said in self.said(asks)]

    def _read(self, method: str, kind: Any, said: str | Failed) -> Any:
        if isinstance(said, Failed):
            raise EnvironmentFailure(said.reason)
        try:
            return _reader(kind).validate_json(said)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place, fix = ".".join(map(str, first["loc"])), "return what assay.rollout says"
            found = f"{first['msg']} at {place}" if place else first["msg"]
            where = f"{method} in {self.settings.code}"
            raise TaskError(f"what {method} returns", found=found, where=where, fix=fix) from None


@functools.cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _of(item: Item) -> Call:
    return Call(item.hidden, 0, ())


class WithAnswerKey(Asking):
    """Answers by its code; `protocol.AnswerKey`."""

    @functools.cached_property
    def _known(self) -> dict[tuple[str, str], str | None]:
        return {}

    def _text(self, method: str, item: Item) -> str | None:
        key = method, item.id
        if key not in self._known:
            self._known[key] = self.asked(method, str | None, _of(item))
        return self._known[key]

    def right_answer(self, item: Item) -> str | None:
        """Return the graded part of a right answer."""
        return self._text("right_answer", item)

    def solution(self, item: Item) -> str | None:
        """Return a whole completion that is right."""
        return self._text("solution", item)

    def shape(self, item: Item) -> str:
        """Return which form the answer has."""
        return self._text("shape", item) or ""

    def answer(self, item: Item, action: str) -> str:
        """Return the graded part of what was said."""
        found: str = self.asked("answer", str, _of(item), action=action)
        return found

    def fields(self, item: Item, action: str) -> Mapping[str, FieldAnswer]:
        """Return what was said in each graded field."""
        found: dict[str, FieldAnswer] = self.asked("fields", dict[str, FieldAnswer], _of(item), action=action)
        return found

    def survey(self, items: Sequence[Item]) -> Sequence[Oddity]:
        """Return what is odd about all records together."""
        rows = [item.hidden for item in items]
        found: list[Oddity] = self.asked("survey", list[Oddity], rows=rows)
        return found

    def truth(self, item: Item) -> str:
        """Return the right answer."""
        return self.right_answer(item) or "nothing known"


class WithSchema(Asking):
    """Answers are JSON; `protocol.Schematic`."""

    def answer_schema(self, item: Item) -> str:
        """Return the JSON Schema of a completion, in its own order."""
        return json.dumps(self.asked("answer_schema", dict[str, Any], _of(item)))


class WithLessons(Asking):
    """Lessons by its code."""

    def demonstrations(self, rng: np.random.Generator, n: int) -> Sequence[Sequence[Message]]:
        """Return whole dialogues of a weak player."""
        return self._dialogues("demonstrations", rng, n)

    def drills(self, rng: np.random.Generator, n: int) -> Sequence[Sequence[Message]]:
        """Return short dialogues whose answer is copied from the question."""
        return self._dialogues("drills", rng, n)

    def _dialogues(self, method: str, rng: np.random.Generator, n: int) -> list[list[Message]]:
        found: list[list[Message]] = []
        while len(found) < n:
            some, seed = min(LESSONS, n - len(found)), int(rng.integers(2**62))
            told = self.asked(method, list[list[Message]], seed=seed, rows=self._rows(), n=some)
            if len(told) != some:
                where, fix = f"{method} in {self.settings.code}", "return n dialogues"
                raise TaskError(f"{some} dialogues", found=str(len(told)), where=where, fix=fix)
            found += told
        return found

    def vocabulary(self) -> Sequence[str]:
        """Return every word that is written or told."""
        found: list[str] = self.asked("vocabulary", list[str], rows=self._rows())
        return found

    def _rows(self) -> list[Mapping[str, Any]]:
        return [item.hidden for item in self.train]


class WithIllustrations(Asking):
    """Shows what was done; `protocol.Illustrated`."""

    @functools.cached_property
    def plane(self) -> tuple[str, str]:
        """Names of the axes of marks."""
        found: tuple[str, str] = self.asked("plane", tuple[str, str])
        return found

    @functools.cached_property
    def marks(self) -> Mapping[str, bool | None]:
        """Kinds of marks."""
        found: dict[str, bool | None] = self.asked("marks", dict[str, bool | None])
        return found

    def pictures(self, states: Sequence[Any]) -> Sequence[Picture]:
        """Return a picture a state; none where there is nothing to draw."""
        found = self.all_asked("picture", Picture | None, [state.call for state in states])
        return [] if None in found else found

    def mark(self, states: Sequence[Any]) -> Mark | None:
        """Return the mark of an episode."""
        found: Mark | None = self.asked("mark", Mark | None, states[-1].call)
        if found is not None and found.kind not in self.marks:
            where = f"mark in {self.settings.code}"
            fix = "add the kind to marks, or correct it"
            raise TaskError(f"one of {', '.join(self.marks)}", found=found.kind, where=where, fix=fix)
        return found

    def spent(self, states: Sequence[Any]) -> Mapping[str, Mapping[str, float]]:
        """Return what went where."""
        found: dict[str, dict[str, float]] = self.asked("spent", dict[str, dict[str, float]], states[-1].call)
        return found


class WithShaping(Asking):
    """Training also pays what the potential grows by; only there is it one of these."""

    def steps(self, states: Sequence[Any], completions: Sequence[str]) -> list[Step | EnvironmentFailure]:
        """Play completions side by side, and pay differences of the potential."""
        new = [state.call for state in states if state.potential is None]
        first = iter(self._potentials(new))
        before = [next(first) if state.potential is None else state.potential for state in states]
        steps: list[Step | EnvironmentFailure] = super().steps(states, completions)  # type: ignore[misc]
        going = [step for step in steps if isinstance(step, Step) and step.ending is None]
        after = iter(self._potentials([step.state.call for step in going]))
        found: list[Step | EnvironmentFailure] = []
        for step, old in zip(steps, before, strict=True):
            if not isinstance(step, Step):
                found.append(step)
                continue
            now = 0.0 if step.ending is not None else next(after)
            paid = self.settings.shaping * (self.settings.gamma * now - old)
            state = replace(step.state, potential=now)
            found.append(replace(step, state=state, parts={**step.parts, "shaping": paid}))
        return found

    def _potentials(self, calls: Sequence[Call]) -> list[float]:
        return self.all_asked("potential", float, calls) if calls else []


class WithRecords(Asking):
    """Looks at records before they are used."""

    def examine(self, row: Mapping[str, Any]) -> tuple[Item, Sequence[Oddity]]:
        """Read one row, and say what is odd about it."""
        item: Item = self.item(row)  # type: ignore[attr-defined]
        return item, self.asked("oddities", list[Oddity], _of(item))

    def shortened(self, item: Item, chars: int) -> Item | None:
        """Return the item with so much less to tell; None if it cannot be cut."""
        row = self.asked("shortened", dict[str, Any] | None, _of(item), chars=chars)
        if row is None:
            return None
        public = row.get("prompt", item.public) if "prompt" in item.hidden else item.public
        cut = len(json.dumps(dict(item.hidden))) - len(json.dumps(row))
        return replace(item, public=public, hidden=row, chars_cut=item.chars_cut + cut)


# What a task is made of, by what it declares; batches and shaping are matters of playing.
SIDES: Mapping[Ability, type[Asking]] = {
    "answer_key": WithAnswerKey,
    "schema": WithSchema,
    "teach": WithLessons,
    "illustrate": WithIllustrations,
    "records": WithRecords,
}
