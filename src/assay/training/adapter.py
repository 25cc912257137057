"""The LoRA adapter that is trained: attached in float32, copied, written as peft reads it; and one digest for
each link of an optimizer step."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save

from assay.core.config.places import setting
from assay.core.config.settings import Params
from assay.core.errors import ConfigError, TrainingError
from assay.core.records import HealthRule, HonestFacts, HonestPlay
from assay.core.seeds import derive_seed
from assay.core.storage.files import write_folder
from assay.rollout.evaluation.rollout import Lost, Rollout
from assay.rollout.policy.model import Policy
from assay.training.flat import always_read_flat

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class TrainedAdapter:
    """The outcome of a training: the chosen step, its adapter and configuration, and the alarms that were
    never measured."""

    chosen_step: int
    adapter: Tensors
    adapter_config: dict[str, Any]
    unmeasured: tuple[HealthRule, ...] = ()
    honest: HonestFacts | None = None
    play: HonestPlay | None = None


def attach_adapter(policy: Policy, params: Params) -> Policy:
    """Return the policy with a fresh LoRA adapter in float32; base weights are frozen.

    The adapter starts as the identity (B = 0) and its A matrices are a function of the training seed. Where
    `generation.backend` is lean, it learns by layers of our own too.
    """
    from peft import LoraConfig, get_peft_model

    lora = params.train.lora
    if (refusal := refused_targets(policy.model, lora.target_modules)) is not None:
        raise refusal
    names = _kinds(policy.model)  # before peft puts its own among them
    torch.manual_seed(derive_seed("adapter", params.seed))
    config = LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=lora.target_modules,
        task_type="CAUSAL_LM",
    )
    try:
        model = get_peft_model(policy.model, config)
    except ValueError as error:
        raise _no_targets(names, str(error).split("\n")[0]) from None
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    if params.generation.backend == "lean":
        always_read_flat(model.get_base_model())
    return Policy(model, policy.tokenizer, policy.dialogue, policy.digest)


def adapted_modules(model: Any, targets: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the linear modules that LoRA's targets name: name, columns in, rows out.

    Quantised ones and GPT-2's transposed ones count; the words' matrices at both ends do not.
    """
    found = []
    for name, module in model.named_modules():
        sides = (getattr(module, "in_features", None), getattr(module, "out_features", None))
        if sides == (None, None) and hasattr(module, "nf"):
            sides = (int(module.weight.shape[0]), int(module.nf))
        wanted = targets == "all-linear" or any(name == each or name.endswith(f".{each}") for each in targets)
        if (
            wanted
            and not _turns_words(model, module)
            and isinstance(sides[0], int)
            and isinstance(sides[1], int)
        ):
            found.append((name, sides[0], sides[1]))
    return found


def refused_targets(model: Any, targets: Sequence[str]) -> ConfigError | None:
    """Return what is wrong with LoRA's targets, None if nothing is.

    peft says nothing of a name that no module has as long as another name matches: an adapter would miss a
    part that was asked for. And it takes the words' matrices, where the learning pass does not see it.
    """
    kinds = _kinds(model)
    if not kinds:
        return _no_targets(kinds, "no linear module at all")
    if targets == "all-linear":
        return None
    words = {name for name, module in model.named_modules() if _turns_words(model, module)}
    if ends := [each for each in targets if any(name == each or name.endswith(f".{each}") for name in words)]:
        return _no_targets(
            kinds, f"{', '.join(ends)}, which turns words into numbers or back and stays as it is"
        )
    if unknown := [each for each in targets if not adapted_modules(model, [each])]:
        return _no_targets(kinds, f"no linear module named {', '.join(unknown)}")
    return None


def _turns_words(model: Any, module: Any) -> bool:
    return any(module is each for each in (model.get_input_embeddings(), model.get_output_embeddings()))


def _kinds(model: Any) -> list[str]:
    return sorted({name.rsplit(".", 1)[-1] for name, _, _ in adapted_modules(model, "all-linear")})


