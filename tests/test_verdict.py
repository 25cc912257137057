"""`assay verdict` says whose verdict it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.house import ROOT


def called(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "assay.cli", *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, env=environment)


def test_the_verdict_of_another_task_than_the_chosen_one_is_named_as_such(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    results = tmp_path / "evidence/results"
    results.mkdir(parents=True)
    for name in ("claim.json", "fingerprint.json"):
        shutil.copy(ROOT / "evidence/results" / name, results)
    own = called(tmp_path, "verdict")
    assert (own.returncode, own.stderr) == (0, "")
    last = own.stdout.split(":")[0]
    other = {"collider": "structured", "structured": "collider"}[last]
    assert called(tmp_path, "config", "use", f"task={other}").returncode == 0
    foreign = called(tmp_path, "verdict")
    assert foreign.stdout == own.stdout
    assert f"task {other}" in foreign.stderr
    assert f"of {last}" in foreign.stderr
