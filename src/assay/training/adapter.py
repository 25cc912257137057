"""The LoRA adapter that is trained: attached in float32, copied, and written as peft reads it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from assay.config.settings import Params
from assay.errors import ConfigError, TrainingError
from assay.policy.model import Policy
from assay.records import HealthRule
from assay.seeds import derive_seed
from assay.storage.folders import write_folder

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Trained:
    """The outcome of a training: the chosen step, its adapter and configuration, and the alarms that were never measured."""

    chosen_step: int
    adapter: Tensors
    adapter_config: dict[str, Any]
    unmeasured: tuple[HealthRule, ...] = ()


def attach_adapter(policy: Policy, params: Params) -> Policy:
    """Return the policy with a fresh LoRA adapter in float32; base weights are frozen.

    The adapter starts as the identity (B = 0) and its A matrices are a function of the training seed.
    """
    from peft import LoraConfig, get_peft_model

    lora = params.train.lora
    torch.manual_seed(derive_seed("adapter", params.seed))
    config = LoraConfig(
        r=lora.r, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=lora.target_modules,
        task_type="CAUSAL_LM",
    )  # fmt: skip
    try:
        model = get_peft_model(policy.model, config)
    except ValueError as error:
        found = str(error).split("\n")[0]
        fix = "name modules the base has, or all-linear"
        raise ConfigError("modules to adapt", found=found, where="params.yaml, train.lora.target_modules", fix=fix) from None
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return Policy(model, policy.tokenizer, policy.dialogue, policy.digest)


def adapter_tensors(policy: Policy) -> Tensors:
    """Return a copy of the adapter's weights on the CPU."""
    from peft import get_peft_model_state_dict

    return {name: t.detach().cpu().clone().contiguous() for name, t in get_peft_model_state_dict(policy.model).items()}


def adapter_config(policy: Policy) -> dict[str, Any]:
    """Return the adapter's configuration with sets sorted, so that equal runs write equal bytes."""
    config = policy.model.peft_config["default"].to_dict()
    plain = {name: sorted(value) if isinstance(value, set) else value for name, value in config.items()}
    plain["inference_mode"] = True
    plain["base_model_name_or_path"] = "models/base"  # peft would write the absolute path of this machine
    decoded: dict[str, Any] = json.loads(json.dumps(plain, sort_keys=True, default=str))
    return decoded


def save_adapter(folder: Path, trained: Trained) -> None:
    """Write an adapter folder that peft reads, whole or not at all.

    Raises:
        TrainingError: A weight is not finite; nothing is written.
    """
    for name, tensor in trained.adapter.items():
        if not torch.isfinite(tensor).all():
            raise TrainingError("finite weights", found=f"NaN or Inf in {name}", where="adapter", fix="train again")
    files = {
        "adapter_model.safetensors": save(trained.adapter, metadata={"format": "pt"}),
        "adapter_config.json": (json.dumps(trained.adapter_config, indent=2, sort_keys=True) + "\n").encode(),
    }
    write_folder(folder, files, check=lambda _: None)
