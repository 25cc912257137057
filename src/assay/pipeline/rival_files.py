"""The files of the rivals that the base itself plays: what stands in them, and the suite they play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field

from assay.core.records import Episode, Record
from assay.rollout.dataset.suite import Suite
from assay.rollout.tasks.protocol import Task
from assay.rollout.tasks.rivals import IN_PRE_EVAL


class BaseRival(Record):
    """What became of one rival that the base itself played, or that more fine-tuning made of it; all of it
    follows from base, data and settings."""

    asked: int = Field(
        ge=0, description="few_shot: examples; best_of_n: draws; constrained: 1; more_sft: steps"
    )
    used: int = Field(ge=0, description="the same as it was played; 0: not played")
    note: str | None = Field(description="why it did not play, or not as asked; null: as asked")
    tokens: int = Field(ge=0, description="all that was written for it, also in draws that did not count")
    invalid: int = Field(
        ge=0, description="episodes that are not valid all the same, by the task's own check"
    )
    unbound_items: int = Field(ge=0, description="items whose schema could not bind the decoding")


class BaseRivals(Record):
    """What rivals.json holds: the rivals that the settings ask for, by name."""

    rivals: dict[str, BaseRival]


def file_of(name: str) -> str:
    """Return the file of a rival's episodes, without .jsonl.

    >>> file_of("few_shot")
    'rival_few_shot'
    """
    return f"rival_{name}"


def rival_of(arm: str) -> str | None:
    """Return the rival that an arm is by the name of its file; None for one that is none.

    >>> rival_of("rival_few_shot"), rival_of("pre_eval")
    ('few_shot', None)
    """
    return next((name for name in IN_PRE_EVAL if arm == file_of(name)), None)


def suite_for(heldout: Suite, name: str) -> Suite:
    """Return the held-out suite as a rival plays it: the same items, worlds and draws, sampled anew."""
    return replace(heldout, sampling=file_of(name))


def valid(task: Task, episode: Episode) -> bool:
    """Return whether an episode passes the task's own check: every turn was read, every answer has the right
    form. What is right it does not see."""
    read = all(turn.outcome != "failed" for turn in episode.turns)
    return read and all(episode.flags.get(flag) is True for flag in task.valid_flags)


def facts_of(
    task: Task, episodes: Sequence[Episode], asked: int, used: int, note: str | None = None, **counts: int
) -> BaseRival:
    """Return what became of a rival.

    Args:
        task: What it played.
        episodes: All of them; none where it did not play.
        asked: Examples or draws.
        used: The same as it was played.
        note: Why it did not play, or not as asked.
        counts: `tokens`, where more were written than stand in the episodes; `unbound` items.
    """
    return BaseRival(
        asked=asked,
        used=used if episodes else 0,
        note=note,
        tokens=counts.get("tokens", sum(episode.n_tokens for episode in episodes)),
        invalid=sum(not valid(task, episode) for episode in episodes),
        unbound_items=counts.get("unbound", 0),
    )
