"""What the honest player of a task shows on train items before the first step, by the signals that alarms
read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from assay.core.config.settings import Params
from assay.core.records import HonestPlay
from assay.core.seeds import derive_seed
from assay.health.rules.commonest import most_common
from assay.health.rules.relative import moved_levels
from assay.health.rules.signals import StepSignals, episode_text
from assay.rollout.dataset.suite import Play
from assay.rollout.evaluation.replay import play_baseline
from assay.rollout.tasks.protocol import Item, Task

DRAWS = 2  # as many as show whether a player repeats itself
MOST_ITEMS = 256  # which is enough for a share of them


def honest_play(task: Task, order: Sequence[Item], params: Params, *, keyed: bool) -> HonestPlay | None:
    """Return what the player at a task's ceiling shows; None where none is honest: there is no such player,
    it needs no skill, or it never succeeds.

    Args:
        task: As it is evaluated, without shaping.
        order: The items in the order of training; those of the first steps are played.
        params: How many, the levels, and the seed.
        keyed: Whether right answers are known.

    Raises:
        EnvironmentLost: The environment failed for good; names the item.
        TaskError: Code of the task failed.
    """
    player = task.baselines().get(task.ceiling)
    if player is None or task.rivals.get(task.ceiling) == "trivial":
        return None
    n = min(MOST_ITEMS, params.health.top_share_window * params.train.items_per_step)
    items = {item.id: item for item in order[:n]}
    plays = [
        Play(
            item,
            draw,
            seed=derive_seed("honest play", params.seed, name, draw),
            world_seed=derive_seed("world", "honest play", params.seed, name),
        )
        for name, item in items.items()
        for draw in range(DRAWS)
    ]
    episodes = play_baseline(task, player, plays, task.ceiling, retries=params.health.retries)
    if not any(episode.success for episode in episodes):
        return None
    texts: dict[str, Counter[str]] = {name: Counter() for name in items}
    for episode in episodes:
        texts[episode.item_id][episode_text(episode)] += 1
    signals = StepSignals.of(0, episodes)
    found = HonestPlay(
        player=task.ceiling,
        items=len(items),
        episodes=len(episodes),
        success=signals.success or 0.0,
        turns=math.fsum(len(episode.turns) for episode in episodes) / len(episodes),
        answers=len({text for said in texts.values() for text in said}),
        top_share=most_common([texts])[0].share,
        distinct=signals.distinct or 0.0,
        parsed=signals.parsed or 0.0,
        zero_variance=signals.zero_variance or 0.0,
        levels={},
    )
    return found.model_copy(update={"levels": moved_levels(params.health, found, keyed=keyed)})
