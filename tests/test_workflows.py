"""The recipes for a fork's continuous integration: they ask for little, run what `./run` knows, and the
report can be read."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assay.core.evidence_files import place_of
from assay.core.storage.yaml import read_yaml
from assay.stages.packing.archive import NAME
from assay.stages.packing.sbom import SBOM
from assay.verdict.evidence.claim.claim import Claim
from tests.house import ROOT
from tests.training.whole_project import environment
from tests.verification.made_run import made_run

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
GATE = ROOT / "docs/judge-ci.yml"
# The commits of these versions, as the actions' repositories have them.
ACTIONS = (
    "uses: actions/checkout@11d5960a326750d5838078e36cf38b85af677262 # v4.4.0",
    "uses: actions/setup-python@a26af69be951a213d495a4c3e4e4022e16d87065 # v5.6.0",
    "uses: actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02 # v4.6.2",
    "uses: actions/upload-pages-artifact@56afc609e74202658d3ffba0e8f6dda462b719fa # v3.0.1",
    "uses: actions/deploy-pages@d6db90164ac5ed86f2b6aed7e0febac5b3c0c03e # v4.0.5",
)
SCRIPT = (ROOT / "run").read_text(encoding="utf-8")
# What the runners of the host bring.
BROUGHT = ("cat", "echo", "gh", "git")
# What a workflow may do beside reading.
GRANTED = {
    "report.yml": {"pull-requests: write"},
    GATE.name: {"pull-requests: write"},
    "pages.yml": {"pages: write", "id-token: write"},
    "release.yml": {"contents: write"},
}
PROGRAMS = ("assay", "dvc", "mypy", "python", "ruff")  # of the environment that `run` makes


def jobs(workflow: Path) -> list[dict[str, Any]]:
    return list(read_yaml(workflow, fix="")["jobs"].values())


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(workflow) for step in job["steps"]]


@pytest.mark.parametrize("workflow", [*WORKFLOWS, GATE], ids=lambda path: path.name)
def test_a_workflow_may_do_little_and_uses_actions_of_the_host_by_commit(workflow: Path) -> None:
    text, found = workflow.read_text(), read_yaml(workflow, fix="")
    assert found["permissions"] == {"contents": "read"}
    granted = {
        f"{name}: {how}"
        for job in jobs(workflow)
        for name, how in job.get("permissions", {}).items()
        if how != "read"
    }
    assert granted <= GRANTED.get(workflow.name, set())
    assert {line.strip("- ") for line in text.splitlines() if "uses:" in line} <= set(ACTIONS)
    assert "pull_request_target" not in text and "secrets." not in text
    for step in steps(workflow):
        assert ("uses" in step) != ("run" in step)
        # What a stranger chose, such as the name of a branch, reaches a shell by its environment or not at
        # all.
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
        assert (
            command in BROUGHT
            or (command == ".ci/site" and (ROOT / command).is_file())
            or (command == "./run" and (f"\n{rest[0]}) " in SCRIPT or rest[0] in PROGRAMS))
        ), line


def test_a_release_has_what_the_pipeline_makes_once_the_committed_results_came_out_again() -> None:
    lines = [
        line
        for step in steps(ROOT / ".github/workflows/release.yml")
        for line in step.get("run", "").splitlines()
    ]
    order = ("./run stale", "./run repro", "git diff --exit-code", "./run assay verify", "gh release create")
    places = [next(k for k, line in enumerate(lines) if line.startswith(each)) for each in order]
    assert places == sorted(places)
    told = {
        word for line in lines if line.startswith("gh release upload") for word in line.split() if "/" in word
    }
    made = {
        f"dist/{NAME}.tar.gz",
        f"dist/{NAME}.sha256",
        f"dist/{SBOM}",
        place_of("report.html"),
        "wheel/*.whl",
    }
    assert told == made and (ROOT / place_of("report.html")).is_file()


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose second commit holds a run with another seed; nobody writes in it."""
    home = tmp_path_factory.mktemp("fork")
    root = made_run(home / "a fork").root
    other = made_run(home / "other", seed=41, changes={"evaluation.seed": 3}).root
    made_from = ("requirements.txt", "requirements-dev.txt", "constraints.txt", "pyproject.toml")
    for name in ("run", ".ci/set_up.py", *made_from, ".dvc/config", ".dvc/.gitignore"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / ".gitignore").write_text("/.venv\n/.venv.*\n/.dvc/tmp\n/.dvc/cache\n/models\n__pycache__\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    for name in ("params.yaml", "dvc.lock"):
        shutil.copy(other / name, root / name)
    shutil.rmtree(root / "evidence")
    shutil.copytree(other / "evidence", root / "evidence")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "two")
    return root