def _no_targets(names: list[str], found: str) -> ConfigError:
    fix = f"all-linear, or names among {', '.join(names)}" if names else "all-linear"
    return ConfigError(
        "names of inner linear modules of the base",
        found=found,
        where=setting("train.lora.target_modules"),
        fix=fix,
    )


def adapter_tensors(policy: Policy) -> Tensors:
    """Return a copy of the adapter's weights on the CPU."""
    from peft import get_peft_model_state_dict

    # Left to itself, peft looks for the base on the hub, to see whether its vocabulary has changed.
    found = get_peft_model_state_dict(policy.model, save_embedding_layers=False)
    return {name: t.detach().cpu().clone().contiguous() for name, t in found.items()}


def adapter_config(policy: Policy) -> dict[str, Any]:
    """Return the adapter's configuration with sets sorted, so that equal runs write equal bytes."""
    config = policy.model.peft_config["default"].to_dict()
    plain = {name: sorted(value) if isinstance(value, set) else value for name, value in config.items()}
    plain["inference_mode"] = True
    plain["base_model_name_or_path"] = "models/base"  # peft would write the absolute path of this machine
    decoded: dict[str, Any] = json.loads(json.dumps(plain, sort_keys=True, default=str))
    return decoded


def save_adapter(folder: Path, trained: TrainedAdapter) -> None:
    """Write an adapter folder that peft reads, whole or not at all.

    Raises:
        TrainingError: A weight is not finite; nothing is written.
    """
    for name, tensor in trained.adapter.items():
        if not torch.isfinite(tensor).all():
            raise TrainingError(
                "finite weights", found=f"NaN or Inf in {name}", where="adapter", fix="train again"
            )
    files = {
        "adapter_model.safetensors": save(trained.adapter, metadata={"format": "pt"}),
        "adapter_config.json": (json.dumps(trained.adapter_config, indent=2, sort_keys=True) + "\n").encode(),
    }
    write_folder(folder, files, check=lambda _: None)


def tensors_digest(tensors: Iterable[tuple[str, torch.Tensor | None]]) -> str:
    """Return the sha256 over names, types, shapes and bits of tensors, in the order given; None is said to be
    missing."""
    digest = hashlib.sha256()
    for name, tensor in tensors:
        if tensor is None:
            digest.update(f"{name}\0missing\n".encode())
            continue
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name}\0{plain.dtype}\0{tuple(plain.shape)}\n".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def trainable(model: Any) -> list[tuple[str, torch.nn.Parameter]]:
    """Return the parameters that are trained, by name."""
    return sorted((name, p) for name, p in model.named_parameters() if p.requires_grad)


def finite(tensors: Iterable[torch.Tensor]) -> bool:
    """Return whether no element anywhere is NaN or Inf; looked up on the device once for all of them."""
    flags = [torch.isfinite(tensor).all() for tensor in tensors]
    return not flags or bool(torch.stack(flags).all())


def rollout_links(rollouts: Sequence[Rollout | Lost]) -> dict[str, str]:
    """Return the digests of prompts, completions and rewards of a step's episodes."""
    prompts, completions, rewards = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
    for each in rollouts:
        prompts.update(_numbers(each.prompt_ids, np.int64))
        completions.update(_numbers(each.completion_ids, np.int64) + _numbers(each.mask, np.int64))
        completions.update(_numbers(each.logprobs, np.float64))
        earned = (
            [float("nan")] if isinstance(each, Lost) else [each.episode.reward, *each.episode.parts.values()]
        )
        rewards.update(_numbers(earned, np.float64))
    return {
        "prompts": prompts.hexdigest(),
        "completions": completions.hexdigest(),
        "rewards": rewards.hexdigest(),
    }


def _numbers(values: Sequence[float], kind: type) -> bytes:
    array: np.ndarray[Any, Any] = np.asarray(values, kind)
    return len(array).to_bytes(8, "big") + array.tobytes()
