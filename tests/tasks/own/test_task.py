"""A task of one's own keeps the contract of every task: states are values, faults of its code are named."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, cast

import pytest

from assay.checks.doctor.observed import Observed
from assay.core.errors import EnvironmentFailure, TaskError
from assay.core.seeds import rng
from assay.rollout.evaluation.few_shot import Shown
from assay.rollout.tasks.own.api import Environment
from assay.rollout.tasks.own.task import OwnTask, own_task
from assay.rollout.tasks.protocol import Task, answer_key, learner, side_by_side
from tests.house import ROOT
from tests.tasks.own.test_lessons import COUNT, settings

HALF = """
def reward(completions, answer, **kwargs):
    return [1.0 if c == a else None if c == "lose" else 1 / len(c) - 1 for c, a in zip(completions, answer)]

def wild(rng):
    return "abc"[rng.integers(3)]
"""
ROW = {"id": "r1", "prompt": "Say a.", "answer": "a", "hard": "yes"}


def task(root: Path, code: str = HALF, **changes: Any) -> OwnTask:
    """Return a task whose folder is written first."""
    (root / "mine").mkdir()
    (root / "mine/task.py").write_text(code)
    return own_task(settings(**changes), str(root))


def counting(root: Path, **changes: Any) -> OwnTask:
    """Return a task of several turns."""
    several = {"entry": "task.py:Count", "success": {"compare": "environment"}, "max_turns": 3}
    return task(root, COUNT, **{**several, **changes})


def test_a_completion_is_graded_and_judged(tmp_path: Path) -> None:
    mine = task(tmp_path)
    item = mine.item(ROW)
    messages, state = mine.start(item, 0)
    step = mine.step(state, "a")
    assert messages == [{"role": "user", "content": "Say a."}]
    assert (step.observation, step.ending, step.outcome, dict(step.parts)) == (
        None,
        "answered",
        "ok",
        {"reward": 1.0},
    )
    assert mine.judge(step.state).success
    assert not mine.judge(mine.step(state, "bb").state).success


def test_states_are_values(tmp_path: Path) -> None:
    mine = counting(tmp_path)
    _, first = mine.start(mine.item({"steps": 2}), 5)
    second = mine.step(first, "down").state
    again = pickle.loads(pickle.dumps(first))
    assert mine.step(again, "down").state == second
    assert mine.step(first, "wait").observation == "left 2"
    assert mine.step(second, "down").ending == "ended"


def test_an_episode_ends_after_so_many_turns_without_success(tmp_path: Path) -> None:
    mine = counting(tmp_path)
    _, state = mine.start(mine.item({"steps": 9}), 0)
    for _ in range(2):
        state = mine.step(state, "down").state
    last = mine.step(state, "down")
    assert (last.ending, last.observation, mine.judge(last.state).success) == ("out_of_turns", None, False)
    with pytest.raises(TaskError, match="an episode that goes on"):
        mine.step(last.state, "down")


def test_an_environment_that_says_nothing_of_success_has_none_when_turns_run_out(tmp_path: Path) -> None:
    silent = COUNT.replace(", success=not self.left", "")
    mine = task(tmp_path, silent, entry="task.py:Count", success={"compare": "environment"}, max_turns=3)
    _, state = mine.start(mine.item({"steps": 9}), 0)
    for _ in range(3):
        state = mine.step(state, "wait").state
    assert state.ending == "out_of_turns" and not mine.judge(state).success
    _, state = mine.start(mine.item({"steps": 1}), 0)
    with pytest.raises(TaskError, match="success, said by the environment"):
        mine.judge(mine.step(state, "down").state)


def test_a_completion_that_raises_is_named_with_its_item(tmp_path: Path) -> None:
    mine = task(tmp_path)
    _, state = mine.start(mine.item(ROW), 0)
    with pytest.raises(TaskError, match=r"item r1(.|\n)*ZeroDivisionError(.|\n)*on ''"):
        mine.step(state, "")


def test_no_reward_is_a_loss_and_not_zero(tmp_path: Path) -> None:
    mine = task(tmp_path)
    _, state = mine.start(mine.item(ROW), 0)
    with pytest.raises(EnvironmentFailure, match="None"):
        mine.step(state, "lose")
    lost, graded = mine.steps([state, state], ["lose", "a"])
    assert isinstance(lost, EnvironmentFailure)
    assert not isinstance(graded, EnvironmentFailure)


def test_its_reward_can_be_success(tmp_path: Path) -> None:
    mine = task(tmp_path, success={"compare": "reward", "at_least": 0.0})
    _, state = mine.start(mine.item(ROW), 0)
    assert [mine.judge(mine.step(state, said).state).success for said in ("a", "z", "zz")] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("row", "changes", "told"),
    [
        ({"answer": "a"}, {}, "'prompt', which the policy is asked"),
        ({"prompt": "p"}, {}, "'answer'"),
        ({"prompt": "p", "answer": "a"}, {"strata": ["hard"]}, "'hard', which task.strata names"),
        ({"prompt": "p", "answer": "a"}, {"cluster": "source"}, "'source', which task.cluster names"),
    ],
)
def test_a_record_without_a_column_is_refused(
    tmp_path: Path, row: dict[str, Any], changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(TaskError, match=told):
        task(tmp_path, **changes).item(row)


def test_an_environment_of_one_turn_needs_no_prompt(tmp_path: Path) -> None:
    mine = counting(tmp_path, max_turns=1)
    _, state = mine.start(mine.item({"steps": 1}), 0)
    assert mine.judge(mine.step(state, "down").state).success


def test_a_record_without_an_id_is_known_by_its_content(tmp_path: Path) -> None:
    mine = task(tmp_path)
    one, other = ({"prompt": "p", "answer": each} for each in "ab")
    assert mine.item(one).id == mine.item(dict(reversed(one.items()))).id != mine.item(other).id


def test_its_players_play_and_the_gold_is_right(tmp_path: Path) -> None:
    mine = task(tmp_path, players={"wild": "weak"})
    item = mine.item(ROW)
    _, state = mine.start(item, 0)
    players = mine.baselines()
    assert list(players) == ["silent", "wild", "gold"]
    assert {players["wild"](item, state, rng("test", seed)) for seed in range(30)} == set("abc")
    assert mine.judge(mine.step(state, players["gold"](item, state, rng("test"))).state).success


def test_whatever_a_player_may_ask_for_is_told_by_the_docstring_and_the_page(tmp_path: Path) -> None:
    mine = task(tmp_path, HALF + "def asks(**known):\n    return ' '.join(known)\n", players={"asks": "weak"})
    item = mine.item(ROW)
    known = mine.baselines()["asks"](item, mine.start(item, 0)[1], rng("test")).split()
    page = (ROOT / "docs/own-task.md").read_text(encoding="utf-8")
    told = page.partition("A player takes any of these arguments")[2].partition("\n\n")[0]
    assert len(known) > len(ROW) and {*ROW} < {*known}
    for name in {*known} - {*ROW}:
        assert f"`{name}`" in told and f"`{name}`" in (Environment.__doc__ or ""), name
    assert (mine.floor, mine.ceiling) == ("silent", "gold")
    assert "gold" not in mine.rivals


def test_who_may_run_no_code_can_still_judge_texts(tmp_path: Path) -> None:
    mine = own_task(settings(code="nowhere"), None)
    key = answer_key(mine)
    assert key is not None
    item = mine.item(ROW)
    assert key.solution(item) == "a"
    assert [key.fields(item, said)["answer"].right for said in "ab"] == [True, False]
    with pytest.raises(TaskError, match="a task whose code may run"):
        mine.start(item, 0)


def test_it_learns_from_train_records_and_writes_down_answers_only_where_there_are_some(
    tmp_path: Path,
) -> None:
    mine = counting(tmp_path)
    assert learner(mine) is mine
    assert answer_key(mine) is None


def test_what_stands_around_a_task_is_not_passed_over(tmp_path: Path) -> None:
    mine = task(tmp_path)
    around = Shown(mine, [mine.item({**ROW, "id": "r2"})], 1, 0)
    assert side_by_side(mine) is mine
    assert side_by_side(cast(Task, around)) is None
    assert side_by_side(cast(Task, Observed(mine))) is None
