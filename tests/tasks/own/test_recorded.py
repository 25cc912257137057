"""What a task's code said answers in its place; what was never asked of it has no answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import TaskError
from assay.core.records import Episode
from assay.core.seeds import rng
from assay.core.storage.json import dumps
from assay.rollout.tasks.own.calls import Ask, Call, Reply
from assay.rollout.tasks.own.recorded import Recorded, Recorder, ToldLine
from assay.rollout.tasks.own.task import OwnTask, own_task, runner_of
from assay.rollout.tasks.protocol import answer_key
from tests.tasks.own.test_lessons import COUNT, settings
from tests.tasks.own.test_task import HALF, ROW


def recorded(root: Path, code: str, **changes: Any) -> tuple[OwnTask, Recorder]:
    """Return a task whose code runs under a recorder."""
    (root / "mine").mkdir()
    (root / "mine/task.py").write_text(code)
    given = settings(**changes)
    recorder = Recorder(runner_of(given, str(root)))
    return own_task(given, None, recorder), recorder


def again(task: OwnTask, recorder: Recorder, known: Recorded | None = None) -> OwnTask:
    """Return the same task without its code, from what was written down, through JSON."""
    lines = [dumps(line) for line in recorder.lines(known or Recorded())]
    told = Recorded([ToldLine.model_validate_json(line) for line in lines])
    return own_task(task.settings, None, told)


def test_what_was_said_is_said_again_without_the_code(tmp_path: Path) -> None:
    task, recorder = recorded(tmp_path, HALF, players={"wild": "scripted"})
    item = task.item(ROW)
    opening, state = task.start(item, 7)
    text = task.baselines()["wild"](item, state, rng("x", 1))
    steps = [task.step(state, said) for said in (text, "aaa")]
    (tmp_path / "mine/task.py").unlink()
    other = again(task, recorder)
    told, start = other.start(item, 7)
    assert (told, start) == (opening, state)
    assert other.baselines()["wild"](item, start, rng("x", 1)) == text
    assert [other.step(start, said) for said in (text, "aaa")] == steps


def test_what_was_never_asked_is_refused_and_earns_nothing(tmp_path: Path) -> None:
    task, recorder = recorded(tmp_path, HALF, players={"wild": "scripted"})
    item = task.item(ROW)
    task.step(task.start(item, 7)[1], "a")
    other = again(task, recorder)
    state = other.start(item, 7)[1]
    with pytest.raises(TaskError, match="was not written down"):
        other.step(state, "b")
    with pytest.raises(TaskError, match="was not written down"):
        other.baselines()["wild"](item, state, rng("x", 1))


def test_the_opening_of_a_prompt_needs_no_line(tmp_path: Path) -> None:
    task, recorder = recorded(tmp_path, HALF)
    task.start(task.item(ROW), 7)
    assert recorder.lines(Recorded()) == []


def test_success_is_compared_again_whatever_an_episode_says_of_itself(tmp_path: Path) -> None:
    task, _ = recorded(tmp_path, HALF)
    told = Recorded()
    told.add(ROW, 7, episode("b", success=True))
    other = own_task(task.settings, None, told)
    assert answer_key(other) is not None
    step = other.step(other.start(other.item(ROW), 7)[1], "b")
    assert step.parts == {"reward": 1.0} and other.judge(step.state).success is False


def test_an_episode_of_several_turns_ends_again_as_it_ended(tmp_path: Path) -> None:
    several = {"entry": "task.py:Count", "success": {"compare": "environment"}, "max_turns": 3}
    task, recorder = recorded(tmp_path, COUNT, **several)
    item = task.item(ROW | {"steps": 5})
    state, steps = task.start(item, 7)[1], list[Any]()
    while not steps or steps[-1].ending is None:
        steps.append(task.step(steps[-1].state if steps else state, "no"))
    other = again(task, recorder)
    found = other.start(item, 7)[1]
    for step in steps:
        now = other.step(found, "no")
        assert (now.ending, now.observation, now.parts) == (step.ending, step.observation, step.parts)
        found = now.state
    assert other.judge(found).success is task.judge(steps[-1].state).success


def test_what_episodes_say_already_is_not_written_twice(tmp_path: Path) -> None:
    task, recorder = recorded(tmp_path, HALF)
    task.step(task.start(task.item(ROW), 7)[1], "a")
    known = Recorded()
    known.add(ROW, 7, episode("a", success=True))
    assert len(recorder.lines(Recorded())) == 1 and recorder.lines(known) == []


def test_players_are_told_apart_by_name_and_chance(tmp_path: Path) -> None:
    call = Call(ROW, 7, ())
    _, recorder = recorded(tmp_path, HALF, players={"wild": "scripted"})
    assert isinstance(recorder.tell([call])[0], Reply)
    said = recorder.say([Ask("wild", call, seed) for seed in range(8)])
    assert len(recorder.lines(Recorded())) == 8 and len(set(map(str, said))) > 1


def episode(text: str, *, success: bool) -> Episode:
    """Return a stored episode of one turn that earned 1."""
    turn = {"prompt_digest": "0" * 16, "completion": text, "n_tokens": 1, "truncated": False, "outcome": "ok"}
    turn |= {"failure": None, "action": text, "observation": None, "parts": {"reward": 1.0}}
    facts = {"item_id": "r1", "cluster": "r1", "strata": {}, "draw": 0, "seed": 1, "prompt_chars_cut": 0}
    facts |= {"ending": "answered", "reward": 1.0, "parts": {"reward": 1.0}, "success": success}
    return Episode.model_validate({**facts, "turns": (turn,), "flags": {}, "metrics": {}})
