"""The package of seeds of a task of one's own: success is judged again, and rewards by a copy alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import PackageError
from assay.core.evidence_files import place_of
from assay.package import checking as verify
from assay.package.checking import VerifyRequest
from assay.package.recipe import recipe_file
from assay.package.recipe.check_seeds import pack_seeds
from tests.house import ROOT
from tests.tools.test_published_seeds import checked, edited, sealed_again, told, unpacked
from tests.verification.made_run import made_run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("runs")
    copies = [made_run(home / f"seed{seed}", task="words", seed=seed).root for seed in range(2)]
    runs = [recipe_file.read_seed(copy) for copy in copies]
    found = recipe_file.combine_seeds("words", "tiny", copies, runs, (), one_sided=False)
    return pack_seeds(tmp_path_factory.mktemp("published"), found, copies)


def test_what_was_packed_says_its_numbers_again_and_a_success_that_is_none_is_found(
    packed: Path, tmp_path: Path
) -> None:
    found = checked(packed, tmp_path)
    assert "failed" not in found.values(), found
    assert {"V1 seed0: claim", "V1 seed1: claim", "V1 data", "V1 figure"} <= found.keys()
    assert "episodes of" in found["V1 seed1: claim"] and "read again" in found["V1 seed1: claim"]
    assert found["outcome of V2 rewards"] == "not checked" and "task.py:reward" in found["V2 rewards"]
    root = unpacked(packed, tmp_path)
    edited(root / "seed1" / place_of("post_eval.jsonl"), '"success":true', '"success":false')
    again = checked(sealed_again(root, tmp_path), tmp_path)
    assert "post_eval: 1 episode graded otherwise" in told(again, "V1 seed1: claim")


def test_the_checkers_own_copy_grades_every_reward_again(packed: Path, tmp_path: Path) -> None:
    found = checked(packed, tmp_path, VerifyRequest(task_code=ROOT / "tasks/words"))
    assert "failed" not in found.values(), found
    assert "V2 rewards" not in found and "graded again" in found["V1 seed1: claim"]
    root = unpacked(packed, tmp_path)
    edited(root / "seed1" / place_of("post_eval.jsonl"), '"reward":1.0', '"reward":0.5')
    again = checked(sealed_again(root, tmp_path), tmp_path, VerifyRequest(task_code=ROOT / "tasks/words"))
    assert "post_eval: 1 episode graded otherwise" in told(again, "V1 seed1: claim")
    (root / "seed1/told.jsonl").unlink()
    old = checked(sealed_again(root, tmp_path), tmp_path)
    assert "seed1: no told.jsonl" in told(old, "V1 runs")
    with pytest.raises(PackageError, match="sha256"):
        verify.run(packed, VerifyRequest(task_code=tmp_path), tmp_path / "other.json")
