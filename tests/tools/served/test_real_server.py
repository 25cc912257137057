"""A model behind `transformers serve` is measured as the same model from its folder is.

Runs where what that server needs is installed (fastapi, uvicorn, openai: all in the extra `openenv`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli import app
from assay.cli.tools.evaluate import EvaluationRequest, prepare
from assay.rollout.evaluation.replay import graded_again
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


def test_what_it_samples_is_graded_as_the_task_grades_and_differs_from_draw_to_draw(
    url: str, made: Path, tmp_path: Path
) -> None:
    evaluate("--served", url, "--model", made / MODEL, "--items", 3, "--draws", 2, "--out", tmp_path)
    found = episodes(tmp_path)
    ready = prepare(Path.cwd(), EvaluationRequest(Path(COLLIDER[1]), task="collider", items=3, draws=2))
    assert graded_again(ready.task, ready.suite, found, "served", rewards=0, metrics=0) == []
    assert len({(each.item_id, each.turns[0].completion) for each in found}) > 3  # of three items
