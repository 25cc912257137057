"""Episodes that are opened and stepped at once are the episodes of one after the other."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from assay.core.decoding import Decoding
from assay.core.errors import EnvironmentFailure, EnvironmentLost, TaskError
from assay.core.records import Episode
from assay.rollout.dataset.suite import Suite, choose
from assay.rollout.evaluation import retries
from assay.rollout.evaluation.measure import measure
from assay.rollout.evaluation.replay import graded_again
from assay.rollout.evaluation.rollout import Lost, Pace, Rollout, attempt, play, play_baseline
from assay.rollout.policy.model import Policy
from assay.rollout.tasks.own.isolation.server import ADDRESS
from assay.rollout.tasks.own.task import OwnState, OwnTask, own_task
from assay.rollout.tasks.protocol import Item, Message, Step, Task
from assay.stages.render_evidence.remembered import Remembered, remembered
from tests.small_policy import small_policy
from tests.tasks.own.test_isolation import serve
from tests.tasks.own.test_lessons import settings

GAME = """
import os, time
from pathlib import Path
from assay.rollout.tasks.own.api import Environment, Told

class Game(Environment):
    def reset(self, row, seed):
        self.left, self.row = row["steps"], row
        return f"left {self.left}"

    def step(self, completion):
        if "raise" in self.row:
            raise ValueError("broken on purpose")
        if Path(__file__).parent.with_name("die").exists():
            os._exit(9)
        self.left -= 1 + ("a" in completion)
        return Told(None if self.left < 1 else f"left {self.left}", float("b" in completion), self.left == 0)

    def chance(self, rng):
        return "ab"[rng.integers(2)]
