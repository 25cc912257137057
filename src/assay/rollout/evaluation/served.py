"""Episodes of a served model: conversations in messages, so many questions under way at once.

The environment is called from one thread, or through what a task offers for calls made at once; only
questions wait in threads of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.core.records import Episode
from assay.core.seeds import derive_seed
from assay.rollout.dataset.suite import Play
from assay.rollout.evaluation.retries import GivenUp
from assay.rollout.evaluation.trajectory import Row, asked_digest, start_all, step_all, turn_of
from assay.rollout.policy.served.asking import Asking, Served
from assay.rollout.policy.served.client import ServedAnswer
from assay.rollout.tasks.protocol import Message, Step, Task

SEED_BITS = 31  # llama.cpp takes 32, others 63


@dataclass(slots=True)
class Talk:
    """A conversation under way."""

    row: Row
    messages: list[Message]
    answers: list[ServedAnswer] = field(default_factory=list)
    kept: int = 0


@dataclass(frozen=True, slots=True)
class ServedEpisodes:
    """Episodes in the order of the plays, and the answers behind them."""

    episodes: list[Episode]
    answers: list[ServedAnswer]
    kept: int  # answers that were there already
    played: list[Episode]  # those in which something was asked now


def play_served(
    served: Served,
    task: Task,
    plays: Sequence[Play],
    *,
    in_flight: int,
    retries: int = 0,
    progress: Callable[[int], object] | None = None,
) -> ServedEpisodes:
    """Play every play once and return the episodes in the same order: all of them, or an error.

    Args:
        served: Who plays.
        task: What is played.
        plays: Items with their seeds.
        in_flight: Conversations, and so questions, at once.
        retries: How often a call to the environment that failed is made again.
        progress: Told how many episodes have just ended.

    Raises:
        EnvironmentLost: The environment failed for good; what was answered is kept.
        PolicyError: The server refuses, or failed too often; what was answered is kept.
    """
    table = _Table(task, plays, served.limit, retries)
    with Asking(served, in_flight) as asking:
        while not table.over:
            for place in table.seat(in_flight):
                table.put(asking, place)
            if not table.talking:
                continue
            going, ended = table.hear(asking.take())
            for place in going:
                table.put(asking, place)
            if ended and progress is not None:
                progress(ended)
    talks = [table.talks[place] for place in range(len(plays))]
    return ServedEpisodes(
        [table.ended[place] for place in range(len(plays))],
        [answer for talk in talks for answer in talk.answers],
        sum(talk.kept for talk in talks),
        [table.ended[place] for place, talk in enumerate(talks) if talk.kept < len(talk.answers)],
    )


class _Table:
    """The conversations of a suite: those that wait, talk, and are over."""

    def __init__(self, task: Task, plays: Sequence[Play], limit: int, retries: int) -> None:
        self._task, self._plays, self._limit, self._retries = task, plays, limit, retries
        self._next = 0
        self.talks: dict[int, Talk] = {}
        self.talking: set[int] = set()
        self.ended: dict[int, Episode] = {}

    @property
    def over(self) -> bool:
        return len(self.ended) == len(self._plays)

    def put(self, asking: Asking, place: int) -> None:
        """Ask a conversation's next question."""
        talk = self.talks[place]
        seed = derive_seed("served", talk.row.play.seed, len(talk.answers)) >> (63 - SEED_BITS)
        asking.put(place, talk.messages, seed)

    def seat(self, most: int) -> list[int]:
        """Begin as many conversations as there is room for, and return their places."""
        end = min(len(self._plays), self._next + most - len(self.talking))
        places = list(range(self._next, end))
        self._next = max(self._next, end)
        # Draws of an item meet the same world, and a state is a value.
        worlds = {(play.item.id, play.world_seed): play for play in (self._plays[p] for p in places)}
        started = dict(zip(worlds, self._started(list(worlds.values())), strict=True))
        for place in places:
            play = self._plays[place]
            messages, state, again = started[play.item.id, play.world_seed]
            self.talks[place] = Talk(Row(play, state, [], play.item.chars_cut, again), list(messages))
        self.talking.update(places)
        return places

    def hear(self, heard: Sequence[tuple[int, ServedAnswer, bool]]) -> tuple[list[int], int]:
        """Play answers, and return which conversations go on and how many ended."""
        talks = [self.talks[place] for place, _, _ in heard]
        steps = self._stepped([talk.row for talk in talks], [answer.text for _, answer, _ in heard])
        going = []
        for (place, answer, kept), talk, step in zip(heard, talks, steps, strict=True):
            asked, n_tokens = asked_digest(talk.messages), answer.completion_tokens or 0
            talk.row.record(step, turn_of(step, answer.text, n_tokens, self._cut(answer), asked))
            talk.answers.append(answer)
            talk.kept += kept
            if talk.row.over:
                self.talking.discard(place)
                self.ended[place] = self._judged(talk.row)
                continue
            talk.messages.append({"role": "assistant", "content": answer.text})
            talk.messages.append({"role": "user", "content": step.observation or ""})
            going.append(place)
        return going, len(heard) - len(going)

    def _cut(self, answer: ServedAnswer) -> bool:
        return answer.finish == "length" or (
            not answer.finish and (answer.completion_tokens or 0) >= self._limit
        )

    def _started(self, plays: Sequence[Play]) -> list[tuple[list[Message], Any, int]]:
        found = []
        for play, (one, again) in zip(plays, start_all(self._task, plays, self._retries), strict=True):
            if isinstance(one, GivenUp):
                raise one.of(play) from one
            found.append((*one, again))
        return found

    def _stepped(self, rows: Sequence[Row], texts: Sequence[str]) -> list[Step]:
        found = []
        for row, made in zip(rows, step_all(self._task, rows, texts, self._retries), strict=True):
            try:
                found.append(row.stepped(*made))
            except GivenUp as gone:
                raise gone.of(row.play) from gone
        return found

    def _judged(self, row: Row) -> Episode:
        try:
            return row.finish(self._task, self._retries).episode
        except GivenUp as gone:
            raise gone.of(row.play) from gone
