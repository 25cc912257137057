"""docs/own-task.md does what it says: its commands are run in order, its files are played as they stand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.checks.own_data.audit import project_for
from assay.cli.tools import new_task
from assay.core.errors import TaskError
from assay.core.storage.yaml import read_yaml
from assay.rollout import Task
from tests.house import ROOT
from tests.pages import blocks, text_of
from tests.smoke import copy_project
from tests.warm import warm_python

PAGE = "docs/own-task.md"
QUICK, LONG = [block.text for block in blocks(PAGE)]
REWARD, CLASS, WHOLE = [
    text for kind, text in re.findall(r"^```(\w*)\n(.*?)^```$", text_of(PAGE), re.M | re.S) if not kind
]


def follow(root: Path, block: str, environment: Mapping[str, str]) -> str:
    """Type the commands of a block in a project, and return what they said."""
    said = ""
    python = (sys.executable, "-m")
    ways = {"assay": ("assay",), "test": (*python, "pytest", "-q"), "repro": (*python, "dvc", "repro")}
    for line in block.splitlines():
        _, way, *words = line.partition("#")[0].split()
        done = subprocess.run(
            [*ways[way], *words], cwd=root, env=environment, capture_output=True, text=True, check=False
        )
        said += done.stdout + done.stderr
        assert done.returncode == 0, f"{line}\n{said[-4000:]}"
    return said


def project(root: Path) -> Path:
    """Return a project with the example and nothing else."""
    for name in ("configs", "tasks/words", "data/words", "src"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "params.yaml", root)
    return root


@pytest.mark.long
def test_a_new_task_is_made_tried_checked_and_chosen_and_goes_on_to_a_claim_that_can_be_verified(
    tmp_path: Path,
) -> None:
    root = tmp_path / "project"
    copy_project(root)
    environment = os.environ | {"PYTHONPATH": str(root / "src")}
    environment.pop("PYTEST_CURRENT_TEST", None)
    environment["PATH"] = f"{Path(warm_python()).parent}{os.pathsep}{environment['PATH']}"
    told = follow(root, QUICK, environment)
    assert "wrote tasks/mine/task.py" in told and "31 checks: 0 faults" in told
    chosen = read_yaml(root / "params.yaml", fix="none")
    assert chosen["task"]["code"] == "tasks/mine"
    told = follow(root, LONG, environment)
    assert "mine: " in told
    assert (root / "dist/assay-package.tar").is_file()


def test_the_reward_of_the_page_pays_what_it_says() -> None:
    names: dict[str, object] = {}
    exec(REWARD, names)
    reward = names["reward"]
    assert callable(reward)
    assert reward(["?", "?"], ["a\n", "b"], ["a", "a"], more=None) == [1.0, 0.0]


def test_the_environment_of_the_page_is_short_and_is_played(tmp_path: Path) -> None:
    assert CLASS.count("\n") <= 40
    new_task.run(project(tmp_path), "mine")
    (tmp_path / "tasks/mine/task.py").write_text(CLASS, encoding="utf-8")
    preset = tmp_path / "configs/task/mine.yaml"
    texts = [block.split("```")[0] for block in text_of(PAGE).split("```text\n")]
    (wanted,) = [block for block in texts if block.startswith("  entry:")]
    kept = preset.read_text(encoding="utf-8")
    for line in wanted.splitlines():
        key = line.split(":")[0]
        kept = re.sub(rf"(?m)^{key}:.*\n", "", kept)
    preset.write_text(kept.replace("  name: own\n", f"  name: own\n{wanted}"), encoding="utf-8")
    task = project_for(tmp_path, "mine").task()
    item = task.item({"id": "1", "low": 1, "high": 9, "answer": 7})
    opening, state = task.start(item, 0)
    assert opening[-1]["content"] == "A number from 1 to 9?"
    heard = []
    assert task.step(state, "9" * 5000).failure == "no number"
    for said in ("5", "x", "8", "7"):
        step = task.step(state, said)
        heard.append((step.observation, dict(step.parts)["found"]))
        state = step.state
    assert heard == [("higher", 0.0), ("A number, please.", 0.0), ("lower", 0.0), (None, 1.0)]
    assert task.judge(state).success and task.ceiling == "knows"


def test_a_class_of_the_whole_protocol_needs_what_the_page_writes_and_no_more() -> None:
    there: dict[str, Any] = {}
    exec(WHOLE, there)
    task: Task = there["Echo"]()
    item, odd = task.examine({"id": "1", "word": "plum"})
    assert not odd and task.truth(item) == "plum" and task.shortened(item, 1) is None
    assert (*task.contradictory([item, item]), task.most_right([item, item])) == (2,)
    rng = np.random.default_rng(0)
    assert {task.floor, task.ceiling, *task.rivals} == {*task.baselines()} == {"silent"}
    for said, right in ((" plum", True), (task.baselines()["silent"](item, None, rng), False)):
        _, state = task.start(item, 0)
        step = task.step(state, said)
        assert step.parts.keys() == task.parts.keys() and sum(step.parts.values()) == right
        assert task.judge(step.state).success is right
    for lesson in (task.vocabulary, partial(task.drills, rng, 1), partial(task.demonstrations, rng, 1)):
        with pytest.raises(TaskError, match="pretrained"):
            lesson()
