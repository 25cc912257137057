"""Alarms of tasks with few answers: what an honest player shows before training is no alarm, a policy that
collapses is one all the same."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.core.records import HonestLevels, HonestPlay
from assay.core.seeds import rng
from assay.health.rules.commonest import Honest
from assay.health.rules.relative import honest_share, relative, unavoidable, with_kl
from assay.health.rules.rules import Monitor
from assay.health.rules.signals import StepSignals
from assay.package.verification.content.training import FIELDS, Relistened
from assay.rollout.dataset.suite import Play
from assay.rollout.evaluation.trajectory import episode_of, turn_of
from assay.rollout.tasks.own.task import OwnTask, own_task
from assay.rollout.tasks.protocol import Item
from assay.training.honest_play import honest_play
from assay.training.recipe import item_order
from tests.tasks.own.test_lessons import settings as own_settings
from tests.training.healthy_setup import shipped
from tests.training.shaped_trainings import settings, worst

CODE = """
from assay.rollout.tasks.own.api import Environment, Told

class Doors(Environment):
    def reset(self, row, seed):
        self.row, self.turn = row, 0
        return f"room {row['id']}"

    def step(self, completion):
        right = completion == self.row["doors"][self.turn]
        self.turn += 1
        more = right and self.turn < len(self.row["doors"])
        success = None if more else right and not self.row.get("shut", False)
        return Told("next" if more else None, float(bool(success)), success=success)

    def guide(self):
        return self.row["doors"][self.turn]

    def stubborn(self):
        return "d0"
"""
ITEMS, GROUP, STEPS = 8, 8, 60
Policy = Callable[[dict[str, Any], float], dict[str, float]]  # row, share of training -> text, probability


@dataclass
class Doors:
    """A training on a game behind somebody's own code, which writes down no answer."""

    root: Path
    actions: int
    turns: int = 1
    shut: float = 0.0  # share of rooms in which nothing succeeds
    same: bool = False  # whether all rooms are alike
    ceiling: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        (self.root / "mine").mkdir()
        (self.root / "mine/task.py").write_text(CODE)
        success, players = {"compare": "environment"}, {"guide": "oracle", "stubborn": "trivial"}
        changes = {"entry": "task.py:Doors", "success": success, "max_turns": self.turns, "players": players}
        self.task: OwnTask = own_task(own_settings(**changes, ceiling=self.ceiling), str(self.root))
        self.rows: dict[str, dict[str, Any]] = {}
        for k in range(320):
            chance = rng("room", self.seed, 0 if self.same else k)
            doors = [f"d{chance.integers(self.actions)}" for _ in range(self.turns)]
            self.rows[f"r{k}"] = {
                "id": f"r{k}",
                "prompt": "?",
                "doors": doors,
                "shut": bool(rng("shut", self.seed, k).random() < self.shut),
            }
        self.items = [self.task.item(row) for row in self.rows.values()]
        self.order = item_order(self.items, STEPS * ITEMS, self.seed)
        self.logged: list[dict[str, Any]] = []

    def play(self) -> HonestPlay | None:
        return honest_play(self.task, self.order, settings(), keyed=False)

    def ring(self, policy: Policy, play: HonestPlay | None) -> dict[str, str]:
        """Return the worst level of every rule that rang."""
        monitor, events = Monitor(settings().health, self.task, Honest(self.task, self.items), play), []
        for step in range(1, STEPS + 1):
            done, episodes, nats, away = step / STEPS, [], [], []
            for item in self.order[(step - 1) * ITEMS : step * ITEMS]:
                for draw in range(GROUP):
                    episode, entropy, kl = self._episode(item, policy, done, draw, step)
                    episodes.append(episode)
                    nats.append(entropy)
                    away.append(kl)
            signals = replace(
                StepSignals.of(step, episodes, few=monitor.few),
                entropy=float(np.mean(nats)),
                kl=float(np.mean(away)),
                grad_norm=0.3,
                lost=0.0,
            )
            events += monitor.step(signals)
            whole, parts = monitor.heard.logged()
            row = {"step": step, "item_ids": list(signals.item_ids), "skipped": None, "window": parts}
            self.logged.append(row | {"signals": signals.numbers() | whole})
        self.events = events
        return worst(events)

    def _episode(self, item: Item, policy: Policy, done: float, draw: int, step: int) -> Any:
        """Return an episode, and entropy and KL to the policy at the start in nats a token, of two a turn."""
        row, chance = self.rows[item.id], rng("draw", self.seed, step, item.id, draw)
        _, state = self.task.start(item, 0)
        turns, ending, entropy, kl = [], None, 0.0, 0.0
        while ending is None:
            now = {"right": row["doors"][len(turns)], **row}
            p, base = policy(now, done), policy(now, 0.0)
            entropy -= sum(v * math.log(v) for v in p.values() if v)
            kl += sum(v * math.log(v / base[text]) for text, v in p.items() if v)
            text = str(chance.choice(list(p), p=list(p.values())))
            result = self.task.step(state, text)
            turns.append(turn_of(result, text, 2, False, ""))
            state, ending = result.state, result.ending
        episode = episode_of(self.task, Play(item, draw, 0, 0), state, turns, str(ending), 0)
        return episode, entropy / len(turns) / 2, kl / len(turns) / 2


