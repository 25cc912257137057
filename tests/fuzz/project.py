"""The project that is damaged: a whole small run with everything a command may read, small enough to be
copied for each trial.

python -m tests.fuzz.project FOLDER     builds it, in a process of its own
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from assay.cli import main
from assay.core.config.composition import Selection, compose, use
from assay.core.evidence_files import place_of
from assay.core.storage.json import write_json
from assay.pipeline.project import Project
from tests.few_presets import leave_few
from tests.house import ROOT
from tests.own_data import write_sums
from tests.verification.made_lock import lock
from tests.verification.made_run import PARITY
from tests.verification.small_run import SHAPE, WARM_START, base_folder

TAKEN = ("constraints.txt", "requirements.txt", "pyproject.toml", "LICENSE", "dvc.yaml")
LINES = {"train": 24, "validation": 8, "heldout": 8, "heldout_ood": 4, "traps": 4}
PRESET, PRETRAINED = "fuzz", "fuzz_pretrained"
CHANGES: dict[str, Any] = {
    "base.architecture": SHAPE,
    "base.warm_start": WARM_START,
    "generation": {"batch_size": 4},
    "evaluation": {"items": 4, "draws": 2},
    "validation": {"items": 3, "draws": 2, "interval": 1},
    "claim": {"checkpoint_rule": "last", "controls": ["aa"]},
    "health": {"preflight": False},
    "distributed": {"processes": 1},
    "train": {
        "steps": 2,
        "items_per_step": 2,
        "group_size": 4,
        "micro_batch_size": 8,
        "kl_probe_episodes": 2,
        "warmup_steps": 0,
    },
    "checkpoint": {"every": 1, "keep": 2},
}
OWN_BASE = {
    "kind": "pretrained",
    "model": "own-base",
    "revision": None,
    "dtype": "float32",
    "quantization": None,
    "template": {},
}
STAGES = ("fingerprint", "pre-eval", "train", "control", "post-eval", "render-evidence")
TAR = "dist/assay-package.tar"


def build(root: Path) -> None:
    """Write the project into a new folder: data, a base that hardly speaks, a training with its checkpoints,
    a package."""
    root.mkdir(parents=True)
    for name in TAKEN:
        shutil.copy(ROOT / name, root)
    for name in ("src", "tasks"):
        (root / name).symlink_to(ROOT / name)
    _data(root)
    _presets(root)
    project = Project.open(root)
    os.chdir(root)
    base_folder(root / "models/base", project)
    shutil.copytree(root / "models/base", root / "own-base")
    _called("fingerprint")
    _base_facts(root)
    for stage in STAGES[1:]:
        _called(stage)
    lock(project)
    _package(root)


def _data(root: Path) -> None:
    for task in ("collider", "structured"):
        shutil.copytree(ROOT / "data" / task, root / "data" / task)
        for path in (root / "data" / task).glob("*.jsonl"):
            lines = path.read_bytes().split(b"\n")[: LINES[path.stem]]
            path.write_bytes(b"\n".join(lines) + b"\n")
        write_sums(root / "data" / task)


def _presets(root: Path) -> None:
    shutil.copytree(ROOT / "configs", root / "configs")
    values = OmegaConf.load(root / "configs/grpo/tiny.yaml")
    for section, changes in CHANGES.items():
        OmegaConf.update(values, section, changes)
    _preset(root, PRESET, values)
    values["base"] = OWN_BASE
    values["generation"]["surface"] = "json"
    _preset(root, PRETRAINED, values)
    leave_few(root, (PRESET, PRETRAINED, "tiny"))
    use(root, grpo=PRESET, task="collider", seed=0)
    for name, task in ((PRESET, "structured"), (PRETRAINED, "collider")):
        (root / f"{name}-{task}.yaml").write_text(
            compose(root, Selection(name, task, 0)).text, encoding="utf-8"
        )


def _preset(root: Path, name: str, values: Any) -> None:
    (root / f"configs/grpo/{name}.yaml").write_text(
        f"# @package _global_\n{OmegaConf.to_yaml(values)}", encoding="utf-8"
    )


def _base_facts(root: Path) -> None:
    from assay.rollout.policy.digests import digest_folder

    facts = {"kind": "scratch", "seed": 0, "digest": digest_folder(root / "models/base")}
    write_json(root / place_of("base.json"), facts)


def _package(root: Path) -> None:
    from assay.rollout.policy.digests import adapted_digest, digest_folder
    from assay.stages.package import members_of
    from assay.stages.packing.archive import sealed, write_tar
    from assay.stages.packing.layout import NAME

    digest = adapted_digest(digest_folder(root / "models/base"), root / "models/adapter")
    members = sealed(members_of(Project.open(root), PARITY.model_copy(update={"policy_digest": digest})))
    (root / "dist").mkdir()
    write_tar(root / TAR, members, root=NAME)


def _called(*words: str) -> None:
    sys.argv = ["assay", *words]
    try:
        main()
    except SystemExit as error:
        assert not error.code, f"{words} ended with {error.code}"


def state(root: Path) -> str:
    """Return a digest over names, sizes and times of the files of a folder: it changes when one is
    written."""
    lines = [
        f"{path.relative_to(root).as_posix()} {found.st_size} {found.st_mtime_ns} {found.st_ino}\n"
        for path in sorted(root.rglob("*"))
        if (found := path.lstat()) and not path.is_dir()
    ]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


if __name__ == "__main__":
    build(Path(sys.argv[1]).absolute())
