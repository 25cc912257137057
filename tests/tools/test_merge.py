"""`assay publish merge` writes a model that says what base and adapter say, whole or not at all, and takes
nobody's place."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from assay.core.errors import AssayError, PackageError
from assay.core.storage.json import read_record
from assay.package.publish import merge as tool
from assay.pipeline.project import Project
from assay.rollout.policy.base import adapter_files
from assay.rollout.policy.digests import digest_folder
from assay.rollout.policy.model import load
from assay.stages.packing.merged import parity_of
from assay.stages.packing.parity import Parity
from tests.verification.small_run import base_folder, small_run

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return small_run(tmp_path / "project")


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def test_the_merged_folder_is_a_model_like_any_other_and_the_same_bytes_each_time(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(tool, "say", said.append)
    tool.run(project.root, out=None, run=None)
    folder = project.root / ".scratch/merged"
    record = read_record(folder / "parity.json", Parity, fix="")
    assert record.prompts == 32 and record.greedy_agreement == 1.0 and record.logit_difference_at_most <= 1e-3
    assert (record, 1.0) == (parity_of(project)[0], parity_of(project)[1].agreement)
    policy = load(folder, adapter=None, device="cpu", dtype="float32", quantization=None)
    assert not any("lora" in name for name, _ in policy.model.named_modules())
    tool.run(tmp_path, out=tmp_path / "again", run=project.root)
    assert digest_folder(tmp_path / "again") == digest_folder(folder)
    assert left_in(tmp_path) == {"again", "project"} and left_in(folder.parent) == {"merged"}
    assert any("logits at most" in line for line in said) and any("100.00%" in line for line in said)


def test_a_folder_with_other_content_stays_as_it_is(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(tool, "say", said.append)
    out = tmp_path / "out"
    out.mkdir()
    tool.run(project.root, out=out, run=None)
    tool.run(project.root, out=out, run=None)
    assert f"{out} is this very model already" in said
    config = out / "config.json"
    config.write_bytes(config.read_bytes() + b"\n")
    before = digest_folder(out)
    with pytest.raises(PackageError, match="other content"):
        tool.run(project.root, out=out, run=None)
    assert digest_folder(out) == before and left_in(tmp_path) == {"out", "project"}
    for name, make in (("file", lambda p: p.write_text("")), ("link", lambda p: p.symlink_to(out))):
        make(tmp_path / name)
        with pytest.raises(PackageError, match="no folder"):
            tool.run(project.root, out=tmp_path / name, run=None)


def test_a_merge_that_came_out_wrong_is_not_written(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = adapter_files.write_model

    def wrong(policy, folder, *, base):  # type: ignore[no-untyped-def]
        with torch.no_grad():
            policy.model.model.layers[0].mlp.down_proj.weight[0, 0] += 1.0
        real(policy, folder, base=base)

    monkeypatch.setattr(adapter_files, "write_model", wrong)
    with pytest.raises(PackageError, match="logits up to") as refused:
        tool.run(project.root, out=tmp_path / "out", run=None)
    assert "within 0.001" in refused.value.expected and "max_logit_difference" in refused.value.fix
    assert left_in(tmp_path) == {"project"}


def test_a_base_or_an_adapter_that_was_not_trained_here_is_refused(project: Project, tmp_path: Path) -> None:
    other = small_run(tmp_path / "other")
    shutil.rmtree(other.root / "models/base")
    base_folder(other.root / "models/base", other, seed=1)
    config = project.root / "models/adapter/adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"lora_alpha": 33}))
    for each in (project, other):
        with pytest.raises(PackageError, match="the base and the adapter of the training"):
            tool.run(each.root, out=tmp_path / "out", run=None)
        with pytest.raises(PackageError, match="the base and the adapter of the training"):
            parity_of(each)
    shutil.rmtree(project.root / "models/adapter")
    with pytest.raises(AssayError):
        tool.run(project.root, out=tmp_path / "out", run=None)
    assert not (tmp_path / "out").exists()


def test_an_adapter_of_a_stranger_that_would_run_code_is_not_opened(project: Project, tmp_path: Path) -> None:
    config = project.root / "models/adapter/adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"megatron_config": {"module": "os"}}))
    with pytest.raises(AssayError, match="a plain LoRA"):
        tool.run(tmp_path, out=tmp_path / "out", run=project.root)