@pytest.fixture
def changed(forked: Path, tmp_path: Path) -> Path:
    """A copy of it, with an environment as `run` would have made it there, by its stamp."""
    root = Path(shutil.copytree(forked, tmp_path / "a fork"))
    (root / ".venv/bin").mkdir(parents=True)
    for name in ("python", "dvc", "assay"):
        (root / ".venv/bin" / name).symlink_to(shutil.which(name) or name)
    stamp = "cat requirements.txt constraints.txt pyproject.toml | cksum; pwd -P"
    (root / ".venv.stamp").write_bytes(
        subprocess.run(["sh", "-c", stamp], cwd=root, check=True, capture_output=True).stdout
    )
    (root / ".venv/pyvenv.cfg").touch()
    (root / ".venv.list").write_text(".venv/bin/python\n")
    return root


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A User", "-c", "user.email=user@example.org")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def report(root: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    surroundings = environment(DVC_SITE_CACHE_DIR=str(root.parent / "site"), **more)
    return subprocess.run(
        [root / "run", "report", *arguments], env=surroundings, capture_output=True, text=True, check=False
    )


def test_the_report_tells_what_differs_and_nothing_else(changed: Path) -> None:
    done = report(changed, "HEAD~1", ASSAY_FIGURES_AT="https://example.org/raw")
    assert done.returncode == 0, done.stderr
    place = place_of("claim.json")
    now = Claim.model_validate_json((changed / place).read_text())
    before = Claim.model_validate_json(git(changed, "show", f"HEAD~1:{place}"))
    assert f"* before: collider: {before.verdict}: {before.sentence}\n" in done.stdout
    assert f"* now: collider: {now.verdict}: {now.sentence}\n" in done.stdout
    assert now.sentence != before.sentence
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in done.stdout.splitlines()
        if line.startswith("|")
    ]
    assert ["params.yaml", "seed", "0", "41"] in rows
    (gain,) = [row for row in rows if row[1] == "gain"]
    assert now.difference is not None and now.difference.value == pytest.approx(float(gain[3]), abs=1e-4)
    one, two = (git(changed, "rev-parse", name) for name in ("HEAD~1", "HEAD"))
    figure = place_of("figures/before_after_summary.png")
    assert [f"![](https://example.org/raw/{commit}/{figure})" for commit in (one, two)] in rows
    assert git(changed, "status", "--porcelain") == ""


def test_a_report_against_the_same_commit_says_so_and_one_against_none_is_refused(changed: Path) -> None:
    done = report(changed, "HEAD")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("No ")] == [
        "No setting differs.",
        "No number differs.",
        "No figure differs.",
    ]
    assert "|" not in done.stdout
    refused = report(changed, "--output=x")
    assert refused.returncode == 2 and "--output" in refused.stderr and not os.path.exists(changed / "x")
    refused = report(changed, "no-such-commit")
    assert refused.returncode == 1 and "expected a commit" in refused.stderr and "Fix:" in refused.stderr


def test_a_report_shows_no_claim_about_other_settings_than_those_of_the_work_tree(changed: Path) -> None:
    params = (changed / "params.yaml").read_text()
    (changed / "params.yaml").write_text(params.replace("\nseed: 41", "\nseed: 42"))
    done = report(changed, "HEAD~1")
    assert done.returncode == 6 and not done.stdout and "no verdict for these settings yet" in done.stderr


def test_a_report_for_which_dvc_fails_does_not_say_that_nothing_differs(changed: Path) -> None:
    (changed / "dvc.yaml").write_text("stages: [\n")
    done = report(changed, "HEAD~1")
    assert done.returncode != 0 and "dvc.yaml" in done.stderr and "differs" not in done.stdout
