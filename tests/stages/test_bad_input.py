"""What a user sees when something is wrong: one message, what was expected, where, how to fix it; nothing
lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.calling import assay, called, refused
from tests.few_presets import leave_few
from tests.house import ROOT

DATA, PRESET = "data/collider", "configs/grpo/tiny.yaml"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what the first stage needs."""
    for name in ("configs", "data"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    leave_few(tmp_path)
    return tmp_path


def edited(name: str, old: str, new: str) -> Callable[[Path], object]:
    def edit(root: Path) -> None:
        text = (root / name).read_text(encoding="utf-8")
        assert old in text
        (root / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    return edit


def without(name: str) -> Callable[[Path], object]:
    return lambda root: (root / name).unlink()


def written(name: str, text: str) -> Callable[[Path], object]:
    return lambda root: (root / name).write_text(text, encoding="utf-8")


FINGERPRINT, USE = ("fingerprint",), ("config", "use")
WRONG: dict[str, tuple[Callable[[Path], object], tuple[str, ...], tuple[str, ...]]] = {
    "a missing data file is named": (
        without(f"{DATA}/train.jsonl"),
        FINGERPRINT,
        ("train.jsonl", "no such file"),
    ),
    "an unlisted data file is named": (
        written(f"{DATA}/extra.jsonl", "{}\n"),
        FINGERPRINT,
        ("extra.jsonl", "SHA256SUMS"),
    ),
    "unreadable params are named with line and column": (
        written("params.yaml", "version: 1\nseed: [\n"),
        FINGERPRINT,
        ("params.yaml", "line"),
    ),
    "missing params say how to make them": (
        without("params.yaml"),
        FINGERPRINT,
        ("params.yaml", "assay config use"),
    ),
    "an edited params file is not silently used": (
        edited("params.yaml", "seed: 0", "seed: 5"),
        FINGERPRINT,
        ("seed", "configs/"),
    ),
    "an unknown preset lists the known ones": (lambda root: None, (*USE, "grpo=tini"), ("tiny",)),
    "a mistyped value names its place": (
        edited(PRESET, "steps: 100", "steps: many"),
        USE,
        ("train.steps", "many"),
    ),
    "an unknown setting names the nearest key": (
        edited(PRESET, "items_per_step: 32", "items_per_step: 32\n  groupsize: 8"),
        USE,
        ("groupsize", "group_size"),
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_refused_in_one_message_and_nothing_is_written(project: Path, what: str) -> None:
    change, command, words = WRONG[what]
    change(project)
    path = project / "params.yaml"
    before = path.read_bytes() if path.exists() else None
    refused(called(project, *command), *words)
    assert (path.read_bytes() if path.exists() else None) == before
    assert not (project / "evidence").exists()


def test_untouched_data_pass_and_name_their_splits(project: Path) -> None:
    done = called(project, "fingerprint")
    assert done.returncode == 0, done.stderr
    assert "heldout 512" in done.stdout
    assert (project / "evidence/results/data/fingerprint.json").is_file()


def test_one_changed_byte_in_the_data_is_found_and_named_by_the_command_of_a_person(project: Path) -> None:
    path = project / f"{DATA}/heldout.jsonl"
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(bytes(content))
    refused(assay(project, "fingerprint"), f"{DATA}/heldout.jsonl", "git checkout")
    assert not (project / "evidence").exists()


@pytest.mark.long
@pytest.mark.skipif(torch.cuda.is_available(), reason="the machine has what this test needs to be missing")
def test_a_cuda_preset_is_refused_on_a_machine_without_cuda(project: Path) -> None:
    edited(PRESET, "device: cpu", "device: cuda")(project)
    assert called(project, *USE).returncode == 0
    assert called(project, "fingerprint").returncode == 0
    refused(called(project, "base"), "CUDA", "grpo=tiny")
