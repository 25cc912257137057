"""A whole small run in a folder of its own, from data to both measurements, as an unpacked package would hold
it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from assay.core.config.composition import Selection, compose
from assay.core.config.settings import ScratchBase
from assay.core.storage.json import write_json
from assay.pipeline.project import Project
from assay.rollout.policy.base.warm_start import warm_started
from assay.rollout.policy.digests import digest_folder
from assay.stages import control, fingerprint, post_eval, pre_eval, train
from tests.house import ROOT
from tests.kept import kept
from tests.own_data import keep_first

# A base that is shown just enough of its task to be paid now and then.
SHAPE = {"hidden_size": 32, "intermediate_size": 64, "layers": 1, "heads": 2}
WARM_START = {
    "drill_pool": 50,
    "demonstration_pool": 100,
    "drills": {"steps": 2, "batch_size": 8, "learning_rate": 0.003},
    "demonstrations": {"steps": 60, "batch_size": 16, "learning_rate": 0.01},
}


def base_folder(folder: Path, project: Project, *, seed: int = 0) -> Path:
    """Write a Hugging Face model folder with such a base."""
    settings = project.params.base
    assert isinstance(settings, ScratchBase)
    policy = warm_started(settings.model_copy(update={"seed": seed}), project.task())
    policy.model.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
    return folder


def write_params(root: Path) -> None:
    """Write settings under which everything is over in seconds, and the adapter is the one of the last
    step."""
    values = json.loads(json.dumps(compose(ROOT, Selection("tiny", "collider", 0)).values))
    values["base"]["architecture"] |= SHAPE
    values["base"]["warm_start"] |= WARM_START
    values["generation"] |= {"batch_size": 4}
    values["evaluation"] |= {"items": 4, "draws": 4}
    values["validation"] |= {"items": 3, "draws": 2, "interval": 1}
    values["claim"] |= {"checkpoint_rule": "last", "controls": ["aa"]}
    values["health"] |= {"preflight": False}  # an untrained base: the doctor would refuse it
    values["distributed"] |= {"processes": 1}
    values["train"] |= {
        "steps": 2,
        "items_per_step": 2,
        "group_size": 4,
        "micro_batch_size": 8,
        "kl_probe_episodes": 2,
        "learning_rate": 0.005,
        "warmup_steps": 0,
    }
    (root / "params.yaml").write_text(json.dumps(values, indent=1), encoding="utf-8")


def _build(root: Path) -> None:
    shutil.copytree(ROOT / "data/collider", root / "data/collider")
    keep_first(root / "data/collider", 128)  # each stage and each check reads them
    shutil.copy(ROOT / "constraints.txt", root)
    write_params(root)
    project = Project.open(root)
    fingerprint.run(project)
    digest = digest_folder(base_folder(root / "models/base", project))
    write_json(project.results("base.json"), {"kind": "scratch", "seed": 0, "digest": digest})
    for stage in (pre_eval, train, control, post_eval):
        stage.run(project)
    shutil.rmtree(root / ".scratch", ignore_errors=True)
    (root / "SHA256SUMS").write_text("of a package\n")


def small_run(folder: Path) -> Project:
    """Return a copy of the run, to do with as a test likes."""
    if (known := kept("small run", _build)) is not None:
        shutil.copytree(known, folder)
    else:
        _build(folder)
    return Project.open(folder)
