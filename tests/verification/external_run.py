"""A made run whose adapter was brought: that of another made run, taken by the stage that takes it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from assay.core.config.training import ELSEWHERE
from assay.core.console import quietly
from assay.core.evidence_files import folder_of
from assay.core.storage.files import sha256_bytes
from assay.pipeline.external import take
from assay.pipeline.project import Project
from assay.rollout.dataset.external import read_training
from assay.rollout.policy.digests import listing_digest
from assay.stages import fingerprint, render_evidence
from assay.stages.post_eval import search_named
from tests.verification.made_lock import lock
from tests.verification.made_run import _after, made_run

NOTHING: Mapping[str, str | None] = {}
FOLDER, HOW = "elsewhere/adapter", "GRPO in a script of our own, <b>60</b> steps"


def brought(root: Path) -> str:
    """Return the sha256 of the adapter that lies elsewhere."""
    return listing_digest({path.name: path.read_bytes() for path in (root / FOLDER).iterdir()})


def settings(root: Path, train: dict[str, Any], **claim: Any) -> None:
    """Write settings whose training is external."""
    values = OmegaConf.load(root / "params.yaml")
    told = {"kind": "external", "folder": FOLDER, "how": HOW, "data": [], **train}
    OmegaConf.update(values, "train", told, merge=False)
    asked = {"checkpoint_rule": ELSEWHERE, "controls": ["aa"], "seeds": [0], **claim}
    for name, value in asked.items():
        OmegaConf.update(values, f"claim.{name}", value, merge=False)
    (root / "params.yaml").write_text(OmegaConf.to_yaml(values), encoding="utf-8")


def before_taking(
    folder: Path, *, task: str = "structured", named: Mapping[str, str | None] = NOTHING
) -> Project:
    """Write a run up to where an adapter is taken; `named` are files that it is said to have seen, with what
    is written into them, None for one that is there."""
    root = made_run(folder, task=task).root
    (root / FOLDER).parent.mkdir()
    (root / "models/adapter").rename(root / FOLDER)
    for name, text in named.items():
        if text is not None:
            (root / name).write_text(text, encoding="utf-8")
    data = [{"file": name, "sha256": sha256_bytes((root / name).read_bytes())} for name in named]
    settings(root, {"sha256": brought(root), "data": data})
    for stage in ("data", "post_eval", "control", "report"):
        shutil.rmtree(root / folder_of(stage))
    shutil.rmtree(root / ".scratch", ignore_errors=True)
    shutil.rmtree(root / "evidence/observed", ignore_errors=True)
    project = Project.open(root)
    with quietly():
        fingerprint.run(project)
    return project


def external_run(
    folder: Path,
    *,
    task: str = "structured",
    named: Mapping[str, str | None] = NOTHING,
    rendered: bool = True,
) -> Project:
    """Write a whole run; rendered, unless only what its claim is made of is looked at."""
    project = before_taking(folder, task=task, named=named)
    assert project.params.external is not None
    with quietly():
        take(project.root, project.inputs("train"), project.params.external)
        search_named(project, project.inputs("heldout", "secondary"))
        _after(project, read_training(project.results("train.json"), fix=""))
        if rendered:
            render_evidence.run(project)
    lock(project)
    return project
