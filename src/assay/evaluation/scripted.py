"""Scripted players on a suite: what a score is worth is read off between a floor and a ceiling. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.records import Episode, Turn
from assay.core.seeds import rng
from assay.dataset.suite import Play
from assay.evaluation.trajectory import GivenUp, episode_of, tried, turn_of
from assay.tasks.protocol import Baseline, Task


def play_baseline(
    task: Task, player: Baseline, plays: Sequence[Play], name: str, *, retries: int = 0
) -> list[Episode]:
    """Let a scripted player play; its episodes have the same form as a policy's, with no tokens.

    Raises:
        EnvironmentLost: The environment failed for good; names the item.
    """
    episodes = []
    for each in plays:
        try:
            episodes.append(_play_scripted(task, player, each, name, retries))
        except GivenUp as gone:
            raise gone.of(each) from gone
    return episodes


def _play_scripted(task: Task, player: Baseline, each: Play, name: str, retries: int) -> Episode:
    (_, state), _ = tried(retries, task.start, each.item, each.world_seed)
    generator = rng("baseline", name, each.seed)
    turns: list[Turn] = []
    ending: str | None = None
    while ending is None:
        text = player(each.item, state, generator)
        step, _ = tried(retries, task.step, state, text)
        turns.append(turn_of(step, text, 0, False, ""))
        state, ending = step.state, step.ending
    return tried(retries, episode_of, task, each, state, turns, ending, 0)[0]
