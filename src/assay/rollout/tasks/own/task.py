"""A task that is brought along, as a Task: the one class that training and evaluation hold."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assay.core.config.tasks import PartKind
from assay.core.counting import plural_of
from assay.core.errors import EnvironmentFailure, EnvironmentLost, TaskError
from assay.core.storage.json import digest
from assay.rollout.tasks.own import lessons
from assay.rollout.tasks.own.abilities import SIDES, Asking, WithAnswerKey, WithShaping
from assay.rollout.tasks.own.calls import NOTHING_MORE, Ask, Call, Failed, More, Reply, Runner
from assay.rollout.tasks.own.isolation.inline import inline_of
from assay.rollout.tasks.own.isolation.server import Server
from assay.rollout.tasks.own.isolation.worker import Worker
from assay.rollout.tasks.own.settings import OF_TEXT
from assay.rollout.tasks.own.settings import OwnTask as OwnSettings
from assay.rollout.tasks.own.success import extracted, gold_of, is_right, refuse_row
from assay.rollout.tasks.protocol import (
    SILENT,
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
    answer_key,
    not_ended,
)
from assay.rollout.tasks.wrappings import cut_off

ROUNDING = 1e-9  # parts are summed in another order where they were stored
GENERATED = 32  # records asked for at once
GOLD = "gold"  # a player that says what is right


@dataclass(frozen=True, slots=True)
class OwnState:
    """An episode so far, a value: the same record, seed and completions lead to it again."""

    item: str
    row: Mapping[str, Any]
    seed: int
    completions: tuple[str, ...] = ()
    told: tuple[Message, ...] = ()
    reward: float = 0.0
    success: bool | None = None
    ending: str | None = None
    more: More = NOTHING_MORE
    potential: float | None = None

    @property
    def call(self) -> Call:
        """What leads here."""
        return Call(self.row, self.seed, self.completions)


def own_task(
    settings: OwnSettings, root: str | None, runner: Runner | None = None, *, shaping: bool = False
) -> OwnTask:
    """Return the task with all that it can do; one whose records have an answer can write down what is right.

    Args:
        settings: Of configs/task/.
        root: Project that its folder is in; None: none of its code is run.
        runner: Answers in the place of that code.
        shaping: Whether shaping by a potential counts; only training may say yes.

    Raises:
        ConfigError: Its code cannot be loaded.
    """
    sides: list[type[Asking]] = [kind for name, kind in SIDES.items() if name in settings.abilities]
    if settings.answer_column is not None and WithAnswerKey not in sides:
        sides.append(ColumnOfAnswers)
    if shaping and settings.shaping:
        sides.append(WithShaping)
    return _made_of(tuple(sides))(settings, runner or (None if root is None else runner_of(settings, root)))


@functools.cache
def _made_of(sides: tuple[type[Asking], ...]) -> type[OwnTask]:
    return type("OwnTask", (*sides, OwnTask), {}) if sides else OwnTask


def runner_of(settings: OwnSettings, root: str) -> Runner:
    """Return what runs the task's code, where its isolation says."""
    if settings.isolation == "worker":
        return Worker(settings, root)
    return Server(settings, root) if settings.isolation == "server" else inline_of(settings, root)


