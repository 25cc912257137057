"""One measurement by several processes: the very episodes of one process, whatever is kept and whoever
fails."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from assay.core.errors import EnvironmentLost
from assay.core.records import Episode
from assay.rollout.dataset.suite import choose
from assay.rollout.evaluation import measure as measuring
from assay.rollout.evaluation.measure import measure
from assay.rollout.evaluation.replay import graded_again
from assay.rollout.evaluation.rollout import Pace, play_baseline
from assay.rollout.policy.model import Policy
from assay.rollout.policy.processes import Processes
from assay.rollout.tasks.protocol import Task
from assay_tasks.collider import Collider, ColliderSettings, generate
from tests.evaluation.failing_environment import Failing
from tests.evaluation.test_rollout import SAMPLED, TASK, Memory, policy, suite

__all__ = ["policy"]
BATCH = 2  # twelve plays in six units
Found = list[Episode] | BaseException


class Threads(Processes):
    """A process played by a thread: what all say is laid on one table, and nobody goes on before all have."""

    def __init__(self, rank: int, table: list[Any], barrier: threading.Barrier) -> None:
        super().__init__(rank, len(table))
        for name, value in (("table", table), ("barrier", barrier)):
            object.__setattr__(self, name, value)

    def gather(self, value: Any) -> Any:
        self.table[self.rank] = value  # type: ignore[attr-defined]
        self.barrier.wait(timeout=60)  # type: ignore[attr-defined]
        seen = list(self.table)  # type: ignore[attr-defined]
        self.barrier.wait(timeout=60)  # type: ignore[attr-defined]
        return seen


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many plays each call had; threads play one after another, since they share a model."""
    calls, lock, plain = list[int](), threading.Lock(), measuring.play

    def play(policy: Policy, task: Task, plays: Sequence[Any], *rest: Any, **named: Any) -> Any:
        with lock:
            calls.append(len(plays))
            return plain(policy, task, plays, *rest, **named)

    monkeypatch.setattr(measuring, "play", play)
    return calls


def shared_out(
    n: int, policy: Policy, task: Task, kept: Callable[[int], Memory], told: Counter[int]
) -> list[Found]:
    """Let n threads measure together, and return what each found, or how it ended."""
    table, barrier, found = [None] * n, threading.Barrier(n), dict[int, Found]()

    def work(rank: int) -> None:
        def progress(k: int) -> None:
            told[rank] += k

        try:
            found[rank] = measure(
                policy,
                task,
                suite().plays(),
                SAMPLED,
                pace=Pace(BATCH, progress=progress),
                kept=kept(rank),
                processes=Threads(rank, table, barrier),
            )
        except (EnvironmentLost, SystemExit) as error:
            found[rank] = error

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    return [found[rank] for rank in range(n)]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_any_number_of_processes_plays_every_unit_once_and_gives_the_episodes_of_one(
    n: int, policy: Policy, played: list[int]
) -> None:
    whole = measure(policy, TASK, suite().plays(), SAMPLED, pace=Pace(BATCH))
    played.clear()
    disks, told = [Memory({}) for _ in range(n)], Counter[int]()
    assert shared_out(n, policy, TASK, lambda rank: disks[rank], told) == [whole] * n
    assert played == [BATCH] * 6
    assert told[0] == 12, "the bar of the first one counts the episodes of all"
    assert sorted(disks[0].units) == list(range(6)), (
        "the first one keeps all, also where the others have disks of their own"
    )
    assert disks[0].put_again == sorted(disks[0].put_again)


def test_what_one_process_kept_three_go_on_with(policy: Policy, played: list[int]) -> None:
    whole = measure(policy, TASK, suite().plays(), SAMPLED, pace=Pace(BATCH))
    disk, told = Memory({k: whole[BATCH * k : BATCH * k + BATCH] for k in (0, 3)}), Counter[int]()
    played.clear()
    assert shared_out(3, policy, TASK, lambda rank: disk, told) == [whole] * 3
    assert len(played) == 4 and told[0] == 12


@pytest.mark.parametrize("broken", [[1], [0], [0, 1]], ids=str)
def test_an_environment_that_fails_for_good_ends_all_and_is_told_by_one(
    broken: list[int], policy: Policy, played: list[int]
) -> None:
    plays, disk = suite().plays(), Memory({})
    task = Failing(
        TASK, {("start", plays[BATCH * unit].item.id, plays[BATCH * unit].world_seed): 99 for unit in broken}
    )
    ended = shared_out(3, policy, task, lambda rank: disk, Counter())
    told = [error for error in ended if isinstance(error, EnvironmentLost)]
    assert len(told) == 1 and ended.index(told[0]) == broken[0]
    assert [error.code for error in ended if isinstance(error, SystemExit)] == [1, 1]
    assert sorted(disk.units) == [unit for unit in range(3) if unit not in broken], (
        "what ended beside it is kept"
    )
    assert len(played) == 3, "nobody goes on to the next unit"


COLLIDER = Collider(ColliderSettings(surface="compact", max_turns=8, shaping=0.0, gamma=1.0))
ITEMS = [COLLIDER.item(row) for row in generate("heldout", 8, max_turns=8, labels=("replay test",))]
SUITE = choose(ITEMS, 8, split="heldout", draws=2, seed=0)
EPISODES = play_baseline(COLLIDER, COLLIDER.baselines()["adaptive"], SUITE.plays(), "adaptive")


def complaints(episodes: list[Episode]) -> list[str]:
    return graded_again(COLLIDER, SUITE, episodes, "arm")


def test_untouched_episodes_hold_together() -> None:
    assert complaints(EPISODES) == []
    assert complaints(EPISODES[::-1]) == []


def test_a_player_without_luck_plays_all_draws_of_an_item_as_if_each_were_played() -> None:
    player, plays = COLLIDER.baselines()["adaptive"], SUITE.plays()
    one_by_one = [each for play in plays for each in play_baseline(COLLIDER, player, [play], "adaptive")]
    assert one_by_one == EPISODES
    lucky = play_baseline(COLLIDER, COLLIDER.baselines()["random"], plays, "random")
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
