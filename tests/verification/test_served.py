"""A package of models behind addresses: it holds no weights, and what can be checked without them is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from assay.core.console import quietly
from assay.core.storage.json import dumps, write_json
from assay.package.archive import unpack
from assay.pipeline.project import Project
from assay.stages import package
from assay.verify.checks import Outcome
from assay.verify.levels import all_levels
from tests.house import ROOT
from tests.stages.served_run import BEFORE_PACKAGE, run_stages, says, served_settings, write_project
from tests.tools.served.stand_in import serving
from tests.verification.made_lock import lock
from tests.verification.made_run import looked_without_drawing

NOT_SHOWN = {"model settings", "adapter", "steps", "training items", "checkpoint", "alarms", "draws"}


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked package of a whole run."""
    folder = tmp_path_factory.mktemp("served")
    with serving(says) as server:
        root = write_project(folder / "run", served_settings(f"{server.url}/v1"))
        run_stages(root, BEFORE_PACKAGE)
    shutil.copy(ROOT / "dvc.yaml", root)
    project = Project.open(root)
    lock(project)
    with quietly():
        package.run(project)
    unpack(root / "dist/assay-package.tar", folder / "unpacked")
    return folder / "unpacked"


def outcomes(root: Path, work: Path) -> dict[str, set[tuple[str, str]]]:
    found: dict[str, set[tuple[str, str]]] = {outcome: set() for outcome in get_args(Outcome)}
    for check in all_levels(root, work, processes=1):
        found[check.outcome].add((check.level, check.name))
    return found


def test_every_check_passes_but_those_of_weights_and_of_a_training(pristine: Path, tmp_path: Path) -> None:
    found = outcomes(pristine, tmp_path)
    # The task is somebody's own: its code is run when the checker brings a copy of it.
    assert not found["failed"] and found["not checked"] == {("V2", "rewards")}
    assert {name for _, name in found["not shown"]} == NOT_SHOWN
    assert {("V3", "tokens"), ("V3", "base and adapter"), ("V1", "claim")} <= found["passed"]


def test_no_weights_are_packed_and_the_card_says_where_they_were_asked(pristine: Path) -> None:
    assert not (pristine / "parity.json").exists()
    models = pristine / "models"
    assert not models.exists() or not [path for path in models.rglob("*") if path.is_file()]
    card = (pristine / "README.md").read_text()
    assert "# Served model for the task words" in card and "cannot be pinned" in card
    assert "PeftModel" not in card and "parity.json" not in card


def _another_question(root: Path) -> None:
    path = root / "evidence/results/post_eval/post_eval.jsonl"
    lines = path.read_text().splitlines()
    told = json.loads(lines[0])
    told["turns"][0]["prompt_digest"] = "messages:" + "0" * 16
    path.write_text("\n".join([dumps(told), *lines[1:]]) + "\n")


def _another_answer(root: Path) -> None:
    path = root / "evidence/results/post_eval/post_eval.jsonl"
    told = json.loads(path.read_text().splitlines()[0])
    text = path.read_text().replace(dumps(told["turns"][0]["completion"]), '"star"', 1)
    path.write_text(text)


def _fewer_tokens(root: Path) -> None:
    path = root / "evidence/results/pre_eval/pre_eval_served.json"
    told = json.loads(path.read_text())
    told["arms"]["pre_eval"]["completion_tokens"] -= 1
    write_json(path, told)


def _none_cut(root: Path) -> None:
    path = root / "evidence/results/pre_eval/pre_eval_served.json"
    told = json.loads(path.read_text())
    told["arms"]["pre_eval"]["finish_reasons"] = {"length": told["arms"]["pre_eval"]["answers"]}
    write_json(path, told)


def _another_server(root: Path) -> None:
    path = root / "evidence/results/base/base.json"
    told = json.loads(path.read_text())
    told["served"]["url"] = "http://127.0.0.1:1/v1"
    write_json(path, told)


@pytest.mark.parametrize(
    ("change", "caught"),
    [
        (_another_question, ("V3", "tokens")),
        (_another_answer, ("V2", "post_eval.jsonl")),
        (_fewer_tokens, ("V3", "tokens")),
        (_none_cut, ("V3", "tokens")),
        (_another_server, ("V3", "base and adapter")),
    ],
)
def test_what_was_changed_is_caught(
    change: Callable[[Path], None], caught: tuple[str, str], pristine: Path, tmp_path: Path
) -> None:
    root = Path(shutil.copytree(pristine, tmp_path / "package"))
    change(root)
    # What draws nothing is enough
    found = looked_without_drawing(root, tmp_path / "work")
    assert caught in {(each.level, each.name) for each in found if each.outcome == "failed"}