class OwnTask(Asking, Task):
    """A reward function or an environment of somebody's own.

    Args:
        settings: Of configs/task/.
        runner: Runs its code; None where none may run.
    """

    name = "own"

    def __init__(self, settings: OwnSettings, runner: Runner | None) -> None:
        self.settings, self.runner = settings, runner
        self.cluster_name = "records" if settings.cluster is None else plural_of(settings.cluster)
        shaped: dict[str, PartKind] = {"shaping": "shaping"} if "shape" in settings.abilities else {}
        self.parts: Mapping[str, PartKind] = settings.parts | shaped
        self.flags, self.metrics = tuple(settings.flags), tuple(settings.metrics)
        self.valid_flags = tuple(settings.valid_flags)
        self.alarms: Mapping[str, float] = {
            name: rate for name, rate in settings.flags.items() if rate is not None
        }
        self.max_prompt_tokens = settings.max_prompt_tokens
        of_kind = settings.players.items()
        kinds: dict[str, ScriptedRival] = {
            name: "trivial" if kind == "trivial" else "scripted" for name, kind in of_kind if kind != "oracle"
        }
        self.rivals: Mapping[str, ScriptedRival] = {SILENT: "trivial", **kinds}
        oracles = [name for name, kind in of_kind if kind == "oracle"]
        answered = [GOLD] if answer_key(self) is not None else []
        self.floor = settings.floor or SILENT
        self.ceiling = settings.ceiling or [*oracles, *answered, *list(settings.players)[-1:], SILENT][0]
        if settings.reward_range is not None:
            self.reward_range = (settings.reward_range[0], settings.reward_range[1])

    def item(self, row: Mapping[str, Any]) -> Item:
        """Read one row.

        Raises:
            TaskError: It lacks its prompt, what success compares with, or a column of strata or cluster.
        """
        own = row.get("id")
        name = str(own) if own not in (None, "") else digest({k: row[k] for k in row if k != "id"})[:16]
        refuse_row(name, row, self.settings)
        strata = {column: str(row[column]) for column in self.settings.strata}
        cluster = name if self.settings.cluster is None else str(row[self.settings.cluster])
        public = row.get("prompt", name)
        return Item(name, cluster, strata, public, dict(row))

    def contradictory(self, items: Sequence[Item]) -> Sequence[int]:
        """Return the places of items, all of one question, whose answers differ."""
        answers = [self._gold(item) for item in items]
        return () if len(set(map(repr, answers))) < 2 else tuple(range(len(items)))

    def most_right(self, items: Sequence[Item]) -> int:
        """Return of how many items, all of one question, the commonest answer is right."""
        answers = [repr(self._gold(item)) for item in items]
        if self.settings.success.compare not in OF_TEXT:
            return len(items)
        return max(answers.count(answer) for answer in answers)

    def _gold(self, item: Item) -> Any:
        rule = self.settings.success
        return None if rule.column is None else gold_of(item.hidden, rule)

    def truth(self, item: Item) -> str:
        """Return what is right, as its record says it."""
        column = self.settings.success.column or self.settings.answer
        return "decided by the environment" if column is None else str(item.hidden.get(column))

    def start(self, item: Item, world_seed: int) -> tuple[list[Message], OwnState]:
        """Open an episode.

        Raises:
            EnvironmentFailure: The environment timed out, or could not be reached.
            TaskError: Its code failed.
        """
        found = self.starts([item], [world_seed])[0]
        if isinstance(found, EnvironmentFailure):
            raise found
        return found

    def starts(
        self, items: Sequence[Item], world_seeds: Sequence[int]
    ) -> list[tuple[list[Message], OwnState] | EnvironmentFailure]:
        """Open episodes side by side.

        Raises:
            TaskError: The task's code failed on an item, the first of which it names.
        """
        states = [OwnState(item.id, item.hidden, seed) for item, seed in zip(items, world_seeds, strict=True)]
        return [
            reply if isinstance(reply, EnvironmentFailure) else _opened(state, reply)
            for state, reply in zip(states, self._told(states), strict=True)
        ]

    def step(self, state: OwnState, completion: str) -> Step:
        """Play one completion.

        Raises:
            EnvironmentFailure: The environment timed out, could not be reached, or gave no reward.
            TaskError: Its code failed on this completion, which it names.
        """
        found = self.steps([state], [completion])[0]
        if isinstance(found, EnvironmentFailure):
            raise found
        return found

    def steps(
        self, states: Sequence[OwnState], completions: Sequence[str]
    ) -> list[Step | EnvironmentFailure]:
        """Play completions side by side.

        Raises:
            TaskError: The task's code failed on a completion, the first of which it names.
        """
        texts = [cut_off(text, self.settings.cut) for text in completions]
        after = [_said(state, text) for state, text in zip(states, texts, strict=True)]
        replies = self._told(after)
        return [
            reply if isinstance(reply, EnvironmentFailure) else self._step(state, text, reply)
            for state, text, reply in zip(after, texts, replies, strict=True)
        ]

    def _step(self, state: OwnState, completion: str, reply: Reply) -> Step:
        ending, more = None, reply.more
        if not reply.messages:
            ending = more.ending or ("ended" if self.settings.max_turns > 1 else "answered")
        elif len(state.completions) >= self.settings.max_turns:
            ending = "out_of_turns"
        self._refuse_undeclared(state, more)
        action, failure = completion.strip() if more.action is None else more.action, reply.failure
        if ending is not None and self.settings.success.extract is not None and failure is None:
            found = extracted(completion, self.settings.success)
            action, failure = (action, "nothing to extract") if found is None else (found, None)
        reward = state.reward + sum(reply.parts.values())
        new = OwnState(
            state.item,
            state.row,
            state.seed,
            state.completions,
            reply.messages,
            reward,
            reply.success,
            ending,
            more,
        )
        told = None if ending is not None else "\n".join(each["content"] for each in reply.messages)
        outcome = "failed" if failure is not None else "repaired" if more.repaired else "ok"
        return Step(new, told, ending, outcome, failure, None if failure else action, reply.parts)  # type: ignore[arg-type]

    def _refuse_undeclared(self, state: OwnState, more: More) -> None:
        if more is NOTHING_MORE:
            return
        own = self.settings
        said_of_action = {"action"} if more.action is not None or more.repaired else set[str]()
        for said, declared, where in (
            ({*more.flags}, {*own.flags}, "task.flags"),
            ({*more.metrics}, {*own.metrics}, "task.metrics"),
            ({more.ending} - {None}, {*own.endings}, "task.endings"),
            (said_of_action, {"action"} if own.actions else set(), "task.actions"),
        ):
            if odd := sorted(str(each) for each in said - declared):
                fix = f"set {where}, or leave it out of Told"
                raise TaskError(f"what {where} names", found=odd[0], where=f"item {state.item}", fix=fix)

    def judge(self, state: OwnState) -> Verdict:
        """Judge an episode by the declared comparison."""
        rule = self.settings.success
        if state.ending is None:
            raise not_ended(state.item)
        if rule.compare == "reward":
            return self._verdict(state, state.reward >= (rule.at_least or 0.0) - ROUNDING)
        if rule.compare == "environment":
            if state.success is None and state.ending != "out_of_turns":
                fix = (
                    "Told(None, parts, success=True or False) where an episode ends, or another task.success"
                )
                raise TaskError("success, said by the environment", found="None", where=state.item, fix=fix)
            return self._verdict(state, bool(state.success))  # who ran out of turns had no success
        return self._verdict(state, is_right(state.completions[-1], state.row, rule))

    def _verdict(self, state: OwnState, success: bool) -> Verdict:
        flags = dict.fromkeys(self.flags) | dict(state.more.flags)
        return Verdict(success, flags, dict.fromkeys(self.metrics) | dict(state.more.metrics))

    def _running(self) -> Runner:
        if self.runner is None:
            fix = "build the task with its folder"
            raise TaskError(
                "a task whose code may run", found="one to judge texts", where=self.settings.entry, fix=fix
            )
        return self.runner

    def _told(self, states: Sequence[OwnState]) -> list[Reply | EnvironmentFailure]:
        replies = self._running().tell([state.call for state in states])
        return [_unfailed(reply, state) for reply, state in zip(replies, states, strict=True)]

    def baselines(self) -> Mapping[str, Baseline]:
        """Scripted players by name, weakest first."""
        order = ("trivial", "weak", "scripted", "oracle")
        named = sorted(self.settings.players, key=lambda name: order.index(self.settings.players[name]))
        found: dict[str, Baseline] = {SILENT: lambda item, state, rng: ""}
        found |= {name: self._player(name) for name in named}
        key = answer_key(self)
        if key is not None:
            found[GOLD] = lambda item, state, rng: key.solution(item) or ""
        return found

    def _player(self, name: str) -> Baseline:
        def play(item: Item, state: OwnState, rng: np.random.Generator) -> str:
            said = self._running().say([Ask(name, state.call, int(rng.integers(2**63)))])[0]
            if isinstance(said, Failed) and said.kind == "lost":
                raise EnvironmentFailure(said.reason)
            if isinstance(said, Failed):
                fix = f"see to {name} in {self.settings.code}"
                raise TaskError("a completion", found=said.reason, where=f"item {item.id}", fix=fix)
            return said

        return play

    def generate(
        self, rows: Sequence[Mapping[str, Any]], rng: np.random.Generator, n: int
    ) -> list[dict[str, Any]] | None:
        """Return new records of its code or of its adapter, without ids; None if there is no generator of
        such rows, or none of its code is run.

        Raises:
            EnvironmentLost: No answer came in time.
            TaskError: It gave another number of records.
        """
        if self.runner is None or not self.settings.generates:
            return None
        found: list[dict[str, Any]] = []
        known = [dict(row) for row in rows]
        while len(found) < n:
            some, seed = min(GENERATED, n - len(found)), int(rng.integers(2**62))
            where, kind = f"generate in {self.settings.code}", list[dict[str, Any]] | None
            try:
                told = self.asked("generate", kind, seed=seed, rows=known, n=some)
            except EnvironmentFailure as error:
                fix = "raise task.timeout_s, or see to the generator"
                raise EnvironmentLost(f"{some} records", found=str(error), where=where, fix=fix) from None
            if told is None:
                return None
            if len(told) != some:
                raise TaskError(f"{some} records", found=str(len(told)), where=where, fix="return n records")
            found += [{name: value for name, value in row.items() if name != "id"} for row in told]
        return found

    # --- lessons for a base that is built from scratch; `learn_from` gives them the train records

    def learn_from(self, items: Sequence[Item]) -> None:
        """Take the train items that lessons are derived from."""
        self.train, self._texts = items, None

    _texts: lessons.Texts | None = None

    def texts(self) -> lessons.Texts:
        """What train records ask and players say, read once."""
        if self._texts is None:
            self._texts = lessons.texts_of(self)
        return self._texts

    def said(self, asks: Sequence[Ask]) -> list[str | Failed]:
        """Return what players say next, by place.

        Raises:
            TaskError: One of them failed.
        """
        found = self._running().say(asks)
        for ask, text in zip(asks, found, strict=True):
            if isinstance(text, Failed) and text.kind != "lost":
                fix = f"see to {ask.player} in {self.settings.code}"
                where = f"record {ask.call.row.get('id', '')}".rstrip()
                expected = "a completion" if ask.given is None else f"an answer of {ask.player}"
                raise TaskError(expected, found=text.reason, where=where, fix=fix)
        return found

    def demonstrations(self, rng: np.random.Generator, n: int) -> Sequence[Sequence[Message]]:
        """Whole dialogues of the weak player on train records."""
        return lessons.demonstrations(self, rng, n)

    def drills(self, rng: np.random.Generator, n: int) -> Sequence[Sequence[Message]]:
        """Short dialogues whose answer is copied from the question."""
        return lessons.drills(self, rng, n)

    def vocabulary(self) -> Sequence[str]:
        """Every word of the train records' prompts and players' completions."""
        return lessons.vocabulary(self)


