"""Shared by the collider's tests: a task on each surface, suites, and one way to play an episode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from assay.core.seeds import derive_seed, rng
from assay.rollout.tasks.protocol import Baseline, Item, Step, Verdict
from assay_tasks.collider import Collider, ColliderSettings, generate

Play = Callable[[Collider, Item, Baseline], tuple[float, Verdict, list[Step]]]


def settings(surface: Any = "compact", **changes: Any) -> ColliderSettings:
    return ColliderSettings(**({"surface": surface, "max_turns": 8, "shaping": 0.0, "gamma": 1.0} | changes))


@pytest.fixture(scope="session")
def compact() -> Collider:
    return Collider(settings("compact"))


@pytest.fixture(scope="session")
def json_task() -> Collider:
    return Collider(settings("json"))


@pytest.fixture(scope="session")
def items(compact: Collider) -> list[Item]:
    return [compact.item(row) for row in generate("validation", 510, max_turns=8, labels=("tests",))]


@pytest.fixture(scope="session")
def play() -> Play:
    def run(task: Collider, item: Item, player: Baseline) -> tuple[float, Verdict, list[Step]]:
        _, state = task.start(item, derive_seed("world", item.id))
        chance = rng("player", item.id)
        steps: list[Step] = []
        while not steps or steps[-1].ending is None:
            steps.append(task.step(state, player(item, state, chance)))
            state = steps[-1].state
        return sum(sum(step.parts.values()) for step in steps), task.judge(state), steps

    return run
