"""A model behind `transformers serve` is measured as the same model from its folder is.

Runs where what that server needs is installed (fastapi, uvicorn, openai: all in the extra `openenv`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli import app
from assay.evaluation.replay import graded_again
from assay.tools.evaluate import EvaluationRequest, prepare
from tests.house import ROOT
from tests.tools.served.material import COLLIDER, episodes, facts, write_project
from tests.tools.served.real_server import MARKS, served, write_model

pytestmark = MARKS
MODEL = "models/base"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a model."""
    root = write_project(tmp_path_factory.mktemp("project"))
    write_model(root / MODEL, seed=4)
    return root


@pytest.fixture(scope="module")
def url(made: Path) -> Iterator[str]:
    """Where `transformers serve` answers."""
    with served(str(made / MODEL), made) as found:
        yield found


@pytest.fixture(autouse=True)
def project(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    monkeypatch.delenv("ASSAY_API_KEY", raising=False)
    return made


def evaluate(*arguments: str | Path | int) -> None:
    result = CliRunner().invoke(app, ["evaluate", *COLLIDER, *map(str, arguments)])
    assert result.exit_code == 0, (result.output, result.exception)


def test_greedy_conversations_are_word_for_word_those_of_the_folder(
    url: str, made: Path, tmp_path: Path
) -> None:
    common = ("--greedy", "--items", 4)
    evaluate("--served", url, "--model", made / MODEL, *common, "--out", tmp_path / "served")
    evaluate("--policy", MODEL, *common, "--out", tmp_path / "folder")
    served, folder = episodes(tmp_path / "served"), episodes(tmp_path / "folder")
    assert max(len(each.turns) for each in served) > 1
    unknown = {"prompt_digest": ""}
    for one, other in zip(served, folder, strict=True):
        turns = [[turn.model_copy(update=unknown) for turn in each.turns] for each in (one, other)]
        assert turns[0] == turns[1]
        assert (one.reward, one.success, one.flags, one.seed) == (
            other.reward,
            other.success,
            other.flags,
            other.seed,
        )
    told = facts(tmp_path / "served")
    assert told["completion_tokens"] == sum(each.n_tokens for each in folder)
    assert told["identity"]["answered_as"] == [f"{made / MODEL}@main"]


def test_a_kill_in_the_middle_costs_nothing_that_was_answered(url: str, made: Path, tmp_path: Path) -> None:
    common = ["--items", "3", "--draws", "2", "--in-flight", "2"]
    words = ["--served", url, "--model", str(made / MODEL), *common, "--out", str(tmp_path)]
    journal = tmp_path / "answers.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-m", "assay.cli", "evaluate", *COLLIDER, *words],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])},
    )
    limit = time.monotonic() + 180
    while not journal.exists() or len(journal.read_bytes().splitlines()) < 5:
        assert process.poll() is None and time.monotonic() < limit
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = journal.read_bytes()
    evaluate(*words)
    assert journal.read_bytes().startswith(before[: before.rindex(b"\n") + 1])
    found, told = episodes(tmp_path), facts(tmp_path)
    assert told["kept"] >= 5 and told["answers"] == sum(len(each.turns) for each in found)
    ready = prepare(Path.cwd(), EvaluationRequest(Path(COLLIDER[1]), task="collider", items=3, draws=2))
    assert graded_again(ready.task, ready.suite, found, "served", exact=True) == []
    said = {each.item_id: set[str]() for each in found}
    for each in found:
        said[each.item_id].add(each.turns[0].completion)
    assert max(len(texts) for texts in said.values()) > 1  # it samples
