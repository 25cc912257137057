"""A package of a task of one's own is checked without its code, and with the checker's own copy of it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from assay.core.errors import PackageError
from assay.package import verify as plain
from assay.tools.verify import VerifyRequest, verified
from assay.verify.checks import Check
from tests.house import ROOT
from tests.verification.made_run import made_run, packaged

WORDS = ROOT / "tasks/words"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    return packaged(made_run(folder / "run", task="words"), folder / "package")


def checks(package: Path, task_code: Path | None = None) -> dict[str, Check]:
    asked = VerifyRequest(processes=1, task_code=task_code)
    return {each.name: each for each in verified(package, plain.check(package), asked)}


def brought() -> set[str]:
    return {name for name in sys.modules if name.startswith("assay_own_")}


def test_without_its_code_success_is_judged_again_and_rewards_are_said_not_to_be(package: Path) -> None:
    before = brought()
    found = checks(package)
    assert [each.found for each in found.values() if each.outcome == "failed"] == []
    assert brought() == before, "nobody's code was imported"
    assert "success judged again by exact with answer" in found["post_eval.jsonl"].found
    assert found["rewards"].outcome == "not checked"
    assert found["rewards"].found.startswith("not graded again: grader task.py:reward, sha256 ")


def test_the_checkers_own_copy_grades_everything_again(package: Path) -> None:
    found = checks(package, WORDS)
    assert [each.found for each in found.values() if each.outcome == "failed"] == []
    assert "rewards" not in found and "graded again" in found["post_eval.jsonl"].found


def test_another_copy_is_refused_and_not_run(package: Path, tmp_path: Path) -> None:
    shutil.copytree(WORDS, tmp_path / "words", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "words/task.py").open("a") as stream:
        stream.write(f"\nopen({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(PackageError, match="tasks/words with sha256"):
        checks(package, tmp_path / "words")
    assert not (tmp_path / "ran").exists()
