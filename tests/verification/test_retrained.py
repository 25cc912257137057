"""V5: the training is done again, so a log that is whole in itself but of another training is found."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from assay.core.storage.json import read_jsonl
from assay.package.verification.rerun.retrained import COMPARED, CONTROL, retrained
from assay.pipeline.project import Project
from assay.training.log.step_chain import START, chain_of, check_chain
from tests.verification.small_run import small_run

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return small_run(tmp_path / "unpacked")


def contents(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def test_the_training_of_a_package_is_found_again_and_the_package_stays_as_it_was(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DVC_ROOT", str(tmp_path / "somebody's"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    before = contents(project.root)
    checks = retrained(project, scratch=scratch)
    assert {check.outcome for check in checks} == {"passed"}, checks
    assert [check.name.removeprefix("train again: ") for check in checks] == [
        "base",
        "steps",
        "adapter",
        *COMPARED,
        CONTROL[0],
    ]
    assert "all 2 steps are the same" in checks[1].found
    assert contents(project.root) == before
    assert not any(scratch.iterdir()) and not (tmp_path / "somebody's").exists()
    assert os.environ["DVC_ROOT"] == str(tmp_path / "somebody's")


def test_a_training_with_another_seed_is_not_that_of_the_package(project: Project) -> None:
    """The forgery: settings that say another seed than the one the logs, the adapter and all else come
    from."""
    values = json.loads((project.root / "params.yaml").read_text())
    (project.root / "params.yaml").write_text(json.dumps(values | {"seed": values["seed"] + 1}))
    checks = {
        check.name.removeprefix("train again: "): check for check in retrained(Project.open(project.root))
    }
    assert checks["base"].outcome == "passed"
    assert {checks[name].outcome for name in ("steps", "adapter", "training_log.csv")} == {"failed"}
    assert "first difference at step 1, prompts: " in checks["steps"].found
    assert "packages are those" in checks["steps"].found


def test_a_log_that_was_made_up_from_a_step_on_is_named_by_that_step_and_link(project: Project) -> None:
    path = project.results("train_log.jsonl")
    rows = list(read_jsonl(path, fix=""))
    rows[1]["digests"]["rewards"] = "a" * 64
    rows[1]["reward"] = 0.9
    previous = START
    for row in rows:
        row["chain"] = previous = chain_of(previous, row)
    check_chain(rows, "the forgery is whole in itself")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    checks = {check.name.removeprefix("train again: "): check for check in retrained(project)}
    assert (
        "first difference at step 2, rewards (prompts, completions are still the same)"
        in checks["steps"].found
    )
    assert checks["adapter"].outcome == "passed"


def test_a_number_changed_in_a_table_is_named_by_its_line(project: Project) -> None:
    path = project.results("checkpoint_evals.csv")
    lines = path.read_text().split("\n")
    lines[2] = lines[2].replace("0.", "0.9", 1)
    path.write_text("\n".join(lines))
    project.results("validation.jsonl").unlink()
    failed = {check.name: check.found for check in retrained(project) if check.outcome == "failed"}
    assert set(failed) == {"train again: checkpoint_evals.csv", "train again: validation.jsonl"}
    assert failed["train again: checkpoint_evals.csv"].startswith("line 3 differs first")


def test_what_cannot_be_trained_here_is_not_called_checked(project: Project) -> None:
    several = project.params.model_copy(
        update={"distributed": project.params.distributed.model_copy(update={"processes": 2})}
    )
    (check,) = retrained(Project(project.root, several))
    assert check.outcome == "not checked" and "2 processes" in check.found
    (project.root / "models/base/config.json").unlink()
    (check,) = retrained(project)
    assert check.outcome == "not checked" and "--base" in check.found
