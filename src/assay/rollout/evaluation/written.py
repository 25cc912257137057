"""What completions look like, whatever they are worth: empty, truncated, or right in a wrapping that the task
does not cut off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from pydantic import Field

from assay.core.config.tasks import Wrapping
from assay.core.counting import counted
from assay.core.errors import AssayError
from assay.core.records import Episode, Record
from assay.rollout.dataset.suite import Play
from assay.rollout.evaluation.trajectory import Row, start_all, step_all
from assay.rollout.tasks.protocol import Task
from assay.rollout.tasks.wrappings import EVERY, cut_off, found_around, only_reasons

MANY_EMPTY = 0.1  # of all completions, from which on it is the first thing that is said


class Written(Record):
    """How completions were written, whatever they are worth."""

    cut: tuple[Wrapping, ...] = Field(description="what was cut off each before it was graded (task.cut)")
    completions: int = Field(ge=0)
    empty: int = Field(ge=0, description="of them without an answer: no text, or reasoning alone")
    only_reasoning: int = Field(ge=0, description="of the empty ones those with reasoning")
    truncated: int | None = Field(description="of them cut off at the limit; null: nobody says")
    right_but_wrapped: int = Field(
        ge=0, description="episodes without success that have it once wrappings are cut off"
    )
    wrapped_in: dict[str, int] = Field(description="of these, by the fewest wrappings that are to be cut")


def count_written(
    task: Task,
    plays: Sequence[Play],
    episodes: Sequence[Episode],
    cut: Sequence[Wrapping],
    *,
    hidden: int = 0,
    knows_truncated: bool = True,
    retries: int = 0,
) -> Written:
    """Return how the completions of episodes were written.

    Args:
        task: Graded them, and is asked again about failures in a wrapping.
        plays: Those of the episodes, in their order.
        episodes: Graded.
        cut: What the task cuts off.
        hidden: Empty completions behind which the server holds reasoning.
        knows_truncated: Whether anybody says what was cut off at the limit.
        retries: How often a call to an environment that failed is made again.
    """
    turns = [turn for episode in episodes for turn in episode.turns]
    failed = [(p, e) for p, e in zip(plays, episodes, strict=True) if not e.success]
    thought = sum(only_reasons(turn.completion) for turn in turns)
    inside = [each for each in find_wrapped(task, failed, retries) if each]
    return Written(
        cut=tuple(cut),
        completions=len(turns),
        empty=sum(not turn.completion.strip() for turn in turns) + thought,
        only_reasoning=hidden + thought,
        truncated=sum(turn.truncated for turn in turns) if knows_truncated else None,
        right_but_wrapped=len(inside),
        wrapped_in=dict(sorted(Counter(",".join(each) for each in inside).items())),
    )


def find_wrapped(
    task: Task, failed: Sequence[tuple[Play, Episode]], retries: int
) -> list[tuple[Wrapping, ...]]:
    """Return, for each episode without success, the fewest wrappings without which it has it; () for
    none."""
    texts = [[turn.completion for turn in episode.turns] for _, episode in failed]
    left = {place: _choices(each) for place, each in enumerate(texts)}
    found: list[tuple[Wrapping, ...]] = [()] * len(failed)
    while left := {place: rest for place, rest in left.items() if rest}:
        tried = {place: rest.pop(0) for place, rest in left.items()}
        plays = [failed[place][0] for place in tried]
        bare = [[cut_off(text, names) for text in texts[place]] for place, names in tried.items()]
        for (place, names), right in zip(tried.items(), _right(task, plays, bare, retries), strict=True):
            if right:
                found[place] = names
                del left[place]
    return found


def _choices(texts: Sequence[str]) -> list[tuple[Wrapping, ...]]:
    """Return which wrappings to try to cut, few first."""
    around = {name for text in texts for name in found_around(text)}
    names = [name for name in EVERY if name in around]
    return [some for n in range(1, len(names) + 1) for some in combinations(names, n)]


def _right(task: Task, plays: Sequence[Play], texts: Sequence[Sequence[str]], retries: int) -> Iterator[bool]:
    """Yield whether each play succeeds with these completions; where the task's code fails, it does not."""
    try:
        yield from [*_played(task, plays, texts, retries)]
    except AssayError:
        if len(plays) == 1:
            yield False
            return
        for play, said in zip(plays, texts, strict=True):
            yield from _right(task, [play], [said], retries)


def _played(
    task: Task, plays: Sequence[Play], texts: Sequence[Sequence[str]], retries: int
) -> Iterator[bool]:
    rows = []
    for play, (opened, _) in zip(plays, start_all(task, plays, retries), strict=True):
        rows.append(Row(play, None if isinstance(opened, Exception) else opened[1], [], 0))
    for turn in range(max(map(len, texts), default=0)):
        going = [
            place
            for place, row in enumerate(rows)
            if row.state is not None and row.ending is None and turn < len(texts[place])
        ]
        steps = step_all(
            task, [rows[place] for place in going], [texts[place][turn] for place in going], retries
        )
        for place, (step, _) in zip(going, steps, strict=True):
            row = rows[place]
            row.state, row.ending = (None, None) if isinstance(step, Exception) else (step.state, step.ending)
    for row in rows:
        yield row.ending is not None and task.judge(row.state).success


def said_of_written(found: Written) -> str:
    """Return the counts as one line."""
    thought = f" ({found.only_reasoning} reasoning only)" if found.only_reasoning else ""
    line = f"{counted(found.completions, 'completions')}: {found.empty} empty{thought}"
    line += f", {'unknown how many' if found.truncated is None else found.truncated} truncated"
    line += f"; {counted(found.right_but_wrapped, 'episodes')} right but wrapped"
    if found.wrapped_in:
        line += f" ({'; '.join(f'in {names} {n}' for names, n in found.wrapped_in.items())})"
    return f"{line}; cut off before grading: {', '.join(found.cut) or 'nothing'}"


def find_written_cautions(found: Written, billed: int | None = None, again: str = "") -> list[str]:
    """Return what a reader should know before any number, a sentence each.

    Args:
        found: How completions were written.
        billed: Tokens that a server counted for them.
        again: Further options by which the same call grades what there is.
    """
    cautions = []
    if found.empty and found.empty >= MANY_EMPTY * found.completions:
        told = f"{found.empty} of {counted(found.completions, 'completions')} are empty"
        told += f", though {billed:,} tokens were billed" if billed else ""
        if found.only_reasoning:
            told += (
                f"; {found.only_reasoning} of them are reasoning without an answer: is the limit of tokens"
            )
            told += " too low, or does a reasoning parser of the server take all for thought?"
        cautions.append(told)
    if found.right_but_wrapped:
        names = _wanted(found)
        of = f"{counted(found.right_but_wrapped, 'episodes')} without success"
        cautions.append(
            f"{of} are right inside {', '.join(names)}, which the task does not cut off."
            f" Fix: --cut {','.join(names)}{again}; or task.cut: [{', '.join(names)}] in its preset"
        )
    return cautions


def _wanted(found: Written) -> list[Wrapping]:
    """Return what to cut, in an order that serves: what is cut already, and what would help."""
    named = {*found.cut, *(name for names in found.wrapped_in for name in names.split(","))}
    return [name for name in EVERY if name in named]
