"""A claim is made only from what was measured: edited evidence ends as NOT EVALUABLE, with the reason and no
number."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.core.evidence_files import place_of
from tests.house import ROOT
from tests.stages.test_bad_input import assay


def lower_the_bar(root: Path) -> None:
    path = root / place_of("claim_plan.json")
    path.write_text(
        path.read_text().replace('"smallest_effect_points": 10.0', '"smallest_effect_points": 1.0')
    )


def call_every_episode_a_success(root: Path) -> None:
    path = root / place_of("post_eval.jsonl")
    path.write_text(path.read_text().replace('"success":false', '"success":true'))


def keep_the_first_half(root: Path) -> None:
    for name in ("pre_eval.jsonl", "post_eval.jsonl"):
        path = root / place_of(name)
        lines = path.read_text().split("\n")[:-1]
        path.write_text("\n".join(lines[: len(lines) // 2]) + "\n")


@pytest.mark.parametrize(
    ("tamper", "reason"),
    [
        (lower_the_bar, "plan"),
        (call_every_episode_a_success, "graded again"),
        (keep_the_first_half, "plays of the suite, found 512 episodes"),
    ],
)
def test_edited_evidence_makes_no_claim(tmp_path: Path, tamper: Callable[[Path], None], reason: str) -> None:
    for name in ("configs", "data", "evidence"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "evidence/results").rglob("*.json*")}
    tamper(tmp_path)
    assert any(path.read_bytes() != content for path, content in before.items()), (
        "the edit must have changed something"
    )
    done = assay(tmp_path, "render-evidence")
    assert "Traceback" not in done.stderr
    if done.returncode == 0:
        claim = json.loads((tmp_path / place_of("claim.json")).read_text())
        assert claim["verdict"] == "NOT EVALUABLE"
        assert reason in claim["reason"]
        assert "%" not in claim["sentence"]
    else:
        assert reason in done.stderr
