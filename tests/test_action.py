"""The action judges as the command does: its steps are run as a host of workflows runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.core.storage.yaml import read_yaml
from tests.calling import called
from tests.house import ROOT
from tests.test_workflows import ACTIONS

ACTION = read_yaml(ROOT / "action.yml", fix="")
INSTALL, JUDGE = (step for step in ACTION["runs"]["steps"] if "run" in step)


@pytest.fixture
def judged(tmp_path: Path) -> Any:
    """Return what runs the step that judges, with inputs of a workflow, and returns its outputs."""
    tool = tmp_path / "runner/assay/bin/assay"
    tool.parent.mkdir(parents=True)
    tool.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}/src" exec "{sys.executable}" -m assay.cli "$@"\n')
    tool.chmod(0o755)
    for name in ("before", "after"):
        shutil.copy(ROOT / f"docs/examples/{name}.csv", tmp_path / f"{name} it.csv")

    def run(**given: str) -> tuple[int, str, str]:
        known = {name: str(each.get("default", "")) for name, each in ACTION["inputs"].items()}
        known |= {"before": "before it.csv", "after": "after it.csv"} | given
        values = {
            name: known[re.fullmatch(r"\$\{\{ inputs\.(\w+) \}\}", value)[1]]  # type: ignore[index]
            for name, value in JUDGE["env"].items()
        }
        files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", JUDGE["run"]],
            cwd=tmp_path,
            env=os.environ | values | files | {"RUNNER_TEMP": str(tmp_path / "runner")},
            capture_output=True,
            check=False,
        )
        told = [Path(path).read_text() if Path(path).is_file() else "" for path in files.values()]
        return done.returncode, *told

    return run


def test_its_inputs_reach_the_shell_by_the_environment_alone_and_its_actions_are_pinned() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert {line.strip("- ") for line in text.splitlines() if "uses:" in line} <= set(ACTIONS)
    for step in (INSTALL, JUDGE):
        assert "${{" not in step["run"] and step["shell"] == "bash"
    for name in re.findall(r"requirements/\w+\.txt", INSTALL["run"]):
        assert (ROOT / name).is_file()


def test_it_says_the_word_shows_the_summary_and_as_a_gate_fails_where_nothing_is_shown(
    judged: Any, tmp_path: Path
) -> None:
    code, output, summary = judged(gate="true")
    verdict = json.loads((tmp_path / "judged/claim.json").read_text())["verdict"]
    assert (code, output) == (7, f"verdict={verdict}\n") and f"**{verdict}" in summary


@pytest.mark.long
def test_by_a_plan_it_reports_to_the_host_and_ends_as_the_plan_says(judged: Any, tmp_path: Path) -> None:
    assert called(tmp_path, "plan", "before it.csv", "--out", "plan.yaml").returncode == 0
    assert judged(plan="plan.yaml", options="--title 'x'")[0] == 7
    assert (tmp_path / "judged/junit.xml").is_file()


@pytest.mark.long
def test_a_file_that_cannot_be_read_fails_without_a_word(judged: Any) -> None:
    assert judged(after="nothing.csv")[:2] == (1, "")


@pytest.mark.long
def test_what_a_stranger_named_a_file_is_no_option_and_no_command(judged: Any, tmp_path: Path) -> None:
    assert judged(before="--help", after="$(touch hacked).csv")[0] == 1
    assert not (tmp_path / "hacked").exists()
