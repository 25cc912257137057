"""The model as it stands: weights that are numbers, a row for every token, and something for LoRA to adapt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from assay.config.settings import Params
from assay.policy.model import Policy
from assay.training.digests import finite
from assay.training.doctor.findings import Check, Finding
from assay.training.doctor.lengths import Openings

Adapted = list[tuple[str, int, int]]  # name, columns in, rows out


def weight_findings(policy: Policy, params: Params, openings: Openings) -> list[Finding]:
    """Return what is wrong with the base's weights and with what is to be adapted."""
    return [_finite(policy), _rows(policy, openings), *lora_findings(policy.model, params)]


def _finite(policy: Policy) -> Finding:
    check = Check("base weights", "finite numbers", "the weights of the base (model.safetensors)")
    named = [(name, p) for name, p in policy.model.named_parameters() if p.is_floating_point()]
    if not finite(p for _, p in named):
        bad = [name for name, p in named if not torch.isfinite(p).all()]
        return check.fault(f"NaN or Inf in {len(bad)} tensors (first: {bad[0]})", "./run dvc repro base, or another base.model")
    return check.ok(f"{len(named)} tensors")


def _rows(policy: Policy, openings: Openings) -> Finding:
    rows = int(policy.model.get_input_embeddings().weight.shape[0])
    used = max((max(ids) for ids in openings.prompts if ids), default=0)
    largest = max(len(policy.tokenizer) - 1, used, policy.dialogue.eos_id, policy.pad_id)
    check = Check("embedding rows", "a row for every token id", "the tokenizer of the base and its embedding")
    if largest >= rows:
        fix = "use the tokenizer that belongs to the base (base.model), or resize its embedding"
        return check.fault(f"ids up to {largest}, {rows} rows", fix)
    return check.ok(f"ids up to {largest}, {rows} rows")


def lora_findings(model: Any, params: Params) -> list[Finding]:
    """Return whether the LoRA targets name something that can be adapted, and whether the rank makes sense there."""
    lora = params.train.lora
    where = "params.yaml, train.lora.target_modules"
    targets = Check("LoRA targets", "names of inner linear modules of the base", where)
    names = sorted({name.rsplit(".", 1)[-1] for name, _, _ in _linear(model, "all-linear")})
    fix = f"train.lora.target_modules: all-linear, or a choice of {', '.join(names)}"
    if lora.target_modules != "all-linear":
        ends = [each for each in lora.target_modules if _is_border(model, each)]
        if ends:
            found = f"{', '.join(ends)}: embedding or output layer, which is tied or not saved with an adapter"
            return [targets.fault(found, fix)]
        unmatched = [each for each in lora.target_modules if not _linear(model, [each])]
        if unmatched:
            return [targets.fault(f"{', '.join(unmatched)}, which the base does not have as a linear module", fix)]
    adapted = _linear(model, lora.target_modules)
    if not adapted:
        return [targets.fault("no linear module at all", fix)]
    smallest = min(min(columns, rows) for _, columns, rows in adapted)
    rank = Check("LoRA rank", f"at most {smallest}, the smallest side of what is adapted", "params.yaml, train.lora.r")
    return [
        targets.ok(f"{len(adapted)} modules"),
        rank.warning(f"{lora.r}: more than full rank", f"train.lora.r: {max(1, smallest // 4)}")
        if lora.r > smallest
        else rank.ok(str(lora.r)),
    ]  # fmt: skip


def adapter_bytes(model: Any, params: Params) -> int:
    """Return the bytes of the adapter's weights in float32."""
    lora = params.train.lora
    return sum(4 * lora.r * (columns + rows) for _, columns, rows in _linear(model, lora.target_modules))


def _matching(model: Any, target: str) -> list[str]:
    """Return the names of the modules that peft takes a target for."""
    return [name for name, _ in model.named_modules() if name == target or name.endswith(f".{target}")]


def _is_border(model: Any, target: str) -> bool:
    border = {id(model.get_input_embeddings()), id(model.get_output_embeddings())}
    return any(id(model.get_submodule(name)) in border for name in _matching(model, target))


def _linear(model: Any, targets: Sequence[str]) -> Adapted:
    """Return the linear modules that are adapted; quantised ones and GPT-2's transposed ones count."""
    border = {id(model.get_input_embeddings()), id(model.get_output_embeddings())}
    found = []
    for name, module in model.named_modules():
        sides = (getattr(module, "in_features", None), getattr(module, "out_features", None))
        if sides == (None, None) and hasattr(module, "nf"):
            sides = (int(module.weight.shape[0]), int(module.nf))
        wanted = targets == "all-linear" or any(name == each or name.endswith(f".{each}") for each in targets)
        if wanted and id(module) not in border and isinstance(sides[0], int) and isinstance(sides[1], int):
            found.append((name, sides[0], sides[1]))
    return found
