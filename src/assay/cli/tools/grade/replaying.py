"""Texts put to a task as a policy's would be: turn by turn, and refused where they are no whole episode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay.cli.tools.grade.completions import Answered
from assay.core.counting import counted
from assay.core.errors import DataError
from assay.core.records import Episode
from assay.rollout.dataset.suite import Play
from assay.rollout.evaluation.retries import GivenUp
from assay.rollout.evaluation.trajectory import Row, start_all, step_all, turn_of
from assay.rollout.tasks.protocol import Message, Step, Task


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
    worlds = {(play.item.id, play.world_seed): play for play in plays}
    opened = dict[tuple[str, int], tuple[list[Message], Any]]()
    for (world, play), (started, _) in zip(
        worlds.items(), start_all(task, [*worlds.values()], retries), strict=True
    ):
        if isinstance(started, GivenUp):
            raise started.of(play)
        opened[world] = started
    told = [
        (Row(play, opened[play.item.id, play.world_seed][1], [], answer.chars_cut), answer)
        for play, answer in zip(plays, answers, strict=True)
    ]
    going = told
    while going:
        texts = [answer.completions[len(row.turns)] for row, answer in going]
        steps = step_all(task, [row for row, _ in going], texts, retries)
        for (row, answer), text, (step, again) in zip(going, texts, steps, strict=True):
            try:
                _take(row, answer, text, row.stepped(step, again))
            except GivenUp as gone:
                raise gone.of(row.play) from gone
        left = [(row, answer) for row, answer in going if not row.over and _is_more(row, answer)]
        advance(len(going) - len(left))
        going = left
    _refuse_unfinished(told)
    asked = [opened[play.item.id, play.world_seed][0] for play in plays]
    other = sum(map(_is_asked_otherwise, answers, asked))
    return [_judge(task, row, answer, retries) for row, answer in told], other


def _is_more(row: Row, answer: Answered) -> bool:
    return len(row.turns) < len(answer.completions)


def _take(row: Row, answer: Answered, text: str, step: Step) -> None:
    """Go on by one completion.

    Raises:
        DataError: The environment says something else than the transcript has there.
    """
    n = len(row.turns)
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
    row.record(step, turn_of(step, text, tokens, cut, "" if answer.prompts is None else answer.prompts[n]))


def _refuse_unfinished(told: Sequence[tuple[Row, Answered]]) -> None:
    early = [each for each in told if not each[0].over]
    late = [(row, answer) for row, answer in told if row.over and _is_more(row, answer)]
    for wrong, expected, word in (
        (early, "turns until the episode ends", "ending too early"),
        (late, "no turn after an episode's end", "going on too long"),
    ):
        if wrong:
            row, answer = wrong[0]
            has = counted(len(answer.completions), "completions")
            ends = f"it ended ({row.ending}) with number {len(row.turns)}" if row.over else "it goes on"
            of = f"{counted(len(wrong), 'transcripts')} of {len(told)}"
            raise DataError(
                expected,
                found=f"{of} {word}; the first has {has}, and {ends}",
                where=f"{answer.place}, item {row.play.item.id}, draw {row.play.draw}",
                fix="bring whole episodes, one a row, each completion in its turn",
            )


def _is_asked_otherwise(answer: Answered, prompt: Sequence[Message]) -> bool:
    """Return whether a transcript opens with another text than the task does."""
    asked = "\n".join(each["content"] for each in prompt).strip()
    return answer.asked is not None and answer.asked.strip() != asked


def _judge(task: Task, row: Row, answer: Answered, retries: int) -> Episode:
    try:
        episode = row.finish(task, retries).episode
    except GivenUp as gone:
        raise gone.of(row.play) from gone
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
