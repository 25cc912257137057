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

from tests.fuzz import mutations
from tests.house import ROOT


def fuzzed(folder: Path, *words: str) -> dict[str, Any]:
    """Run the fuzzer in a process of its own, which forks, and return what it wrote."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--out", str(folder / "found.json"), *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (folder / "found.json").is_file(), done.stderr[-4000:]
    told: dict[str, Any] = json.loads((folder / "found.json").read_bytes())
    assert done.returncode == (1 if told["findings"] else 0), done.stderr[-4000:]
    return told


def test_two_hundred_damaged_projects_end_in_messages(tmp_path: Path) -> None:
    told = fuzzed(tmp_path, "--trials", "200", "--seed", "1")
    assert told["trials"] == 200 and len(told["by_target"]) == 10
    assert told["found"] == []


def test_a_trial_is_a_function_of_its_number() -> None:
    content = json.dumps({"a": [1, {"b": "text"}], "c": None}).encode()
    for number in range(50):
        assert mutations.other_json(Random(number), content) == mutations.other_json(Random(number), content)
    assert len({mutations.other_json(Random(number), content) for number in range(50)}) > 30


def test_an_error_that_reaches_the_front_door_is_found(tmp_path: Path) -> None:
    """A command that lets one through, in a copy of the code: what looks for tracebacks must see one."""
    code = (
        "import sys, pathlib, assay.pipeline.project as project\ndef broken(root): raise"
        " KeyError('planted')\nproject.Project.open = broken\nfrom tests.fuzz.__main__ import"
        " main\nsys.exit(main(['--trials', '3', '--only', 'params', '--number', '0', '--out',"
        f" {str(tmp_path / 'found.json')!r}, '--template', {str(_empty(tmp_path))!r}]))"
    )
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_bytes())["found"]
    assert [each["kind"] for each in found] == ["traceback"] and "planted" in found[0]["told"]


def _empty(folder: Path) -> Path:
    """Return a project of settings alone, for whose first trial a command that opens it is called."""
    root = folder / "template"
    (root / "configs").mkdir(parents=True)
    for name in ("params.yaml", "fuzz-structured.yaml", "fuzz_pretrained-collider.yaml"):
        (root / name).write_bytes((ROOT / "params.yaml").read_bytes())
    return root
