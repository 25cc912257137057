"""An installed package that grades is told by what its files hold."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from assay.core.errors import ConfigError, DataError
from assay.core.installed import differences, require
from assay.stages.render_evidence.at_hand import differences as differences_at_hand
from tests.verification.made_run import made_run


@pytest.fixture
def grader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package, found as pip's are."""
    for name, text in {
        "assay_test_grader/__init__.py": "def score(text):\n    return float(text == 'a')\n",
        "assay_test_grader/words.txt": "a\n",
        "assay_test_grader/__pycache__/x.pyc": "1",
        "assay_test_grader-1.0.dist-info/METADATA": "Name: assay-test-grader\nVersion: 1.0\n",
        "assay_test_grader-1.0.dist-info/INSTALLER": "pip\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    names = [each.relative_to(tmp_path).as_posix() for each in tmp_path.rglob("*") if each.is_file()]
    record = tmp_path / "assay_test_grader-1.0.dist-info/RECORD"
    record.write_text("".join(f"{name},,\n" for name in names))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    return tmp_path


def test_what_pip_and_python_leave_beside_a_package_is_no_part_of_it(grader: Path) -> None:
    before = require(["assay-test-grader==1.0"])
    (grader / "assay_test_grader/__pycache__/x.pyc").write_text("2")
    (grader / "assay_test_grader-1.0.dist-info/INSTALLER").write_text("uv\n")
    assert differences(before, require(["assay-test-grader == 1.0"])) == []


@pytest.mark.parametrize("name", ["__init__.py", "words.txt"])
def test_an_edited_or_missing_file_of_a_package_is_noticed(grader: Path, name: str) -> None:
    before = require(["assay-test-grader==1.0"])
    (grader / "assay_test_grader" / name).write_text("b\n")
    edited = require(["assay-test-grader==1.0"])
    assert differences(before, edited) == ["assay-test-grader 1.0: its installed files are others"]
    (grader / "assay_test_grader" / name).unlink()
    assert differences(edited, require(["assay-test-grader==1.0"])) != []


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("assay-test-grader==1.1", "found assay-test-grader 1.0.\nFix: ./run pip install"),
        ("assay-test-nothing==1.0", "found not installed.\nFix: ./run pip install assay-test-nothing==1.0"),
        ("assay-test-grader>=1", "with its version, found"),
        ("-r evil.txt", "with its version, found"),
    ],
)
def test_a_package_that_is_not_the_required_one_is_refused_with_what_to_type(
    grader: Path, wanted: str, found: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        require([wanted])
    assert found in str(refused.value)


def test_an_editable_package_is_refused_since_its_files_are_not_listed(grader: Path) -> None:
    url = grader / "assay_test_grader-1.0.dist-info/direct_url.json"
    url.write_text('{"dir_info": {"editable": true}, "url": "file:///somewhere"}')
    with pytest.raises(ConfigError, match="an editable one"):
        require(["assay-test-grader==1.0"])


def test_packages_that_come_and_go_are_told(grader: Path) -> None:
    (one,) = require(["assay-test-grader==1.0"])
    assert differences([], [one]) == ["assay-test-grader: was not required then"]
    assert differences([one], []) == ["assay-test-grader: is not required any more"]


@pytest.mark.long
def test_a_claim_graded_by_a_package_is_refused_once_its_files_were_edited(
    grader: Path, tmp_path: Path
) -> None:
    run = made_run(tmp_path / "run", task="words", changes={"task.requires": ["assay-test-grader==1.0"]})
    assert differences_at_hand(run) == [] and run.task().name == "own"
    (grader / "assay_test_grader/words.txt").write_text("b\n")
    with pytest.raises(DataError, match=r"its installed files are others.*\nFix: .*--force-reinstall"):
        run.task()
    (said,) = differences_at_hand(run)
    assert "assay-test-grader 1.0: its installed files are others" in said