def learner(actions: int, start: float, end: float) -> Policy:
    def play(row: dict[str, Any], done: float) -> dict[str, float]:
        right = start + (end - start) / (1 + math.exp(10 * (0.4 - done))) if done else start
        wrong = (1 - right) / (actions - 1)
        return {f"d{k}": right if f"d{k}" == row["right"] else wrong for k in range(actions)}

    return play


def into_one(actions: int) -> Policy:
    """Learn a little, then say d0 to everything."""

    def play(row: dict[str, Any], done: float) -> dict[str, float]:
        gone = min(0.999, max(0.0, (done - 0.3) / 0.2))
        base = learner(actions, 1.2 / actions, 0.4)(row, done)
        return {text: p * (1 - gone) + gone * (text == "d0") for text, p in base.items()}

    return play


@pytest.mark.long
@pytest.mark.parametrize("start", [0.5, 0.65], ids=["by chance", "better"])
def test_an_honest_policy_of_two_actions_stays_green_and_rang_by_absolute_levels(
    tmp_path: Path, start: float
) -> None:
    doors = Doors(tmp_path, 2)
    assert doors.ring(learner(2, start, 0.97), doors.play()) == {}
    assert doors.ring(learner(2, start, 0.97), None)["top_share"] == "RED"


@pytest.mark.parametrize("actions", [3, 10])
def test_an_honest_policy_of_few_answers_is_never_red(tmp_path: Path, actions: int) -> None:
    doors = Doors(tmp_path, actions)
    assert set(doors.ring(learner(actions, 1 / actions, 0.97), doors.play()).values()) <= {"AMBER"}


@pytest.mark.parametrize("actions", [2, 3, 10])
def test_a_policy_that_says_one_thing_to_all_ends_red(tmp_path: Path, actions: int) -> None:
    doors = Doors(tmp_path, actions)
    assert doors.ring(into_one(actions), doors.play())["top_share"] == "RED"


@pytest.mark.long
def test_where_one_way_is_right_everywhere_its_share_is_no_alarm_and_that_is_written(tmp_path: Path) -> None:
    doors = Doors(tmp_path, 2, turns=4, same=True)
    play = doors.play()
    assert play is not None and (play.answers, play.top_share, play.turns) == (1, 1.0, 4.0)
    assert play.levels == {"top_share": HonestLevels(amber=None, red=None)}
    assert set(doors.ring(learner(2, 0.7, 0.99), play).items()) <= {("entropy", "AMBER")}
    assert doors.ring(learner(2, 0.7, 0.99), None)["top_share"] == "RED"


def test_what_nobody_can_solve_is_no_failure_to_learn(tmp_path: Path) -> None:
    doors = Doors(tmp_path, 4, shut=0.7)
    play = doors.play()
    assert play is not None and 0.1 < play.success < 0.4
    assert unavoidable(play) == play.zero_variance == pytest.approx(1 - play.success)
    assert play.levels["distinct"].red == pytest.approx(play.success / 2)
    assert play.levels["zero_variance"].red is None
    assert "RED" not in doors.ring(learner(4, 0.3, 0.98), play).values()


def test_alarms_ring_again_from_the_log_and_the_record(tmp_path: Path) -> None:
    doors = Doors(tmp_path, 3)
    play = doors.play()
    doors.ring(into_one(3), play)
    stored = HonestPlay.model_validate_json(play.model_dump_json()) if play else None
    monitor = Relistened(settings().health, doors.task, play=stored)
    again = [event for row in json.loads(json.dumps(doors.logged)) for event in monitor.relisten(row)]
    assert doors.events and [[getattr(e, name) for name in FIELDS] for e in again] == [
        [getattr(e, name) for name in FIELDS] for e in doors.events
    ]
    assert any("honest play gives it to" in event.message for event in again)


def test_a_training_that_goes_on_keeps_what_was_measured(tmp_path: Path) -> None:
    doors = Doors(tmp_path, 2)
    play = doors.play()
    state = json.loads(json.dumps(Monitor(settings().health, doors.task, play=play).state()))
    assert doors.play() == play == Monitor.restore(settings().health, doors.task, state).play


@pytest.mark.parametrize("ceiling", ["stubborn", "silent"])
def test_a_player_without_skill_excuses_nothing(tmp_path: Path, ceiling: str) -> None:
    assert Doors(tmp_path, 2, ceiling=ceiling).play() is None


@pytest.mark.parametrize("name", ["collider", "structured"])
def test_levels_of_the_shipped_tasks_are_those_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:

    project = shipped(tmp_path, name)
    task, items, params = project.task(), project.items("train"), project.params
    keyed = Honest(task, items).facts is not None
    for seed in (0, 1, 2):
        of_seed = params.model_copy(update={"seed": seed})
        play = honest_play(task, item_order(items, 1600, seed), of_seed, keyed=keyed)
        assert play is not None and play.levels == {} and unavoidable(play) == 0.0
        assert relative(params.health, play) == params.health == with_kl(params.health, play, 0.2, 64.0)
        assert honest_share(play) is None