"""
SAMPLED = Decoding(1.0, 3)


class OneByOne:
    """A task whose calls are made one after the other."""

    def __init__(self, task: OwnTask) -> None:
        self._task = task

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)


class Losing(OwnTask):
    """One whose calls are lost as often as `losses` says, and noted."""

    losses: ClassVar[dict[tuple[str, int], int]] = {}
    made: ClassVar[list[list[tuple[str, int]]]] = []

    def _lose(self, calls: Sequence[tuple[str, int]], found: list[Any]) -> list[Any]:
        self.made.append(list(calls))
        for place, call in enumerate(calls):
            if self.losses.get(call, 0) > 0:
                self.losses[call] -= 1
                found[place] = EnvironmentFailure(f"lost {call[0]}")
        return found

    def starts(
        self, items: Sequence[Item], world_seeds: Sequence[int]
    ) -> list[tuple[list[Message], OwnState] | EnvironmentFailure]:
        return self._lose([(item.id, -1) for item in items], super().starts(items, world_seeds))

    def steps(
        self, states: Sequence[OwnState], completions: Sequence[str]
    ) -> list[Step | EnvironmentFailure]:
        calls = [(state.item, len(state.completions)) for state in states]
        return self._lose(calls, super().steps(states, completions))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("game")
    (found / "mine").mkdir()
    (found / "mine/task.py").write_text(GAME)
    return found


@pytest.fixture(scope="module")
def policy() -> Policy:
    return small_policy([*"ab 0123456789", "left"], layers=2, heads=4, max_positions=256)


def game(root: Path, kind: type[OwnTask] | None = None, **changes: Any) -> OwnTask:
    several = {
        "entry": "task.py:Game",
        "success": {"compare": "environment"},
        "max_turns": 4,
        "players": {"chance": "scripted"},
        "timeout_s": 2.0,
    }
    made = own_task(settings(**several | changes), str(root))
    return made if kind is None else kind(made.settings, made.runner)


def suite(task: OwnTask, **more: Any) -> Suite:
    rows = [{"id": f"r{n}", "steps": 2 + n % 4, **more} for n in range(10)]
    return choose([task.item(row) for row in rows], 10, split="validation", draws=3, seed=0)


def dumped(rollouts: Sequence[Rollout | Lost]) -> list[str]:
    return [r.episode.model_dump_json() if isinstance(r, Rollout) else r.reason for r in rollouts]


def test_at_once_or_one_after_the_other_gives_the_same_episodes(root: Path, policy: Policy) -> None:
    task = game(root)
    plays = suite(task).plays()
    together = play(policy, task, plays, SAMPLED, pace=Pace(16))
    alone: Any = OneByOne(task)
    assert dumped(together) == dumped(play(policy, alone, plays, SAMPLED, pace=Pace(16)))
    assert len({len(one.episode.turns) for one in together}) > 1
    assert (
        graded_again(task, suite(task), [one.episode for one in together], "them", rewards=0, metrics=0) == []
    )


def test_code_that_changes_its_own_state_is_remembered_as_it_would_play_again(root: Path) -> None:
    task = game(root)
    plays, once = suite(task).plays(), cast(Task, Remembered(task))
    expected = play_baseline(task, task.baselines()["chance"], plays, "chance")
    for _ in range(2):
        assert play_baseline(once, task.baselines()["chance"], plays, "chance") == expected
        assert graded_again(once, suite(task), expected, "them", rewards=0, metrics=0) == []
    expected[3] = expected[3].model_copy(update={"reward": expected[3].reward + 1})
    assert "item r1, draw 0" in graded_again(once, suite(task), expected, "them")[0]


def test_no_more_steps_are_remembered_than_there_is_memory_for_and_play_stays_the_same(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.stages.render_evidence.remembered.MOST", 7)
    task = game(root)
    plays, once = suite(task).plays(), Remembered(task)
    expected = play_baseline(task, task.baselines()["chance"], plays, "chance")
    for each in plays:
        assert play_baseline(cast(Task, once), task.baselines()["chance"], [each], "chance")[0] in expected
        assert len(once._steps) <= 7
    assert sum(len(episode.turns) for episode in expected) > 2 * 7


def test_items_that_share_an_id_are_remembered_apart_and_own_code_is_asked_each_time(root: Path) -> None:
    task = game(root)
    one, other = (task.item({"id": "r1", "steps": steps}) for steps in (2, 5))
    told = [Remembered(task).start(item, 0)[0] for item in (one, other)]
    both = Remembered(task)
    assert [both.start(item, 0)[0] for item in (one, other)] == told and told[0] != told[1]
    assert remembered(task, task.settings) is task


def test_only_what_was_lost_is_tried_again_and_changes_nothing(
    root: Path, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(retries, "pause", waited.append)
    sound = game(root)
    plays = suite(sound).plays()
    expected = dumped(play(policy, sound, plays, SAMPLED, pace=Pace(64)))
    task = game(root, Losing)
    monkeypatch.setattr(Losing, "losses", {("r1", -1): 2, ("r3", 0): 1, ("r4", 1): 2})
    monkeypatch.setattr(Losing, "made", [])
    found = play(policy, task, plays, SAMPLED, pace=Pace(64, retries=2))
    assert dumped(found) == expected
    assert Losing.made[:3] == [[(f"r{n}", -1) for n in range(10)], [("r1", -1)], [("r1", -1)]]
    assert Losing.made[4] == [("r3", 0)]
    assert waited == [0.05, 0.2, 0.05, 0.05]
    assert sum(one.retries for one in found) == 2 + 1 + 2


def test_what_is_lost_for_good_is_masked_alone_or_ends_an_evaluation(
    root: Path, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "pause", lambda seconds: None)
    task = game(root, Losing)
    plays = suite(task).plays()
    monkeypatch.setattr(Losing, "losses", {("r2", -1): 2, ("r5", 0): 6})
    found = attempt(policy, task, plays, SAMPLED, pace=Pace(64, retries=1))
    lost = [one for one in found if isinstance(one, Lost)]
    assert {one.play.item.id for one in lost} == {"r2", "r5"}
    assert all(isinstance(one, Rollout) or one.attempts == 2 for one in found)
    monkeypatch.setattr(Losing, "losses", {("r5", 0): 6})
    with pytest.raises(EnvironmentLost, match=r"item r5, draw 0(.|\n)*lost r5 \(2 attempts\)"):
        play(policy, task, plays, SAMPLED, pace=Pace(64, retries=1))


def test_code_that_raises_ends_the_evaluation_with_the_item(root: Path, policy: Policy) -> None:
    task = game(root)
    with pytest.raises(TaskError, match=r"item r\d(.|\n)*ValueError: broken on purpose"):
        play(policy, task, suite(task, **{"raise": 1}).plays(), SAMPLED, pace=Pace(8, retries=3))


def test_a_player_that_was_lost_moves_as_it_would_have(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "pause", lambda seconds: None)
    task = game(root)
    plays = suite(task).plays()
    chance, calls = task.baselines()["chance"], [0]

    def flaky(item: Item, state: Any, rng: Any) -> str:
        said, calls[0] = chance(item, state, rng), calls[0] + 1
        if calls[0] % 3 == 0:
            raise EnvironmentFailure("lost")
        return said

    expected = play_baseline(task, chance, plays, "chance")
    assert play_baseline(task, flaky, plays, "chance", retries=1) == expected


class Units:
    """Units of an evaluation that outlast it."""

    def __init__(self) -> None:
        self.found: dict[int, list[Episode]] = {}

    def get(self, index: int) -> list[Episode] | None:
        return self.found.get(index)

    def put(self, index: int, episodes: Sequence[Episode]) -> None:
        self.found[index] = list(episodes)


@pytest.fixture
def servers() -> Iterator[list[subprocess.Popen[str]]]:
    found: list[subprocess.Popen[str]] = []
    yield found
    for each in found:
        each.kill()
        each.wait()


def test_an_evaluation_goes_on_when_its_server_is_there_again(
    root: Path, policy: Policy, monkeypatch: pytest.MonkeyPatch, servers: list[subprocess.Popen[str]]
) -> None:
    expected = measure(policy, game(root), suite(game(root)).plays(), SAMPLED, pace=Pace(6))
    servers.append(serve(root, 0, game(root, isolation="inline").settings))
    address = servers[0].address  # type: ignore[attr-defined]
    monkeypatch.setenv(ADDRESS, address)
    monkeypatch.setattr(retries, "pause", lambda seconds: None)
    task, units = game(root, isolation="server"), Units()

    def killed(n: int) -> None:
        if units.found and servers[0].poll() is None:
            servers[0].kill()
            servers[0].wait()

    with pytest.raises(EnvironmentLost, match="Connection refused"):
        measure(
            policy, task, suite(task).plays(), SAMPLED, pace=Pace(6, retries=1, progress=killed), kept=units
        )
    assert 0 < len(units.found) < 5
    servers.append(serve(root, int(address.rpartition(":")[2]), game(root).settings))
    again = measure(policy, task, suite(task).plays(), SAMPLED, pace=Pace(6, retries=1), kept=units)
    assert [each.model_dump_json() for each in again] == [each.model_dump_json() for each in expected]


@pytest.mark.long
def test_an_evaluation_in_a_worker_that_dies_says_so_and_goes_on_when_it_is_mended(
    root: Path, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "pause", lambda seconds: None)
    expected = measure(policy, game(root), suite(game(root)).plays(), SAMPLED, pace=Pace(30))
    task = game(root, isolation="worker")
    (root / "die").touch()
    with pytest.raises(EnvironmentLost, match=r"the worker ended in the middle \(exit code 9\)"):
        measure(policy, task, suite(task).plays()[:3], SAMPLED, pace=Pace(30))  # each starts a worker
    (root / "die").unlink()
    assert measure(policy, task, suite(task).plays(), SAMPLED, pace=Pace(30)) == expected
    assert task.runner is not None
    task.runner.close()
