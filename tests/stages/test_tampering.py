"""A claim is made only from what was measured: edited evidence ends as NOT EVALUABLE, with the reason and no
number."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from assay.core.evidence_files import place_of
from assay.pipeline.project import Project
from assay.stages.render_evidence.claim_at import claim_at
from tests.calling import called, refused
from tests.house import ROOT
from tests.verification.made_run import SMALL, made_run


def run_with_configs(folder: Path) -> Project:
    """Write a made run whose settings follow from configs/, as those of a user's do."""
    project = made_run(folder)
    shutil.copytree(ROOT / "configs", folder / "configs")
    preset = folder / "configs/grpo/tiny.yaml"
    values = OmegaConf.load(preset)
    for name, value in SMALL.items():
        OmegaConf.update(values, name, value)
    preset.write_text(f"# @package _global_\n{OmegaConf.to_yaml(values)}", encoding="utf-8")
    return project


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
        (keep_the_first_half, "plays of the suite, found 20 episodes"),
    ],
)
def test_edited_evidence_makes_no_claim(tmp_path: Path, tamper: Callable[[Path], None], reason: str) -> None:
    root = run_with_configs(tmp_path / "run").root
    before = {path: path.read_bytes() for path in (root / "evidence/results").rglob("*.json*")}
    assert json.loads((root / place_of("claim.json")).read_text())["verdict"] == "IMPROVED"
    tamper(root)
    assert any(path.read_bytes() != content for path, content in before.items()), (
        "the edit must have changed something"
    )
    if tamper is keep_the_first_half:
        refused(called(root, "render-evidence"), reason)
        return
    # Figures take their time, and this is what would be written: tests/stages/test_at_hand.py
    claim = claim_at(Project.open(root)).claim
    assert claim.verdict == "NOT EVALUABLE" and reason in claim.reason and "%" not in claim.sentence
