"""Structured output as a Task: the one class that training and evaluation hold."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.core.config.places import setting
from assay.core.config.tasks import PartKind
from assay.core.errors import TaskError
from assay.core.storage.json import as_written, dumps
from assay.rollout.tasks.protocol import (
    Baseline,
    FieldAnswer,
    Item,
    Message,
    Oddity,
    ScriptedRival,
    Step,
    Task,
    Verdict,
    already_ended,
    not_ended,
)

from . import shop
from .grading import rewards
from .grading.fields import answer_text, field_answers, right_text, survey
from .grading.rules import rules_of
from .players import ATTACKS, PLAYERS, Player, gold
from .prompts import bundled, opening, shortened
from .reading.blocklist import Blocklist
from .reading.golds import contradictory, most_right
from .reading.oddities import oddities
from .reading.reading import read
from .reading.records import Reference, Request, StructuredState
from .settings import PARTS, RELEASE, StructuredTask


class Structured(Task):
    """One prompt, one JSON value that must satisfy a schema and, where there is a gold, be right."""

    name = "structured"
    about = (
        "Small jobs, each answered with one JSON value. Success: it satisfies the schema of its job and,"
        " where a right answer is known, says that."
    )
    cluster_name = "prompt groups"
    parts: Mapping[str, PartKind] = PARTS
    flags = rewards.FLAGS
    metrics = rewards.METRICS
    floor, ceiling = "empty_fields", "gold"
    rivals: Mapping[str, ScriptedRival] = dict.fromkeys(
        ("empty_fields", "copied_schema", "copied_prompt", "guess"), "trivial"
    )
    valid_flags = ("schema_valid",)
    alarms = rewards.ALARMS

    def __init__(self, settings: StructuredTask, blocklist: Sequence[str] = ()) -> None:
        """Hold the settings, and the terms of the file that `settings.blocklist` names; a task has no other
        state."""
        self.settings = settings
        self.max_prompt_tokens = settings.max_prompt_tokens
        self.blocklist = Blocklist(blocklist)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Return the smallest and the largest reward of an answer."""
        return 0.0, rewards.full_reward(self.settings.weights, has_gold=True)

    def item(self, row: Mapping[str, Any]) -> Item:
        """Read one row; TaskError names its id and the field that is broken."""
        return read(row, self.settings).item()

    def examine(self, row: Mapping[str, Any]) -> tuple[Item, Sequence[Oddity]]:
        """Read one row, and say what is odd about it."""
        reading = read(row, self.settings)
        return reading.item(), oddities(reading, self.blocklist, self.settings.max_prompt_chars)

    def shortened(self, item: Item, chars: int) -> Item | None:
        """Cut the middle of the item's context; None if the settings forbid it or the context is too
        short."""
        if not self.settings.truncate_prompts:
            return None
        request = shortened(item.public, chars)
        return None if request is None else replace(item, public=request, chars_cut=request.chars_cut)

    def truth(self, item: Item) -> str:
        """Return the gold as compact JSON, or all golds; one for calls lists the accepted values of every
        argument."""
        if not item.hidden.has_gold:
            return f"no gold: any valid {item.public.answer} counts"
        return " or ".join(as_written(gold.written) for gold in item.hidden.golds)

    def contradictory(self, items: Sequence[Item]) -> Sequence[int]:
        """Return the places of items, all of one question, whose gold another one's grading would call
        wrong."""
        with_gold = [place for place, item in enumerate(items) if item.hidden.has_gold]
        found = contradictory([items[place].hidden.counting for place in with_gold], rules_of(self.settings))
        return [with_gold[place] for place in found]

    def most_right(self, items: Sequence[Item]) -> int:
        """Return at most how many of some items, all of one question, one answer is right for."""
        with_gold = [item.hidden.counting for item in items if item.hidden.has_gold]
        return len(items) - len(with_gold) + most_right(with_gold, rules_of(self.settings))

    def generate(
        self, rows: Sequence[Mapping[str, Any]], rng: np.random.Generator, n: int
    ) -> Sequence[Mapping[str, Any]] | None:
        """Return jobs of the shop's held-out families that no shipped record asks; None for records of
        another maker."""
        if any(row.get("source") != shop.SOURCE for row in rows):
            return None
        jobs = shop.generate_more(RELEASE, rng, n)
        # As they come from a shipped file: a model is shown functions in the order of their keys.
        return [{k: v for k, v in json.loads(dumps(job)).items() if k != "id"} for job in jobs]

    def start(self, item: Item, world_seed: int) -> tuple[list[Message], StructuredState]:
        """Open an episode: one user message, or a conversation. Nothing is left to chance here, so the seed
        changes nothing."""
        if not isinstance(item.public, Request) or not isinstance(item.hidden, Reference):
            found = f"{type(item.public).__name__} and {type(item.hidden).__name__}"
            raise TaskError(
                "a structured item", found=found, where=item.id, fix="make items with Structured.item"
            )
        return opening(item.public), StructuredState(item.id, item.public, item.hidden, None)

    def step(self, state: StructuredState, completion: str) -> Step:
        """Grade the one completion; a bad one never raises."""
        if state.grade is not None:
            raise already_ended("an answered one", "Structured.step")
        grade = rewards.grade(completion, state.reference, self.settings, self.blocklist)
        ending = "unreadable" if grade.outcome == "failed" else "answered"
        return Step(
            replace(state, grade=grade), None, ending, grade.outcome, grade.reason, grade.action, grade.parts
        )

    def judge(self, state: StructuredState) -> Verdict:
        """Judge an answered episode."""
        if state.grade is None:
            raise not_ended("Structured.judge")
        return Verdict(state.grade.success, state.grade.flags, state.grade.metrics)

    def baselines(self) -> Mapping[str, Baseline]:
        """Scripted players by name, weakest first."""
        return {name: _as_baseline(player) for name, player in PLAYERS.items()}

    def attacks(self) -> Mapping[str, Baseline]:
        """Players that try to cheat the reward, by name."""
        return {name: _as_baseline(player) for name, player in ATTACKS.items()}

    def right_answer(self, item: Item) -> str | None:
        """Return the graded part of a right answer as text, None where there is no gold."""
        return right_text(item.hidden)

    def solution(self, item: Item) -> str | None:
        """Return a right answer as compact JSON in the schema's own order, None where there is no gold."""
        state = StructuredState(item.id, item.public, item.hidden, None)
        return gold(state, np.random.default_rng(0)) if item.hidden.has_gold else None

    def shape(self, item: Item) -> str:
        """Return the schema as the model is shown it."""
        return str(item.public.schema_text)

    def answer_schema(self, item: Item) -> str:
        """Return the schema that the model is shown, in its order, as one document with all it refers to."""
        return bundled(item.public.schema_text, json.loads(item.hidden.schema)["uri"])

    def answer(self, item: Item, action: str) -> str:
        """Return the graded part of an answer as text."""
        return answer_text(action, item.hidden)

    def fields(self, item: Item, action: str) -> Mapping[str, FieldAnswer]:
        """Return what an answer says in each graded field of the gold, by dotted name."""
        return field_answers(action, item.hidden, rules_of(self.settings))

    def survey(self, items: Sequence[Item]) -> Sequence[Oddity]:
        """Return which gold fields say the same, or nothing, in all or most records.

        Raises:
            ConfigError: task.grade names a field that no gold has.
        """
        return survey(items, self.settings.grade)

    def demonstrations(self, rng: np.random.Generator, n: int) -> Sequence[Sequence[Message]]:
        """Dialogues of a weak player on jobs made on the fly."""
        self._need_lessons()
        return shop.demonstrations(rng, n)

    def drills(self, rng: np.random.Generator, n: int) -> Sequence[Sequence[Message]]:
        """Two-message dialogues whose answer is copied from the question."""
        self._need_lessons()
        return shop.drills(rng, n)

    def vocabulary(self) -> Sequence[str]:
        """Every word of the lessons."""
        self._need_lessons()
        return shop.vocabulary()

    def _need_lessons(self) -> None:
        if self.settings.lessons is None:
            raise TaskError(
                "lessons",
                found="null",
                where=setting("task.lessons"),
                fix="choose a preset with a pretrained base",
            )


def _as_baseline(player: Player) -> Baseline:
    def play(item: Item, state: StructuredState, rng: np.random.Generator) -> str:
        return player(state, rng)

    return play