class ColumnOfAnswers(Asking):
    """Its records hold a right completion."""

    def right_answer(self, item: Item) -> str | None:
        """Return the answer as it is compared."""
        return str(item.hidden[self.settings.answer_column])

    def solution(self, item: Item) -> str | None:
        """Return a completion that is right."""
        return str(item.hidden[self.settings.answer_column])

    def shape(self, item: Item) -> str:
        """All answers are of one form."""
        return ""

    def answer(self, item: Item, action: str) -> str:
        """Return what of a completion is compared."""
        return action

    def fields(self, item: Item, action: str) -> Mapping[str, FieldAnswer]:
        """There is one field: the answer."""
        gold = str(item.hidden[self.settings.answer_column])
        right = is_right(action, item.hidden, self.settings.success) if self._of_text() else action == gold
        return {"answer": FieldAnswer(action, action if right else gold, right)}

    def survey(self, items: Sequence[Item]) -> Sequence[Oddity]:
        """Nothing is odd about all records together."""
        return ()

    def _of_text(self) -> bool:
        return self.settings.success.compare in OF_TEXT and self.settings.success.extract is None


def _said(state: OwnState, completion: str) -> OwnState:
    if state.ending is not None:
        raise already_ended(state.ending, state.item)
    said = (*state.completions, completion)
    return OwnState(state.item, state.row, state.seed, said, (), state.reward)


def _opened(state: OwnState, reply: Reply) -> tuple[list[Message], OwnState]:
    if not reply.messages:
        raise TaskError(
            "an opening", found="nothing", where=f"item {state.item}", fix="reset has to return a text"
        )
    return list(reply.messages), replace(state, told=reply.messages)


def _unfailed(reply: Reply | Failed, state: OwnState) -> Reply | EnvironmentFailure:
    if isinstance(reply, Reply):
        return reply
    if reply.kind == "lost":
        return EnvironmentFailure(reply.reason)
    said = repr(state.completions[-1])[:200] if state.completions else "the opening"
    raise TaskError(
        "a task's code that takes every completion"
        if reply.kind == "raised"
        else "a task that repeats itself",
        found=f"{reply.reason}, on {said}",
        where=f"item {state.item}",
        fix="mend the code: a bad completion earns little, it does not raise (assay task check tries)"
        if reply.kind == "raised"
        else "draw from the seed that reset is given, and from nothing else; ./run assay task check",
    )
