"""The recipes for a fork's continuous integration: they ask for little, run what `./run` knows, and the report can be read."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assay.storage.yaml import read_yaml
from tests.house import ROOT
from tests.training.whole_project import environment

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
SCRIPT = (ROOT / "run").read_text(encoding="utf-8")
RESULTS = "evidence/results"
# What the runners of the host bring.
BROUGHT = ("cat", "echo", "gh")


def jobs(workflow: Path) -> list[dict[str, Any]]:
    return list(read_yaml(workflow, fix="")["jobs"].values())


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(workflow) for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_do_little_and_uses_actions_of_the_host_by_major_version(workflow: Path) -> None:
    text, found = workflow.read_text(), read_yaml(workflow, fix="")
    assert found["permissions"] == {"contents": "read"}
    granted = {f"{name}: {how}" for job in jobs(workflow) for name, how in job.get("permissions", {}).items() if how != "read"}
    assert granted <= ({"pull-requests: write"} if workflow.name == "report.yml" else set())
    assert "pull_request_target" not in text and "secrets." not in text
    for step in steps(workflow):
        assert ("uses" in step) != ("run" in step)
        assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/x@v1"))
        # What a stranger chose, such as the name of a branch, reaches a shell by its environment or not at all.
        assert "${{" not in step.get("run", "")
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False
    assert all("timeout-minutes" in job for job in jobs(workflow))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_every_line_that_runs_is_a_command_that_there_is(workflow: Path) -> None:
    lines = [line for step in steps(workflow) for line in step.get("run", "").splitlines()]
    assert lines
    for line in lines:
        command, *rest = line.split()
        assert command in BROUGHT or (command == "./run" and (f"\n{rest[0]}) " in SCRIPT or rest[0] == "dvc")), line


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A repository whose second commit changed a setting, a number, a verdict and a figure."""
    root = tmp_path / "a fork"
    setup = ("run", "requirements.txt", "constraints.txt", "pyproject.toml", ".dvc/config", ".dvc/.gitignore")
    shown = ("metrics.json", "claim.json", "figures/forest.png")
    for name in (*setup, "dvc.yaml", "params.yaml", *(f"{RESULTS}/{name}" for name in shown)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / ".venv/bin").mkdir(parents=True)
    (root / ".gitignore").write_text("/.venv\n/.dvc/tmp\n/.dvc/cache\n")
    # An environment as `run` would have made it, by its stamp.
    (root / ".venv/bin/python").symlink_to(shutil.which("python") or "python")
    (root / ".venv/bin/dvc").symlink_to(shutil.which("dvc") or "dvc")
    stamp = "cat requirements.txt constraints.txt pyproject.toml | cksum; pwd -P"
    (root / ".venv/.stamp").write_bytes(subprocess.run(["sh", "-c", stamp], cwd=root, check=True, capture_output=True).stdout)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    params = (root / "params.yaml").read_text()
    (root / "params.yaml").write_text(params.replace("\nseed: 0", "\nseed: 41"))
    for name, key, value in (("metrics.json", "gain", 12.5), ("claim.json", "verdict", "REGRESSED")):
        content = json.loads((root / RESULTS / name).read_text())
        (root / RESULTS / name).write_text(json.dumps(content | {key: value}))
    (root / RESULTS / "figures/forest.png").write_bytes(b"another")
    git(root, "commit", "-qam", "two")
    return root


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A User", "-c", "user.email=user@example.org")
    done = subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def report(root: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    surroundings = environment(DVC_SITE_CACHE_DIR=str(root.parent / "site"), **more)
    return subprocess.run([root / "run", "report", *arguments], env=surroundings, capture_output=True, text=True, check=False)


def test_the_report_tells_what_differs_and_nothing_else(changed: Path) -> None:
    done = report(changed, "HEAD~1", ASSAY_FIGURES_AT="https://example.org/raw")
    assert done.returncode == 0, done.stderr
    before = json.loads((ROOT / RESULTS / "claim.json").read_text())
    assert f"* before: {before['verdict']}: {before['sentence']}\n* now: REGRESSED: {before['sentence']}\n" in done.stdout
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if line.startswith("|")]
    assert ["params.yaml", "seed", "0", "41"] in rows
    (gain,) = [row for row in rows if row[1] == "gain"]
    assert gain[3] == "12.5" and not [row for row in rows if row[1] == "p"]
    one, two = (git(changed, "rev-parse", name) for name in ("HEAD~1", "HEAD"))
    pictures = [f"![](https://example.org/raw/{commit}/{RESULTS}/figures/forest.png)" for commit in (one, two)]
    assert pictures in rows
    assert git(changed, "status", "--porcelain") == ""


def test_a_report_against_the_same_commit_says_so_and_one_against_none_is_refused(changed: Path) -> None:
    done = report(changed, "HEAD")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("No ")] == [
        "No setting differs.", "No number differs.", "No figure differs.",
    ]  # fmt: skip
    assert "|" not in done.stdout
    refused = report(changed, "--output=x")
    assert refused.returncode == 1 and "expected a commit" in refused.stderr and not os.path.exists(changed / "x")


def test_a_report_for_which_dvc_fails_does_not_say_that_nothing_differs(changed: Path) -> None:
    (changed / "dvc.yaml").write_text("stages: [\n")
    done = report(changed, "HEAD~1")
    assert done.returncode != 0 and "dvc.yaml" in done.stderr and "differs" not in done.stdout
