"""What was stored must be what the task gives when it is graded again; an edit anywhere in an episode
shows."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.records import Episode
from assay.dataset.suite import choose
from assay.evaluation.replay import graded_again
from assay.evaluation.rollout import play_baseline
from assay.tasks.collider import Collider, ColliderSettings, generate

TASK = Collider(ColliderSettings(surface="compact", max_turns=8, shaping=0.0, gamma=1.0))
ITEMS = [TASK.item(row) for row in generate("heldout", 8, max_turns=8, labels=("replay test",))]
SUITE = choose(ITEMS, 8, split="heldout", draws=2, seed=0)
EPISODES = play_baseline(TASK, TASK.baselines()["adaptive"], SUITE.plays(), "adaptive")


def complaints(episodes: list[Episode]) -> list[str]:
    return graded_again(TASK, SUITE, episodes, "arm")


def test_untouched_episodes_hold_together() -> None:
    assert complaints(EPISODES) == []
    assert complaints(EPISODES[::-1]) == []


def test_a_player_without_luck_plays_all_draws_of_an_item_as_if_each_were_played() -> None:
    player, plays = TASK.baselines()["adaptive"], SUITE.plays()
    one_by_one = [each for play in plays for each in play_baseline(TASK, player, [play], "adaptive")]
    assert one_by_one == EPISODES
    lucky = play_baseline(TASK, TASK.baselines()["random"], plays, "random")
    assert any(a.turns != b.turns for a, b in zip(lucky[::2], lucky[1::2], strict=True))


@pytest.mark.parametrize(
    "change",
    [
        lambda e: {"success": not e.success},
        lambda e: {"reward": e.reward + 0.01},
        lambda e: {"ending": "timeout"},
        lambda e: {"seed": e.seed + 1},
        lambda e: {"strata": e.strata | {"tier": "easier"}},
        lambda e: {"flags": e.flags | {"mass_correct": not e.flags["mass_correct"]}},
        lambda e: {"metrics": e.metrics | {"blocks_used": 0.5}},
        lambda e: {"turns": e.turns[:-1]},
        lambda e: {"turns": (*e.turns, e.turns[-1])},
        lambda e: {"turns": (e.turns[0].model_copy(update={"completion": "s"}), *e.turns[1:])},
        lambda e: {"turns": (e.turns[0].model_copy(update={"observation": "L3"}), *e.turns[1:])},
    ],
)
def test_one_edit_in_one_episode_is_found_and_its_item_named(change: Any) -> None:
    edited = [*EPISODES]
    edited[3] = edited[3].model_copy(update=change(edited[3]))
    assert EPISODES[3].item_id in complaints(edited)[0]


def test_a_dropped_or_a_repeated_episode_is_found() -> None:
    assert "not the 16 plays" in complaints(EPISODES[1:])[0]
    assert "not the 16 plays" in complaints([*EPISODES, EPISODES[0]])[0]
    assert "not the 16 plays" in complaints([*EPISODES[:-1], EPISODES[0]])[0]
