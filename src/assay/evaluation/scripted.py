"""Scripted players on a suite: what a score is worth is read off between a floor and a ceiling. No torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.core.records import Episode, Turn
from assay.core.seeds import rng
from assay.dataset.suite import Play
from assay.evaluation.trajectory import GivenUp, episode_of, tried, turn_of
from assay.tasks.protocol import Baseline, Task


def play_baseline(
    task: Task, player: Baseline, plays: Sequence[Play], name: str, *, retries: int = 0
) -> list[Episode]:
    """Let a scripted player play; its episodes have the same form as a policy's, with no tokens.

    A task is pure and all draws of an item meet the same world: a player that drew no random number in its
    first draw of an item plays the others alike.

    Raises:
        EnvironmentLost: The environment failed for good; names the item.
    """
    episodes: list[Episode] = []
    settled: dict[tuple[str, int], Episode] = {}
    for each in plays:
        world = (each.item.id, each.world_seed)
        if world in settled:
            episodes.append(settled[world].model_copy(update={"draw": each.draw, "seed": each.seed}))
            continue
        generator = rng("baseline", name, each.seed)
        untouched = generator.bit_generator.state
        try:
            episodes.append(_play_scripted(task, player, each, generator, retries))
        except GivenUp as gone:
            raise gone.of(each) from gone
        if generator.bit_generator.state == untouched:
            settled[world] = episodes[-1]
    return episodes


def _play_scripted(
    task: Task, player: Baseline, each: Play, generator: np.random.Generator, retries: int
) -> Episode:
    (_, state), _ = tried(retries, task.start, each.item, each.world_seed)
    turns: list[Turn] = []
    ending: str | None = None
    while ending is None:
        text = player(each.item, state, generator)
        step, _ = tried(retries, task.step, state, text)
        turns.append(turn_of(step, text, 0, False, ""))
        state, ending = step.state, step.ending
    return tried(retries, episode_of, task, each, state, turns, ending, 0)[0]
