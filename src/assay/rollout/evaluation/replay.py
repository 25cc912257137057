"""Episodes without a model: stored ones graded again, and those of scripted players, by which a score is read
between a floor and a ceiling. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.core.counting import counted
from assay.core.errors import EnvironmentFailure
from assay.core.records import Episode, Turn
from assay.core.seeds import rng
from assay.rollout.dataset.suite import Play, Suite
from assay.rollout.evaluation.retries import GivenUp, tried
from assay.rollout.evaluation.trajectory import episode_of, turn_of
from assay.rollout.tasks.protocol import Baseline, Item, Task


def graded_again(
    task: Task,
    suite: Suite,
    episodes: Sequence[Episode],
    name: str,
    *,
    rewards: float = 1e-7,
    metrics: float = 1e-7,
) -> list[str]:
    """Return what episodes say of themselves that the suite or the task does not; empty if they are its
    plays, well graded.

    Every stored completion is played again through the task, so an edited flag, reward or observation shows.

    Args:
        task: Grades.
        suite: Whose plays they should be.
        episodes: As stored, in any order.
        name: What to call them.
        rewards: How far these may be apart, relative to their size; 0: not at all.
        metrics: The same of these.
    """
    plays = {(play.item.id, play.draw): play for play in suite.plays()}
    found = {(episode.item_id, episode.draw) for episode in episodes}
    if found != set(plays) or len(episodes) != len(plays):
        return [f"{name}: the episodes are not the {len(plays)} plays of the suite"]
    starts: dict[tuple[str, int], Any] = {}
    wrong = [e for e in episodes if not _agrees(task, plays[e.item_id, e.draw], e, starts, rewards, metrics)]
    if wrong:
        first = f"first: item {wrong[0].item_id}, draw {wrong[0].draw}"
        return [f"{name}: {counted(len(wrong), 'episodes')} graded otherwise when graded again ({first})"]
    return []


def _same(one: Any, other: Any, near: float) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=near, abs_tol=near / 100)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name], near) for name in one)
    return bool(one == other)


def _agrees(
    task: Task,
    play: Play,
    episode: Episode,
    starts: dict[tuple[str, int], Any],
    rewards: float,
    metrics: float,
) -> bool:
    # A state is a value, so all draws of an item can begin at the same one.
    world = (play.item.id, play.world_seed)
    if world not in starts:
        starts[world] = task.start(play.item, play.world_seed)[1]
    state = starts[world]
    parts = dict.fromkeys(task.parts, 0.0)
    ending: str | None = None
    for turn in episode.turns:
        if ending is not None:
            return False
        step = task.step(state, turn.completion)
        earned = {name: float(value) for name, value in step.parts.items() if value}
        told = (step.observation, step.outcome, step.failure, step.action)
        if told != (turn.observation, turn.outcome, turn.failure, turn.action) or not _same(
            earned, turn.parts, rewards
        ):
            return False
        for name, value in earned.items():
            parts[name] += value
        state, ending = step.state, step.ending
    if ending is None:
        return False
    verdict = task.judge(state)
    facts = (
        ending,
        verdict.success,
        dict(verdict.flags),
        play.seed,
        dict(play.item.strata),
        play.item.cluster,
    )
    if facts != (
        episode.ending,
        episode.success,
        episode.flags,
        episode.seed,
        episode.strata,
        episode.cluster,
    ):
        return False
    return (
        _same(sum(parts.values()), episode.reward, rewards)
        and _same(parts, episode.parts, rewards)
        and _same(dict(verdict.metrics), episode.metrics, metrics)
    )


def states_of(task: Task, play: Play, episode: Episode) -> list[Any]:
    """Return the state before the first turn of a stored episode and the one after each, by playing it again.

    Only what `graded_again` finds nothing wrong with can be played to its end.
    """
    states = [task.start(play.item, play.world_seed)[1]]
    for turn in episode.turns:
        states.append(task.step(states[-1], turn.completion).state)
    return states


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
        text, _ = tried(retries, _said, player, each.item, state, generator)
        step, _ = tried(retries, task.step, state, text)
        turns.append(turn_of(step, text, 0, False, ""))
        state, ending = step.state, step.ending
    return tried(retries, episode_of, task, each, state, turns, ending, 0)[0]


def _said(player: Baseline, item: Item, state: Any, generator: np.random.Generator) -> str:
    """Return what a player says; where its environment failed, its chances are as before."""
    before = generator.bit_generator.state
    try:
        return player(item, state, generator)
    except EnvironmentFailure:
        generator.bit_generator.state = before
        raise
