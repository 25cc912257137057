"""The whole pipeline, made tiny, for each task in a copy that is removed at the end: `./run smoke [TASK]`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from assay.core.console import complain
from tests.house import ROOT

TASKS = ("collider", "structured")
PRODUCTS = (
    "evidence/results/report/claim.json",
    "evidence/results/report/report.html",
    "dist/assay-package.tar",
)
LEFT_OUT = (
    ".git",
    ".venv",
    "models",
    "dist",
    ".scratch",
    "__pycache__",
)  # of a copy without git: what is rebuilt
LEDGER = "evidence/observed/heldout_openings.json"
NO_VERDICT = 6  # exit code of `assay verdict` for a draft
NO_SCM = "[core]\n    no_scm = true\n"


def main() -> int:
    """Run the pipeline for the tasks that are named, or all; return 0 if every product is there, DVC finds
    nothing left to do, and no held-out record was opened."""
    # The space is on purpose: every smoke run also shows that paths with one work.
    with tempfile.TemporaryDirectory(prefix="assay smoke ") as folder:
        root = Path(folder).resolve() / "a copy"
        copy_project(root)
        ledger = root / LEDGER
        opened = ledger.read_bytes()
        for task in sys.argv[1:] or TASKS:
            complain(f"smoke: {task}")
            for command in (
                ["assay", "config", "use", "grpo=tiny_smoke", f"task={task}"],
                ["dvc", "repro", "-f"],
                ["assay", "config", "check"],
            ):
                subprocess.run(command, cwd=root, check=True)
            missing = [
                name for name in PRODUCTS if not (root / name).is_file() or not (root / name).stat().st_size
            ]
            if missing:
                complain(f"smoke: {', '.join(missing)} not written")
                return 1
            if subprocess.run(["dvc", "status", "--quiet"], cwd=root, check=False).returncode:
                subprocess.run(["dvc", "status"], cwd=root, check=False)
                complain("smoke: the pipeline is not up to date right after it ran")
                return 1
            if subprocess.run(["assay", "verdict"], cwd=root, check=False).returncode != NO_VERDICT:
                complain("smoke: a draft ended with a verdict")
                return 1
            own = ["--sha256", "dist/assay-package.sha256"]
            subprocess.run(["assay", "verify", PRODUCTS[-1], *own], cwd=root, check=True)
            if ledger.read_bytes() != opened:
                complain(f"smoke: {LEDGER} was written to, and a draft opens nothing")
                return 1
    complain("smoke: every stage ran and every product is there")
    return 0


def copy_project(root: Path, source: Path = ROOT) -> None:
    """Copy what git would commit; without git, all but what is rebuilt."""
    if (source / ".git").exists():
        for name in committable(source):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, root / name)
    else:
        shutil.copytree(source, root, ignore=shutil.ignore_patterns(*LEFT_OUT, ".venv.*"))
        for name in (".dvc/cache", ".dvc/tmp"):
            shutil.rmtree(root / name, ignore_errors=True)
    if not (root / ".git").exists():
        (root / ".dvc").mkdir(exist_ok=True)
        (root / ".dvc/config.local").write_text(NO_SCM)


def committable(source: Path = ROOT) -> list[str]:
    """Return the files that git would commit, by their paths in the project."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=source, check=True, capture_output=True).stdout.decode()
    return [name for name in listed.split("\0") if name and (source / name).is_file()]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as failed:
        complain(f"smoke: {' '.join(failed.cmd)} ended with {failed.returncode}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
