"""Whatever is damaged of what a command reads, what comes of it is a message: two hundred trials with --all,
two thousand by ./run bench fuzz."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.fuzz import mutations
from tests.house import ROOT

# Both scenes are played by one process, which forks: what it imports takes longer than most of its trials.
SCENES = """
import sys, assay.pipeline.project as project
from pathlib import Path
from tests.fuzz.__main__ import main
folder, opened = Path(sys.argv[1]), project.Project.open
def broken(root): raise KeyError('planted')
project.Project.open = broken
one = ['--trials', '3', '--only', 'params', '--number', '0', '--template', str(folder / 'template')]
print(main([*one, '--out', str(folder / 'planted.json')]))
project.Project.open = opened
print(main(['--trials', '200', '--seed', '1', '--out', str(folder / 'found.json')]))
"""


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what was found where an error was planted, and in two hundred damaged projects."""
    folder = tmp_path_factory.mktemp("fuzz")
    _empty(folder / "template")
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", SCENES, str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    planted, found = (json.loads((folder / f"{name}.json").read_bytes()) for name in ("planted", "found"))
    codes = [line for line in done.stdout.splitlines() if line in ("0", "1")]
    assert codes == [str(min(told["findings"], 1)) for told in (planted, found)]
    return planted, found


def test_two_hundred_damaged_projects_end_in_messages(fuzzed: tuple[dict[str, Any], dict[str, Any]]) -> None:
    _, told = fuzzed
    assert told["trials"] == 200 and len(told["by_target"]) == 10
    assert told["found"] == []


def test_a_trial_is_a_function_of_its_number() -> None:
    content = json.dumps({"a": [1, {"b": "text"}], "c": None}).encode()
    for number in range(50):
        assert mutations.other_json(Random(number), content) == mutations.other_json(Random(number), content)
    assert len({mutations.other_json(Random(number), content) for number in range(50)}) > 30


def test_an_error_that_reaches_the_front_door_is_found(fuzzed: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """A command that lets one through: what looks for tracebacks must see one."""
    found = fuzzed[0]["found"]
    assert [each["kind"] for each in found] == ["traceback"] and "planted" in found[0]["told"]


def _empty(root: Path) -> None:
    """Write a project of settings alone, for whose first trial a command that opens it is called."""
    (root / "configs").mkdir(parents=True)
    for name in ("params.yaml", "fuzz-structured.yaml", "fuzz_pretrained-collider.yaml"):
        (root / name).write_bytes((ROOT / "params.yaml").read_bytes())
