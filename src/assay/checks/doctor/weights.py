"""The model as it stands: weights that are numbers, a row for every token, and something for LoRA to
adapt."""

from __future__ import annotations

from typing import Any

import torch

from assay.checks.doctor.texts import Prompts
from assay.checks.findings import DoctorCheck, Finding, error_finding
from assay.core.config.places import setting
from assay.core.config.settings import Params
from assay.core.config.training import LoraSettings
from assay.core.counting import counted
from assay.rollout.policy.model import Policy
from assay.training.adapter import adapted_modules, finite, refused_targets


def weight_findings(
    policy: Policy, params: Params, rendered: Prompts, *, loaded: bool = True
) -> list[Finding]:
    """Return what is wrong with the base's weights, if they are loaded, and with what is to be adapted."""
    return [
        *([_finite(policy)] if loaded else []),
        _rows(policy, rendered),
        *lora_findings(policy.model, params),
    ]


def _finite(policy: Policy) -> Finding:
    check = DoctorCheck("base weights", "finite numbers", "the weights of the base (model.safetensors)")
    named = [(name, p) for name, p in policy.model.named_parameters() if p.is_floating_point()]
    if not finite(p for _, p in named):
        bad = [name for name, p in named if not torch.isfinite(p).all()]
        found = f"NaN or Inf in {counted(len(bad), 'tensors')} (first: {bad[0]})"
        return check.fault(found, "./run dvc repro base, or another base.model")
    return check.ok(counted(len(named), "tensors"))


def _rows(policy: Policy, rendered: Prompts) -> Finding:
    rows = int(policy.model.get_input_embeddings().weight.shape[0])
    used = max((max(ids) for ids in rendered.prompts if ids), default=0)
    largest = max(len(policy.tokenizer) - 1, used, policy.dialogue.eos_id, policy.pad_id)
    check = DoctorCheck(
        "embedding rows", "a row for every token id", "the tokenizer of the base and its embedding"
    )
    fix = "use the tokenizer that belongs to the base (base.model), or resize its embedding"
    return check.judge(f"ids up to {largest}, {rows} rows", fix, fault=largest >= rows)


def lora_findings(model: Any, params: Params) -> list[Finding]:
    """Return whether the LoRA targets name something that can be adapted, and whether the rank makes sense
    there."""
    found = _lora_findings(model, params.train.lora, "train.lora")
    if params.sft is not None and params.sft.lora is not None:
        told = _lora_findings(model, params.sft.lora, "base.warm_start.lora")
        found += [each.model_copy(update={"check": f"{each.check} of SFT"}) for each in told]
    return found


def _lora_findings(model: Any, lora: LoraSettings, name: str) -> list[Finding]:
    named = "names of inner linear modules of the base"
    targets = DoctorCheck("LoRA targets", named, setting(f"{name}.target_modules"))
    if (refusal := refused_targets(model, lora.target_modules)) is not None:
        return [error_finding("LoRA targets", refusal).model_copy(update={"where": targets.where})]
    adapted = adapted_modules(model, lora.target_modules)
    smallest = min(min(columns, rows) for _, columns, rows in adapted)
    expected = f"at most {smallest}, the smallest side of what is adapted"
    found, fix = f"{lora.r}: more than full rank", f"{name}.r: {max(1, smallest // 4)}"
    rank = DoctorCheck("LoRA rank", expected, setting(f"{name}.r"))
    return [
        targets.ok(f"{len(adapted)} modules"),
        rank.judge(found, fix, doubtful=lora.r > smallest, ok=str(lora.r)),
    ]


def adapter_bytes(model: Any, params: Params) -> int:
    """Return the bytes of the adapter's weights in float32."""
    lora = params.train.lora
    return sum(
        4 * lora.r * (columns + rows) for _, columns, rows in adapted_modules(model, lora.target_modules)
    )
