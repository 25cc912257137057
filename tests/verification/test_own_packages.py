"""A package of a task of one's own is checked without its code, and with the checker's own copy of it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from assay.core.errors import PackageError, RecordError
from assay.core.storage.files import sha256_bytes
from assay.package.checking import VerifyRequest, verified
from assay.package.verification.checks import Check
from assay.package.verification.own_code import own_copy
from assay.package.verification.unpacked import Unpacked
from assay.stages.packing import verify as plain
from assay.stages.packing.archive import unpack
from tests.house import ROOT
from tests.verification import made_run as making
from tests.verification.made_run import looked_without_drawing, made_run, packaged

WORDS = ROOT / "tasks/words"
# What it tells is of the record and of the world; records share clusters; success is said at the end alone.
DOORS = """
import random

from assay.rollout.tasks.own.api import Environment, Told


class Doors(Environment):
    def reset(self, row, seed):
        self.right = random.Random(seed).choice("abc")
        self.floor = 0
        return f"house {row['house']}, not {'b' if self.right == 'a' else 'a'}"

    def step(self, completion):
        if completion not in ("a", "b", "c"):
            return Told("which?", {"opened": 0.0}, failure="no door")
        self.floor += 1
        if completion != self.right:
            return Told(None, {"opened": 0.0}, success=False)
        last = self.floor == 2
        return Told(None if last else "again", {"opened": 0.5}, success=True if last else None)

    def lost(self, rng):
        return rng.choice(["a", "b", "c", "d"])

    def knows(self):
        return self.right
"""
PRESET = {
    "task.code": "tasks/doors",
    "task.entry": "task.py:Doors",
    "task.success": {"compare": "environment"},
    "task.parts": {"opened": "outcome"},
    "task.players": {"lost": "weak", "knows": "oracle"},
    "task.cluster": "house",
    "task.max_turns": 3,
    "dataset.root": "data/doors",
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    return packaged(made_run(folder / "run", task="words"), folder / "package")


def checks(package: Path, task_code: Path | None = None) -> dict[str, Check]:
    asked = VerifyRequest(processes=1, task_code=task_code)
    return {each.name: each for each in verified(package, plain.check(package), asked)}


def beside(package: Path, folder: Path, task_code: Path | None = None) -> dict[str, Check]:
    """Return what those checks say that draw nothing."""
    root = folder / "opened"
    folder.mkdir(exist_ok=True)
    if not root.exists():
        unpack(package, root)
    code = own_copy(root, task_code, folder / "code") if task_code else None
    return {each.name: each for each in looked_without_drawing(root, folder / "work", code)}


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
    assert "told again" in found["told.jsonl"].found


def test_what_the_code_is_said_to_have_told_is_what_the_copy_tells(package: Path, tmp_path: Path) -> None:
    unpack(package, tmp_path / "opened")
    file = tmp_path / "opened/told.jsonl"
    file.write_text(file.read_text().replace('"reward":1.0', '"reward":0.0', 1))
    found = beside(package, tmp_path, WORDS)
    assert "2 lines are not what the task's code tells" in found["told.jsonl"].found


def test_what_the_code_told_stands_once_in_the_order_of_its_keys(package: Path, tmp_path: Path) -> None:
    unpack(package, tmp_path / "opened")
    file = tmp_path / "opened/told.jsonl"
    first, second, *others = file.read_text().splitlines(keepends=True)
    both = first.replace('"reply":null', '"reply":{"failure":null,"messages":[],"parts":{},"success":null}')
    for lines in ([first, first, second], [second, first], [both, second]):
        file.write_text("".join([*lines, *others]))
        with pytest.raises(RecordError, match="lines by key, each once"):
            _ = Unpacked(tmp_path / "opened").project


def house_of_doors(folder: Path) -> Path:
    """Return a tree in which a task of several turns was written, and its records."""
    (folder / "tasks/doors").mkdir(parents=True)
    (folder / "tasks/doors/task.py").write_text(DOORS)
    for name in making.TAKEN:
        if name not in ("tasks", "data"):
            (folder / name).symlink_to(ROOT / name)
    (folder / "configs").symlink_to(ROOT / "configs")
    data, sums = folder / "data/doors", []
    data.mkdir(parents=True)
    for split, n in (("train", 64), ("validation", 32), ("heldout", 48)):
        rows = [{"id": f"{split}{k}", "house": f"{split}-{k // 2}"} for k in range(n)]
        (data / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        sums.append(f"{sha256_bytes((data / f'{split}.jsonl').read_bytes())}  {split}.jsonl\n")
    (data / "SHA256SUMS").write_text("".join(sums))
    return folder


@pytest.mark.parametrize("isolation", ["inline", "worker"])
def test_a_package_of_several_turns_is_checked_without_its_code_and_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    monkeypatch.setattr(making, "ROOT", house_of_doors(tmp_path / "house"))
    run = making.made_run(tmp_path / "run", task="words", changes=PRESET | {"task.isolation": isolation})
    package, before = packaged(run, tmp_path / "package"), brought()
    # Figures take their time: they are drawn without its code for one, with it for the other.
    doors = tmp_path / "house/tasks/doors"
    found = checks(package) if isolation == "inline" else beside(package, tmp_path / "beside")
    assert [each.found for each in found.values() if each.outcome == "failed"] == []
    assert brought() == before and "the word of task.py:Doors" in found["post_eval.jsonl"].found
    again = checks(package, doors) if isolation == "worker" else beside(package, tmp_path / "beside", doors)
    assert [each.found for each in again.values() if each.outcome == "failed"] == []
    assert "graded again" in again["post_eval.jsonl"].found


@pytest.mark.long
def test_a_package_of_a_task_with_every_ability_is_checked_without_its_code_and_with_it(
    tmp_path: Path,
) -> None:
    looked_at = [{"rule": "parsed", "reason": "who says nothing plays the base of a made run"}]
    run = made_run(tmp_path / "run", task="lode", changes={"evidence.acknowledged_alarms": looked_at})
    package = packaged(run, tmp_path / "package")
    before = brought()
    found = beside(package, tmp_path / "beside")
    assert [each.found for each in found.values() if each.outcome == "failed"] == []
    assert brought() == before
    again = beside(package, tmp_path / "again", ROOT / "tasks/lode")
    assert [each.found for each in again.values() if each.outcome == "failed"] == []
    assert "graded again" in again["post_eval.jsonl"].found
    drawn = {path.stem for path in run.results("report.html").parent.glob("figures/*.svg")}
    assert {"answers", "budgets"} <= drawn


def test_another_copy_is_refused_and_not_run(package: Path, tmp_path: Path) -> None:
    shutil.copytree(WORDS, tmp_path / "words", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "words/task.py").open("a") as stream:
        stream.write(f"\nopen({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(PackageError, match="tasks/words with sha256"):
        checks(package, tmp_path / "words")
    assert not (tmp_path / "ran").exists()
