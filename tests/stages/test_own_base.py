"""Data of one's own with a pretrained base of one's own: every stage runs, and an untrained model is no
evidence."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from assay.checks.doctor import preflight
from assay.checks.doctor.forecast.forecast import Ahead
from assay.checks.findings import DoctorCheck, Finding
from assay.core.config.composition import Selection, compose
from assay.core.config.reading import parse_params
from assay.core.errors import PolicyError, TrainingError
from assay.core.seeds import derive_seed
from assay.core.storage.json import read_record, write_json
from assay.package.verification.stated import facts_within_bounds
from assay.package.verification.unpacked import Unpacked
from assay.pipeline.project import Project
from assay.pipeline.resume import RunKey
from assay.pipeline.run_folder import RunFolder
from assay.rollout.policy.base.pretrained import locate
from assay.rollout.policy.processes import ALONE
from assay.stages import base, control, fingerprint, package, post_eval, pre_eval, render_evidence, train
from assay.stages.packing.archive import unpack
from assay.verdict.evidence.claim.claim import Claim
from tests import own_data
from tests.house import ROOT
from tests.small_policy import LETTERS, small_base
from tests.verification.made_lock import lock


def pretrained(folder: Path) -> Path:
    """Write a Hugging Face model folder with random weights and a tokenizer of letters."""
    shape = {"hidden_size": 16, "intermediate_size": 32, "initializer_range": 0.02}
    return small_base(folder, [*LETTERS, "\n"], derive_seed("own"), **shape)


def small(root: Path, model: str = "kept/mine") -> Project:
    values = json.loads(json.dumps(compose(ROOT, Selection("pretrained", "structured", 0)).values))
    values |= {"device": "cpu", "threads": 1}
    values["task"] |= {"lessons": None, "max_new_tokens": {"compact": 6, "json": 6}, "strata": []}
    values["dataset"] |= {"root": own_data.DATA, "cache": ".scratch/datasets"}
    pretrained(root / model)
    values["base"] |= {"model": model, "dtype": "float32"}
    values["evaluation"] |= {"items": 4, "draws": 2}
    values["validation"] |= {"items": 3, "draws": 2, "interval": 1}
    values["evidence"] = {
        "acknowledged_alarms": [{"rule": "parsed", "reason": "the base never learned to write"}]
    }
    # An untrained base that is cut off everywhere: the doctor would refuse it
    values["health"] |= {"preflight": False}
    values["distributed"] |= {"processes": 1}
    values["claim"] |= {"control_share": 1.0}  # a third of two steps changes no weight
    values["train"] |= {
        "steps": 2,
        "items_per_step": 2,
        "group_size": 2,
        "micro_batch_size": 4,
        "kl_probe_episodes": 2,
    }
    return Project(root, parse_params(values))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_an_untrained_base_goes_through_every_stage_and_is_no_evidence(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    own_data.write_data(root)
    project = small(root)
    for name in ("constraints.txt", "requirements.txt", "pyproject.toml", "LICENSE", "dvc.yaml"):
        shutil.copy(ROOT / name, root)
    # With the path that was written
    (root / "params.yaml").write_text(json.dumps(project.params.model_dump(mode="json")))
    for code in ("src/assay", "tasks"):
        shutil.copytree(ROOT / code, root / code, ignore=shutil.ignore_patterns("__pycache__"))
    for stage in (fingerprint, base, pre_eval, train, control, post_eval, render_evidence):
        stage.run(project)
    lock(project)
    package.run(project)
    claim = read_record(project.results("claim.json"), Claim, fix="")
    assert claim.verdict == "NO EVIDENCE", claim.reason
    assert claim.before_policy != claim.after_policy
    assert any("cut off" in warning for warning in map(str, claim.warnings))
    assert any("never learned to write" in warning for warning in map(str, claim.warnings))
    pinned = json.loads(project.results("base.json").read_text())
    assert (pinned["kind"], pinned["model"], len(pinned["digest"])) == ("pretrained", "mine", 64)
    assert (root / "dist/assay-package.tar").stat().st_size > 0  # though the base lies in the project
    unpack(root / "dist/assay-package.tar", tmp_path / "unpacked")
    assert facts_within_bounds(Unpacked(tmp_path / "unpacked")).wrong == []
    write_json(tmp_path / "unpacked/evidence/results/base/base.json", pinned | {"model": "another"})
    assert ["another" in fault for fault in facts_within_bounds(Unpacked(tmp_path / "unpacked")).wrong] == [
        True
    ]


def test_a_base_by_an_absolute_path_is_named_without_it_and_what_follows_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    for name in ("say", "complain"):
        monkeypatch.setattr(base, name, said.append)
    project = small(tmp_path, str(tmp_path / "elsewhere/mine"))
    own_data.write_data(tmp_path)
    fingerprint.run(project)
    base.run(project)
    assert json.loads(project.results("base.json").read_text())["model"] == "mine"
    assert said[0].startswith("base mine at local") and "params.yaml is part of the package" in said[1]
    relative = small(tmp_path)
    base.run(relative)
    assert len(said) == 3 and said[2].startswith("base mine at local")
    assert locate(relative.root / "models/base") == tmp_path / "kept/mine"


def test_a_base_without_a_chat_template_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    project = small(tmp_path)
    own_data.write_data(tmp_path)
    fingerprint.run(project)
    (tmp_path / "kept/mine/chat_template.jinja").unlink()
    with pytest.raises(PolicyError, match="a chat template"):
        base.run(project)
    assert not (tmp_path / "models").exists() and not project.results("base.json").exists()


def test_a_base_of_ones_own_is_weighed_before_the_first_step_on_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers: list[int] = []

    def weighed(ahead: Ahead, *_: object) -> tuple[Finding, None]:
        layers.append(ahead.config.num_hidden_layers)
        return DoctorCheck("memory (forecast)", "a peak that fits", "params.yaml").warning(
            "too much", "less"
        ), None

    project, nothing = small(tmp_path), cast(Any, None)
    own_data.write_data(tmp_path)
    fingerprint.run(project)
    base.run(project)
    said: list[str] = []
    monkeypatch.setattr(preflight, "examine", lambda *_, **__: [])
    monkeypatch.setattr(preflight, "memory_ahead", weighed)
    monkeypatch.setattr(preflight, "complain", said.append)

    def look(project: Project) -> None:
        inputs = replace(cpu.inputs("train", "validation"), params=project.params)
        folder = RunFolder(tmp_path, RunKey("a", {}), {}, project.params.checkpoint, main=True)
        preflight.examine_training(train.Training(project, inputs, nothing, nothing, "", ALONE, folder, None))

    health = project.params.health.model_copy(update={"preflight": True})
    cpu = Project(project.root, project.params.model_copy(update={"health": health}))
    look(cpu)
    assert said == [] and layers == []
    gpu = Project(project.root, cpu.params.model_copy(update={"device": "cuda"}))
    look(gpu)
    assert ["memory (forecast)" in line for line in said] == [True] and layers == [1]
    refused = DoctorCheck("memory (forecast)", "a peak that fits", "params.yaml").fault("too much", "less")
    monkeypatch.setattr(preflight, "memory_ahead", lambda *_: (refused, None))
    shutil.rmtree(tmp_path / ".scratch/preflight")
    with pytest.raises(TrainingError, match="too much"):
        look(gpu)
