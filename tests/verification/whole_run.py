"""A small run in earnest whose trained policy was brought: everything of it is played by models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from assay.core.config.composition import Selection, compose
from assay.core.console import quietly
from assay.pipeline.external import brought_digest
from assay.pipeline.project import Project
from assay.rollout.policy.model import load
from assay.stages import base, control, fingerprint, post_eval, pre_eval, render_evidence, train
from tests.house import ROOT
from tests.own_data import keep_first
from tests.verification.external_run import settings
from tests.verification.made_run import RECORDS, take
from tests.verification.small_run import SHAPE, WARM_START

ADAPTER, WHOLE = "elsewhere/adapter", "elsewhere/whole"


def small_words(items: int) -> dict[str, Any]:
    """Return the settings of the task words with a base that is built in seconds."""
    values = json.loads(json.dumps(compose(ROOT, Selection("tiny", "words", 0)).values))
    values["base"]["architecture"] |= SHAPE
    values["base"]["warm_start"] |= WARM_START
    values["base"]["gates"] |= {"copy_accuracy": 0.0, "parsed_rate": 0.0}
    values["evaluation"] |= {"items": items}
    return values


def small_project(root: Path, *, items: int = 8) -> Project:
    """Write a project whose tiny base is there and measured."""
    take(root)
    values = small_words(items)
    (root / "params.yaml").write_text(json.dumps(values), encoding="utf-8")
    keep_first(root / values["dataset"]["root"], RECORDS)
    settings(root, {"sha256": "0" * 64})
    project = Project.open(root)
    with quietly():
        fingerprint.run(project)
        base.run(project)
        pre_eval.run(project)
    return project


def adapted(project: Project, *, scale: float = 0.05) -> Any:
    """Write elsewhere/adapter, a LoRA adapter that changes the base, and return the model under it."""
    from peft import LoraConfig, get_peft_model

    found = load(project.root / "models/base", adapter=None, device="cpu", dtype="float32", quantization=None)
    torch.manual_seed(0)
    lora = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(found.model, lora)
    for name, weights in model.named_parameters():
        if ".lora_B." in name:
            torch.nn.init.normal_(weights, std=scale)
    model.save_pretrained(str(project.root / ADAPTER))
    return model


def saved(project: Project, model: Any, name: str = WHOLE, **how: Any) -> Path:
    """Write a whole model beside the project's base, with the base's tokenizer."""
    folder = project.root / name
    model.save_pretrained(folder, **how)
    for each in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(project.root / "models/base" / each, folder)
    return folder


def played(project: Project, folder: str, **told: Any) -> Project:
    """Take what lies in a folder, and play it."""
    settings(project.root, {"folder": folder, "sha256": brought_digest(project.root / folder)[1], **told})
    found = Project.open(project.root)
    with quietly():
        for stage in (fingerprint, train, control, post_eval):
            stage.run(found)
    return found


def judged(project: Project, folder: str, **told: Any) -> Project:
    """Take what lies in a folder, and go on to the claim."""
    found = played(project, folder, **told)
    with quietly():
        render_evidence.run(found)
    return found
