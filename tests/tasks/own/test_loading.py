"""A task that cannot be loaded says what is missing, where, and what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ConfigError
from assay.rollout.tasks.own.calls import Call
from assay.rollout.tasks.own.isolation.worker import Worker
from assay.rollout.tasks.own.task import own_task
from tests.tasks.own.test_lessons import COUNT, REWARD, settings

BAD = [
    ("x = 1\n", {"entry": "other.py:reward"}, "a file mine/other.py, found task.py"),
    (REWARD, {"code": "nowhere"}, "a file nowhere/task.py, found no .py file"),
    (REWARD, {"entry": "task.py:rewards"}, "a function or class rewards, found none"),
    ("import json\n", {}, "which it has none"),
    (REWARD, {"entry": "task.py:other"}, "task.entry: one of reward"),
    ("x = 1\nimport nothing_of_this_name\n", {}, "task.py, line 2: .*ModuleNotFoundError: No module named"),
    ("def broken(:\n", {}, "SyntaxError"),
    ("x = 1\n\nraise SystemExit(3)\n", {}, "task.py, line 3: .*SystemExit: 3"),
    ("class reward: pass\n", {}, "a class of Environment, found class reward"),
    ("def reward(texts): return [0.0]\n", {}, "a parameter completions, found texts"),
    ("def reward(completions, completion_ids): return [0.0]\n", {}, "one that needs completion_ids"),
    (REWARD, {"options": {"size": 3}}, "no options, found size"),
    (
        f"from pydantic import BaseModel\nclass Options(BaseModel):\n    size: int\n{REWARD}",
        {"options": {"size": "three"}},
        r"task.options.size: expected Input should be a valid integer.*'three'",
    ),
    (REWARD, {"entry": "assay.adapters:nothing"}, "an adapter, found nothing"),
]


@pytest.mark.parametrize(("code", "changes", "message"), BAD)
def test_a_task_that_cannot_be_loaded_says_why(
    tmp_path: Path, code: str, changes: dict[str, Any], message: str
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/task.py").write_text(code)
    with pytest.raises(ConfigError) as caught:
        own_task(settings(**changes), str(tmp_path))
    assert re.search(message, str(caught.value), re.DOTALL), str(caught.value)


def test_a_worker_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/task.py").write_text("x = 1\nimport nothing_of_this_name\n")
    worker = Worker(settings(), str(tmp_path))
    with pytest.raises(ConfigError, match=r"line 2: (.|\n)*nothing_of_this_name"):
        worker.tell([Call({"prompt": "a"}, 0, ())])


def test_what_stands_beside_the_entry_is_imported_by_name(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/beside_the_entry.py").write_text("PAID = 0.25\n")
    (tmp_path / "mine/task.py").write_text(
        "from beside_the_entry import PAID\ndef reward(completions, **kwargs): return [PAID]\n"
    )
    task = own_task(settings(), str(tmp_path))
    _, state = task.start(task.item({"prompt": "p", "answer": "a"}), 0)
    assert task.step(state, "x").parts == {"reward": 0.25}


def test_a_reward_takes_options_and_what_training_passes(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/task.py").write_text(
        "from pydantic import BaseModel\n"
        "class Options(BaseModel):\n    paid: float\n"
        "def reward(prompts, completions, answer, trainer_state, log_metric, options, **kwargs):\n"
        "    log_metric('n', 1)\n"
        "    return [options.paid * (prompts == ['p']) * (answer == ['a']) * (not kwargs)]\n"
    )
    task = own_task(settings(options={"paid": 0.5}), str(tmp_path))
    _, state = task.start(task.item({"prompt": "p", "answer": "a"}), 0)
    assert task.step(state, "x").parts == {"reward": 0.5}


@pytest.mark.parametrize("isolation", ["inline", "worker"])
@pytest.mark.parametrize("place", ["assay.tasks.own.api", "assay.rollout"])
def test_a_task_imports_from_the_public_face_or_from_where_it_used_to(
    tmp_path: Path, place: str, isolation: str
) -> None:
    (tmp_path / "mine").mkdir()
    code = COUNT.replace(COUNT.split("import")[0].split("from ")[1].strip(), place)
    assert f"from {place} import Environment, Told" in code
    (tmp_path / "mine/task.py").write_text(code)
    changes = {"entry": "task.py:Count", "success": {"compare": "environment"}, "isolation": isolation}
    task = own_task(settings(**changes, max_turns=3), str(tmp_path))
    assert task.start(task.item({"steps": 2}), 5)[0][0]["content"] == "left 2"
