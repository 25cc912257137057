"""What `pip install .` brings is enough for the commands that load no model."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from assay.package import checking
from tests.house import ROOT, SRC
from tests.tools.judged_files import as_csv, as_jsonl, results
from tests.tools.log_shapes import CLEAN, play

# Whatever is installed here beside them, none but these packages may be imported.
CALL = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
BLOCKED = set(sys.argv.pop(1).split(","))
sys.meta_path.insert(0, Blocked())
from assay.cli import main
main()
"""


def light() -> set[str]:
    """Return the names of all packages that assay depends on, those that they need among them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found, open_ = set[str](), [Requirement(each) for each in project["dependencies"]]
    while open_:
        wanted = open_.pop()
        name = wanted.name.lower().replace("_", "-")
        if name in found:
            continue
        found.add(name)
        for text in importlib.metadata.requires(name) or []:
            needed = Requirement(text)
            extra = [*wanted.extras, ""]
            if needed.marker is None or any(needed.marker.evaluate({"extra": each}) for each in extra):
                open_.append(needed)
    return found


@pytest.fixture(scope="module")
def blocked() -> str:
    """The modules of every other package that is installed here."""
    kept = light()
    return ",".join(
        module
        for module, packages in importlib.metadata.packages_distributions().items()
        if module not in ("assay", "setuptools", "pkg_resources", "_distutils_hack")
        and not {name.lower().replace("_", "-") for name in packages} & kept
    )


def call(blocked: str, *words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CALL, blocked, *map(str, words)]
    environment = {"PYTHONPATH": str(SRC), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_judging_planning_grading_and_health_need_no_more(project: Path, blocked: str) -> None:
    assert {"torch", "transformers", "huggingface_hub", "dvc"} <= set(blocked.split(","))
    for arm, rate in (("before", 0.3), ("after", 0.7)):
        as_csv(project / f"{arm}.csv", results(arm, rate))
    line = (project / "data/structured/validation.jsonl").read_text().split("\n")[0]
    few = "data/structured/few.jsonl"
    (project / few).write_text(f"{line}\n")
    answers = [{"item": json.loads(line)["id"], "draw": k, "completion": "{}"} for k in range(2)]
    as_jsonl(project / "said.jsonl", answers)
    as_jsonl(project / "log.jsonl", play(CLEAN["learned_form_and_all"], steps=12))
    codes = {"verify": 9}  # all holds, and nobody said whose it is
    for words in (
        ("judge", "before.csv", "after.csv"),
        ("verify", "judged/assay-package.tar"),
        ("plan", "before.csv"),
        ("episodes", "grade", few, "said.jsonl", "--task", "structured", "--out", "graded"),
        ("runs", "health", "log.jsonl"),
        ("evaluate", "--help"),
    ):
        done = call(blocked, *words, cwd=project)
        assert done.returncode == codes.get(words[0], 0), f"{words}: {done.stdout}{done.stderr}"


def test_a_run_is_not_checked_halfway_before_a_package_is_missed(
    blocked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(checking.NEEDED) <= set(blocked.split(","))
    monkeypatch.setattr(checking, "NEEDED", ("sys", "no_such_package"))
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        checking._demand_packages()


def test_a_command_that_lacks_a_package_says_which_and_how_to_get_it(project: Path, blocked: str) -> None:
    words = ("--tasks", "data/words/validation.jsonl", "--task", "words")
    done = call(blocked, "evaluate", *words, "--policy", "models", cwd=project)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "expected the package torch, found that it is not installed" in done.stderr
    (fix,) = re.findall(r"Fix: pip install -r (\S+) -c (\S+);", done.stderr)
    assert [Path(each).name for each in fix] == ["requirements.txt", "constraints.txt"]
    assert all((project / each).is_file() for each in fix), "wherever the command was typed"
    # A model that is served is asked without it; here nobody listens.
    served = ("--served", "http://127.0.0.1:9/v1", "--model", "m", "--retries", "0", "--items", "2")
    done = call(blocked, "evaluate", *words, *served, cwd=project)
    assert done.returncode == 1 and "http://127.0.0.1:9/v1" in done.stderr, done.stderr
