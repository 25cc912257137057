"""The example of docs/external.md: its script trains on our base without us, and what it made is judged."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from assay.pipeline.project import Project
from assay.stages import base, control, fingerprint, post_eval, pre_eval, train
from assay.stages.render_evidence.claim_at import claim_at
from tests.house import ROOT
from tests.pages import text_of
from tests.verification.external_run import settings
from tests.verification.whole_run import small_words

PAGE = text_of("docs/external.md")
SHORTER = {"max_steps=60": "max_steps=2", "train_batch_size=64": "train_batch_size=8"}
pytestmark = pytest.mark.filterwarnings("ignore")  # of trl and peft


def _small(root: Path) -> None:
    values = small_words(8)
    (root / "params.yaml").write_text(json.dumps(values), encoding="utf-8")


def test_the_script_of_the_page_trains_elsewhere_and_is_judged(tmp_path: Path) -> None:
    found = re.search(r"^```text\n(from .*?)^```$", PAGE, re.M | re.S)
    assert found is not None and found[1].count("\n") <= 30 and "assay" not in found[1]
    script = found[1]
    for long, short in SHORTER.items():
        assert long in script
        script = script.replace(long, short)
    for name in ("data/words", "tasks/words"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "constraints.txt", tmp_path)
    _small(tmp_path)
    fingerprint.run(Project.open(tmp_path))
    base.run(Project.open(tmp_path))
    told = {**os.environ, "HF_HOME": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=told, check=True, capture_output=True)
    (command, data) = re.search(r"^cd elsewhere/adapter && (.*)\n(sha256sum .*)$", PAGE, re.M).groups()  # type: ignore[union-attr]
    digests = [
        subprocess.run(each, shell=True, cwd=cwd, check=True, capture_output=True, text=True).stdout[:64]
        for each, cwd in ((command, tmp_path / "elsewhere/adapter"), (data, tmp_path))
    ]
    named = {"file": data.split()[1], "sha256": digests[1]}
    settings(tmp_path, {"sha256": digests[0], "data": [named]})
    project = Project.open(tmp_path)
    fingerprint.run(project)
    for stage in (pre_eval, train, control, post_eval):
        stage.run(project)
    claim = claim_at(project).claim
    assert claim.verdict != "NOT EVALUABLE" and claim.training_seeds == ()
    assert any("data/words/train.jsonl" in each for each in map(str, claim.warnings))
