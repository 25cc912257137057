"""Texts put to a task as a policy's would be: turn by turn, and refused where they are no whole episode."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay.core.counting import counted
from assay.core.errors import DataError, EnvironmentFailure
from assay.core.records import Episode, Turn
from assay.dataset.suite import Play
from assay.evaluation.retries import GivenUp, NotFinite, tried, tried_together
from assay.evaluation.trajectory import episode_of, turn_of
from assay.tasks.protocol import Message, SideBySide, Step, Task, side_by_side
from assay.tools.grade.completions import Answered

Opened = tuple[list[Message], Any]


class _Row:
    """One episode under way."""

    def __init__(self, play: Play, answer: Answered, opened: Opened) -> None:
        self.play, self.answer = play, answer
        self.opening, self.state = opened
        self.turns: list[Turn] = []
        self.ending: str | None = None

    @property
    def text(self) -> str:
        return self.answer.completions[len(self.turns)]

    def goes_on(self) -> bool:
        return self.ending is None and len(self.turns) < len(self.answer.completions)

    def take(self, step: Step) -> None:
        """Go on by one completion.

        Raises:
            DataError: The environment says something else than the transcript has there.
        """
        for name, value in step.parts.items():
            if not math.isfinite(value):
                raise NotFinite(name, float(value)).of(self.play)
        n, answer = len(self.turns), self.answer
        told = answer.observations[n]
        if step.observation is not None and told is not None and told.strip() != step.observation.strip():
            raise DataError(
                f"what the environment says after turn {n + 1}: {step.observation[:80]!r}",
                found=repr(told[:80]),
                where=f"{answer.place}, item {answer.item}",
                fix="name the task, the tasks file, --seed and --surface that were played",
            )
        tokens = 0 if answer.tokens is None else answer.tokens[n]
        cut = answer.truncated is not None and answer.truncated[n]
        digest = "" if answer.prompts is None else answer.prompts[n]
        self.turns.append(turn_of(step, self.text, tokens, cut, digest))
        self.state, self.ending = step.state, step.ending


def play_texts(
    task: Task,
    plays: Sequence[Play],
    answers: Sequence[Answered],
    retries: int,
    advance: Callable[[int], Any],
) -> tuple[list[Episode], int]:
    """Return the episodes that texts are, in the order of the plays, and how many were asked otherwise.

    Args:
        task: Grades.
        plays: What was played.
        answers: The texts of each play.
        retries: How often a call to an environment that failed is made again.
        advance: Told how many episodes have just ended.

    Raises:
        DataError: An episode ends before its texts do, or goes on after them; or a transcript is another's.
        EnvironmentLost: The environment failed for good.
    """
    together = side_by_side(task)
    worlds = {(play.item.id, play.world_seed): play for play in plays}
    opened = dict(zip(worlds, _starts(task, together, list(worlds.values()), retries), strict=True))
    rows = [
        _Row(play, answer, opened[play.item.id, play.world_seed])
        for play, answer in zip(plays, answers, strict=True)
    ]
    going = list(rows)
    while going:
        for row, step in zip(going, _steps(task, together, going, retries), strict=True):
            row.take(step)
        left = [row for row in going if row.goes_on()]
        advance(len(going) - len(left))
        going = left
    _refuse_unfinished(rows)
    return [_judged(task, row, retries) for row in rows], sum(map(_asked_otherwise, rows))


def _starts(task: Task, together: SideBySide | None, plays: Sequence[Play], retries: int) -> list[Opened]:
    if together is not None:

        def start(places: Sequence[int]) -> Sequence[Opened | EnvironmentFailure]:
            return together.starts([plays[n].item for n in places], [plays[n].world_seed for n in places])

        return [
            _had(found, play)
            for (found, _), play in zip(tried_together(retries, start, len(plays)), plays, strict=True)
        ]
    return [_made(play, retries, task.start, play.item, play.world_seed) for play in plays]


def _steps(task: Task, together: SideBySide | None, rows: Sequence[_Row], retries: int) -> list[Step]:
    if together is not None:

        def step(places: Sequence[int]) -> Sequence[Step | EnvironmentFailure]:
            return together.steps([rows[n].state for n in places], [rows[n].text for n in places])

        return [
            _had(found, row.play)
            for (found, _), row in zip(tried_together(retries, step, len(rows)), rows, strict=True)
        ]
    return [_made(row.play, retries, task.step, row.state, row.text) for row in rows]


def _had(found: Any, play: Play) -> Any:
    if isinstance(found, GivenUp):
        raise found.of(play)
    return found


def _made(play: Play, retries: int, call: Callable[..., Any], *given: Any) -> Any:
    try:
        return tried(retries, call, *given)[0]
    except GivenUp as gone:
        raise gone.of(play) from gone


def _refuse_unfinished(rows: Sequence[_Row]) -> None:
    early = [row for row in rows if row.ending is None]
    late = [row for row in rows if row.ending is not None and len(row.turns) < len(row.answer.completions)]
    for wrong, expected, word in (
        (early, "turns until the episode ends", "ending too early"),
        (late, "no turn after an episode's end", "going on too long"),
    ):
        if wrong:
            row = wrong[0]
            has = counted(len(row.answer.completions), "completions")
            ends = (
                "it goes on"
                if row.ending is None
                else f"it ended ({row.ending}) with number {len(row.turns)}"
            )
            of = f"{counted(len(wrong), 'transcripts')} of {len(rows)}"
            raise DataError(
                expected,
                found=f"{of} {word}; the first has {has}, and {ends}",
                where=f"{row.answer.place}, item {row.play.item.id}, draw {row.play.draw}",
                fix="bring whole episodes, one a row, each completion in its turn",
            )


def _asked_otherwise(row: _Row) -> bool:
    """Return whether a transcript opens with another text than the task does."""
    told = row.answer.opening
    return told is not None and told.strip() != "\n".join(each["content"] for each in row.opening).strip()


def _judged(task: Task, row: _Row, retries: int) -> Episode:
    answer = row.answer
    episode: Episode = _made(
        row.play, retries, episode_of, task, row.play, row.state, row.turns, str(row.ending), answer.chars_cut
    )
    # Whatever drew these completions, it was not the suite's seed.
    return episode.model_copy(update={"seed": row.play.draw if answer.seed is None else answer.seed})


def matched(plays: Sequence[Play], answers: Sequence[Answered], path: str, tasks: str) -> list[Answered]:
    """Return the texts of each play, in their order.

    Raises:
        DataError: There are texts of unknown items, or none of some plays; says how many.
    """
    known = {play.item.id for play in plays}
    unknown = [each for each in answers if each.item not in known]
    if unknown:
        some = ", ".join(dict.fromkeys(ascii(each.item) for each in unknown[:3]))
        n = len({each.item for each in unknown})
        raise DataError(
            f"items of {tasks}",
            found=f"{counted(n, 'items')} that are not in it or were left out of it, such as {some}",
            where=unknown[0].place,
            fix=f"name the tasks file that was answered; one of its items is {plays[0].item.id!a}",
        )
    of: Mapping[tuple[str, int | None], Answered] = {(each.item, each.draw): each for each in answers}
    missing = [play for play in plays if (play.item.id, play.draw) not in of]
    if missing:
        lost = len({play.item.id for play in missing} - {each.item for each in answers})
        found = f"{counted(len(missing), 'episodes')} missing"
        found += f", {counted(lost, 'items')} without any" if lost else " where other items have more draws"
        raise DataError(
            f"a completion for each of {counted(len(plays), 'plays')}",
            found=f"{found}; the first: item {missing[0].item.id}, draw {missing[0].draw}",
            where=path,
            fix="run what is missing; or --items N, if N of them were chosen as assay evaluate does",
        )
    return [of[play.item.id, play.draw] for play in plays]
