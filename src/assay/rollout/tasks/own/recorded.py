"""What a task's code said, written down, and said again without it: so anybody can check a package.

A package holds every episode, and in a file of its own what else was asked of the code: how episodes opened,
and what scripted players said and earned. From these `Recorded` answers as the code did.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from assay.core.installed import Required
from assay.core.records import Episode, Record, Turn
from assay.core.storage.json import digest
from assay.rollout.tasks.own.calls import NOTHING_MORE, Ask, Call, Failed, More, Reply, Runner, messages_of
from assay.rollout.tasks.own.settings import OwnTask
from assay.rollout.tasks.wrappings import cut_off

EXTRACTED = "nothing to extract"  # of a completion, which the comparison says again by itself
_GOES_ON = ({"role": "user", "content": ""},)


class ToldMore(Record):
    """A `More` on disk."""

    flags: dict[str, bool | None]
    metrics: dict[str, float | None]
    action: str | None
    repaired: bool
    ending: str | None


class ToldReply(Record):
    """A `Reply` on disk."""

    messages: tuple[dict[str, str], ...]
    parts: dict[str, float]
    success: bool | None
    failure: str | None
    more: ToldMore | None = Field(default=None, exclude_if=lambda value: value is None)


class ToldLine(Record):
    """One thing that a task's code was asked, and what it said: a reply, or the text of a player."""

    key: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] = Field(
        description="digest of the record, the world's seed and the completions; of a player also of its name"
        " and its own seed"
    )
    reply: ToldReply | None
    says: str | None


def key_of(call: Call, *player: Any) -> str:
    """Return what a call, or what a player is asked in it, is found by."""
    return digest([dict(call.row), call.seed, list(call.completions), *player])[:32]


def key_of_ask(ask: Ask) -> str:
    """Return what an answer to an ask is found by."""
    return key_of(ask.call, ask.player, ask.seed, *(() if ask.given is None else (ask.given,)))


class Recorder:
    """Runs a task's code and keeps what it said.

    Args:
        runner: Runs it.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._lines: dict[str, ToldLine] = {}

    def tell(self, calls: Sequence[Call]) -> list[Reply | Failed]:
        """Return what each call leads to, and keep it."""
        replies = self._runner.tell(calls)
        for call, reply in zip(calls, replies, strict=True):
            if isinstance(reply, Reply) and reply != _opening_of(call):
                told = ToldReply(
                    messages=reply.messages,
                    parts=dict(reply.parts),
                    success=reply.success,
                    failure=reply.failure,
                    more=None if reply.more == NOTHING_MORE else ToldMore(**dataclasses.asdict(reply.more)),
                )
                self._keep(ToldLine(key=key_of(call), reply=told, says=None))
        return replies

    def say(self, asks: Sequence[Ask]) -> list[str | Failed]:
        """Return what each player says, and keep it."""
        texts = self._runner.say(asks)
        for ask, text in zip(asks, texts, strict=True):
            if isinstance(text, str):
                self._keep(ToldLine(key=key_of_ask(ask), reply=None, says=text))
        return texts

    def close(self) -> None:
        """End what runs."""
        self._runner.close()

    def _keep(self, line: ToldLine) -> None:
        self._lines[line.key] = line

    def lines(self, known: Recorded) -> list[ToldLine]:
        """Return what was said, in an order of its own, but for what is known without it."""
        return [self._lines[key] for key in sorted(self._lines) if not known.knows(key)]


class Recorded:
    """Says what a task's code said, and runs none of it.

    Args:
        lines: What was kept beside the episodes.
        requires: Installed packages that graded.
    """

    def __init__(self, lines: Iterable[ToldLine] = (), requires: tuple[Required, ...] | None = None) -> None:
        self.requires = requires
        self._replies: dict[str, Reply] = {}
        self._texts: dict[str, str] = {}
        for line in lines:
            if line.says is not None:
                self._texts[line.key] = line.says
            elif line.reply is not None:
                told = line.reply
                more = NOTHING_MORE if told.more is None else More(**dict(told.more))
                self._replies[line.key] = Reply(
                    tuple(told.messages), told.parts, told.success, told.failure, more
                )

    def add(self, row: Mapping[str, Any], seed: int, episode: Episode, task: OwnTask | None = None) -> None:
        """Learn what an episode says that its completions led to; what was learned first stays.

        Args:
            row: Its record.
            seed: Of its world.
            episode: As it is stored.
            task: Its settings, which say what else is believed of an episode; None: nothing.
        """
        completions = tuple(cut_off(turn.completion, task.cut if task else ()) for turn in episode.turns)
        for place, turn in enumerate(episode.turns, start=1):
            last = place == len(episode.turns)
            told = [] if turn.observation is None else [{"role": "user", "content": turn.observation}]
            messages = _GOES_ON if last and episode.ending == "out_of_turns" else tuple(told)
            failure = None if turn.failure == EXTRACTED else turn.failure
            more = NOTHING_MORE if task is None else _more_of(episode, turn, task, last=last)
            reply = Reply(messages, turn.parts, episode.success if last else None, failure, more)
            self._replies.setdefault(key_of(Call(row, seed, completions[:place])), reply)

    def knows(self, key: str) -> bool:
        """Return whether something is said for a key."""
        return key in self._replies or key in self._texts

    def tell(self, calls: Sequence[Call]) -> list[Reply | Failed]:
        """Return what each call led to."""
        return [self._replies.get(key_of(call)) or _opening_of(call) or _UNKNOWN for call in calls]

    def say(self, asks: Sequence[Ask]) -> list[str | Failed]:
        """Return what each player said."""
        return [self._texts.get(key_of_ask(ask), _UNKNOWN) for ask in asks]

    def close(self) -> None:
        """Nothing is held."""


def _more_of(episode: Episode, turn: Turn, task: OwnTask, *, last: bool) -> More:
    """Return what else an episode says, as far as the task declares that its code says it."""
    ended = last and episode.ending != "out_of_turns"
    return More(
        {name: episode.flags.get(name) for name in task.flags} if ended else {},
        {name: episode.metrics.get(name) for name in task.metrics} if ended else {},
        turn.action if task.actions else None,
        turn.outcome == "repaired" if task.actions else False,
        episode.ending if ended and episode.ending in task.endings else None,
    )


_UNKNOWN = Failed("raised", "what its code says here was not written down, and none of it is run")


def _opening_of(call: Call) -> Reply | None:
    """Return how the episode of a record with a prompt opens, where nothing else is told."""
    prompt = call.row.get("prompt")
    if call.completions or not isinstance(prompt, str | list):
        return None
    try:
        return Reply(messages_of(prompt), {})
    except TypeError:
        return None
