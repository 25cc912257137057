"""What a user sees when something is wrong: one message, what was expected, where, how to fix it; nothing
lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.house import ROOT


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what the first stage needs."""
    for name in ("configs", "data"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    return tmp_path


def assay(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "DVC_EXP_BASELINE_REV"}
    environment["PYTHONPATH"] = str(ROOT / "src")
    return subprocess.run(
        [sys.executable, "-m", "assay.cli", *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "Fix: " in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_untouched_data_pass_and_name_their_splits(project: Path) -> None:
    done = assay(project, "fingerprint")
    assert done.returncode == 0, done.stderr
    assert "heldout 512" in done.stdout
    assert (project / "evidence/results/data/fingerprint.json").is_file()


def test_one_changed_byte_in_the_data_is_found_and_named(project: Path) -> None:
    path = project / "data/collider/heldout.jsonl"
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(bytes(content))
    refused(assay(project, "fingerprint"), "data/collider/heldout.jsonl", "git checkout")
    assert not (project / "evidence").exists()


def test_a_missing_data_file_is_named(project: Path) -> None:
    (project / "data/collider/train.jsonl").unlink()
    refused(assay(project, "fingerprint"), "train.jsonl", "no such file")


def test_an_unlisted_data_file_is_named(project: Path) -> None:
    (project / "data/collider/extra.jsonl").write_text("{}\n")
    refused(assay(project, "fingerprint"), "extra.jsonl", "SHA256SUMS")


def test_unreadable_params_are_named_with_line_and_column(project: Path) -> None:
    (project / "params.yaml").write_text("version: 1\nseed: [\n", encoding="utf-8")
    refused(assay(project, "fingerprint"), "params.yaml", "line")


def test_missing_params_say_how_to_make_them(project: Path) -> None:
    (project / "params.yaml").unlink()
    refused(assay(project, "fingerprint"), "params.yaml", "assay config use")


@pytest.mark.long
def test_an_edited_params_file_is_not_silently_used(project: Path) -> None:
    edited(project / "params.yaml", "seed: 0", "seed: 5")
    refused(assay(project, "fingerprint"), "seed", "configs/")


def test_an_unknown_preset_lists_the_known_ones(project: Path) -> None:
    before = (project / "params.yaml").read_bytes()
    refused(assay(project, "config", "use", "grpo=tini"), "tiny")
    assert (project / "params.yaml").read_bytes() == before


def test_a_mistyped_value_names_its_place(project: Path) -> None:
    edited(project / "configs/grpo/tiny.yaml", "steps: 100", "steps: many")
    refused(assay(project, "config", "use"), "train.steps", "many")


def test_an_unknown_setting_names_the_nearest_key(project: Path) -> None:
    edited(project / "configs/grpo/tiny.yaml", "group_size: 8", "group_size: 8\n  groupsize: 8")
    refused(assay(project, "config", "use"), "groupsize", "group_size")


@pytest.mark.long
@pytest.mark.skipif(torch.cuda.is_available(), reason="the machine has what this test needs to be missing")
def test_a_cuda_preset_is_refused_on_a_machine_without_cuda(project: Path) -> None:
    edited(project / "configs/grpo/tiny.yaml", "device: cpu", "device: cuda")
    assert assay(project, "config", "use").returncode == 0
    assert assay(project, "fingerprint").returncode == 0
    refused(assay(project, "base"), "CUDA", "grpo=tiny")
