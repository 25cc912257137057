"""A package whose base learned its tokens from lessons is read as one whose tokens are words."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.core.errors import RecordError
from assay.core.storage.json import dumps
from assay.package.verification import folders, suites
from assay.package.verification.checks import LookResult
from assay.package.verification.content import weights
from assay.package.verification.unpacked import Unpacked
from assay.rollout.policy.base.bpe import LOST
from tests.verification.made_run import made_run

LOOKS = (folders.model_settings, weights.weights_sane, suites.tokens_counted)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a package of it holds, unpacked, but for figures and pages."""
    changes = {"base.bpe_vocabulary": 300, "generation.surface": "json"}
    return made_run(tmp_path_factory.mktemp("learned") / "run", changes=changes, rendered=False).root


def look(root: Path) -> dict[str, LookResult]:
    return {each.__name__: each(Unpacked(root)) for each in LOOKS}


def test_it_holds_together_to_the_last_token(pristine: Path) -> None:
    found = look(pristine)
    assert [each.wrong for each in found.values()] == [[], [], []]
    assert found["tokens_counted"].outcome == "passed" and "have the tokens" in found["tokens_counted"].said


def tokenizer(change: Callable[[dict[str, object]], object]) -> Callable[[Path], None]:
    def tamper(root: Path) -> None:
        path = root / "models/base/tokenizer.json"
        value = json.loads(path.read_text(encoding="utf-8"))
        change(value)
        path.write_text(json.dumps(value), encoding="utf-8")

    return tamper


@pytest.mark.parametrize(
    ("tamper", "named"),
    [
        (tokenizer(lambda value: value["model"]["merges"].pop()), "model_settings"),  # type: ignore[attr-defined,index]
        (tokenizer(lambda value: value["model"]["vocab"].update(zz=3)), "model_settings"),  # type: ignore[attr-defined,index]
        (tokenizer(lambda value: value.update(normalizer={"type": "Lowercase"})), "model_settings"),
    ],
)
def test_another_tokenizer_is_found(
    pristine: Path, tmp_path: Path, tamper: Callable[[Path], None], named: str
) -> None:
    root = Path(shutil.copytree(pristine, tmp_path / "package"))
    tamper(root)
    assert look(root)[named].wrong


def test_merges_that_cannot_be_are_refused(pristine: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(pristine, tmp_path / "package"))
    tokenizer(lambda value: value.update(model={"merges": [["zzz", "y"]]}))(root)
    with pytest.raises(RecordError, match="merges"):
        look(root)


def test_a_completion_of_lost_bytes_is_read_up_to_there_and_that_is_said(
    pristine: Path, tmp_path: Path
) -> None:
    root = Path(shutil.copytree(pristine, tmp_path / "package"))
    path = root / "evidence/results/post_eval/post_eval.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows[0]["turns"][-1]["completion"] = LOST
    path.write_text("".join(f"{dumps(row)}\n" for row in rows), encoding="utf-8")
    found = suites.tokens_counted(Unpacked(root))
    assert found.wrong == [] and "1 episode only up to bytes that are no text" in found.said
