"""A LoRA adapter that somebody else may have written: looked at before anything is done with it, such as
being merged into its base."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors

from assay.core.decoding import Decoding
from assay.core.errors import PolicyError
from assay.core.storage.files import sync_folder
from assay.core.storage.json import loads
from assay.core.storage.untrusted import inside, read_capped
from assay.rollout.policy.backends.select import converse
from assay.rollout.policy.base.model_files import refuse_odd_files, refuse_unreadable
from assay.rollout.policy.digests import adapted_digest
from assay.rollout.policy.model import Policy, evaluating, load

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
MAX_CONFIG_BYTES, MAX_WEIGHTS_BYTES = 4_000_000, 16_000_000_000
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
# What a LoRA is made of. Anything else that is set would import a module by its name, change the base itself,
# or ask for data that a folder does not hold.
_MEANT = frozenset(
    {
        "alpha_pattern",
        "auto_mapping",
        "base_model_name_or_path",
        "bias",
        "exclude_modules",
        "fan_in_fan_out",
        "inference_mode",
        "init_lora_weights",
        "layers_pattern",
        "layers_to_transform",
        "lora_alpha",
        "lora_bias",
        "lora_dropout",
        "megatron_core",
        "modules_to_save",
        "peft_type",
        "peft_version",
        "qalora_group_size",
        "r",
        "rank_pattern",
        "revision",
        "runtime_config",
        "target_modules",
        "task_type",
        "trainable_token_indices",
        "use_dora",
        "use_rslora",
    }
)
_STARTS = (True, False, "gaussian", "orthogonal")  # ways to begin that leave the base as it was


@dataclass(frozen=True, slots=True)
class AdapterFiles:
    """The two files of an adapter as bytes, and the base it names. The weights are not looked at yet."""

    config: bytes
    weights: bytes
    base_name: str | None

    def named(self) -> dict[str, bytes]:
        """Return name → content, as a folder holds them."""
        return {CONFIG: self.config, WEIGHTS: self.weights}


def read_adapter(folder: Path, root: Path) -> AdapterFiles:
    """Return the files of an adapter folder.

    Args:
        folder: Where they lie.
        root: Links may lead anywhere in here (a hub cache is made of them), and not out of it.

    Raises:
        DataError: A file is missing, no regular one, too large, or a link that leads out of the root.
        PolicyError: The configuration is of no LoRA adapter that can be played; says why.
    """
    contents = []
    for file, most in ((CONFIG, MAX_CONFIG_BYTES), (WEIGHTS, MAX_WEIGHTS_BYTES)):
        fix = (
            f"save it with save_pretrained, so that {file} is there"
            " (an adapter_model.bin is a pickle, not read)"
        )
        path = inside(folder.absolute() / file, [root.absolute()], where=str(folder / file), fix=fix)
        contents.append(read_capped(path, max_bytes=most, fix=fix))
    base_name = _checked_config(contents[0], str(folder / CONFIG))
    return AdapterFiles(contents[0], contents[1], base_name)


def _checked_config(content: bytes, where: str) -> str | None:
    fix = "save the adapter again with peft's save_pretrained"
    config: Any = loads(content.decode("utf-8", "replace"), where=where, fix=fix)
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        found = repr(config.get("peft_type") if isinstance(config, dict) else config)[:60]
        raise PolicyError(
            "an adapter of peft_type LORA", found=found, where=where, fix="bring a LoRA adapter"
        )
    odd = sorted(
        name
        for name, value in config.items()
        if name not in _MEANT and value not in (None, False, [], {}, "", 0)
    )
    if odd:
        raise PolicyError(
            "a plain LoRA", found=f"{', '.join(odd)[:80]} set", where=where, fix="convert it to a plain LoRA"
        )
    start = config.get("init_lora_weights", True)
    if not any(start is each or (isinstance(each, str) and start == each) for each in _STARTS):
        found = f"init_lora_weights: {str(start)[:40]!r}, which changes the base"
        raise PolicyError(
            "an adapter on the base as it is", found=found, where=where, fix="convert it to a plain LoRA"
        )
    name = config.get("base_model_name_or_path")
    return name if isinstance(name, str) and name else None


def checked_tensors(content: bytes, where: str) -> dict[str, torch.Tensor]:
    """Return the tensors of a safetensors file, all of them floats and finite.

    Raises:
        PolicyError: It is damaged, empty, of another type, or holds NaN or Inf.
    """
    fix = "save the adapter again, or leave this checkpoint out"
    try:
        tensors = load_tensors(content)
    except (
        SafetensorError,
        ValueError,
        RuntimeError,
        KeyError,
    ) as error:  # a type that torch has no name for is a KeyError
        found = str(error).split("\n")[0][:120]
        raise PolicyError("a safetensors file", found=found, where=where, fix=fix) from None
    if not tensors:
        raise PolicyError("weights", found="none", where=where, fix=fix)
    for name, tensor in tensors.items():
        if tensor.dtype not in FLOATS:
            found = f"{tensor.dtype} in {name[:80]}"
            raise PolicyError("float32, bfloat16 or float16", found=found, where=where, fix=fix)
        if not torch.isfinite(tensor).all():
            raise PolicyError("finite weights", found=f"NaN or Inf in {name[:80]}", where=where, fix=fix)
    return tensors


def check_fits(model: Any, files: AdapterFiles, where: str) -> None:
    """Refuse an adapter of another base, or whose weights are not those that its configuration promises.

    An outline of the base without any numbers gets such an adapter; names and shapes have to be the same.

    Args:
        model: The base, whose configuration alone is looked at.
        files: Of the adapter.
        where: Who they are, for messages.

    Raises:
        PolicyError: They do not fit, or are damaged.
    """
    from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
    from transformers import AutoModelForCausalLM

    tensors = checked_tensors(files.weights, where)
    fix = (
        "bring it to the project with the base it was trained on, or save configuration and weights again"
        " together"
    )
    known = {each.name for each in dataclasses.fields(LoraConfig)}
    settings = {name: value for name, value in json.loads(files.config).items() if name in known}
    with torch.device("meta"):
        outline = AutoModelForCausalLM.from_config(model.config)  # type: ignore[no-untyped-call]
    try:
        # No name of a base: peft would look for it on the network.
        config = LoraConfig(**settings | {"base_model_name_or_path": None, "revision": None})
        with torch.device("meta"):
            adapted = get_peft_model(outline, config)
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        found = str(error).split("\n")[0][:160]
        raise PolicyError("an adapter of this base", found=found, where=where, fix=fix) from None
    promised = get_peft_model_state_dict(adapted, save_embedding_layers=False)
    expected = {name: tuple(tensor.shape) for name, tensor in promised.items()}
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    odd = sorted({*expected.items()} ^ {*shapes.items()})
    if odd:
        name = odd[0][0]
        told = (
            f"{shapes.get(name, 'nothing')} where this base takes {expected.get(name, 'nothing')}:"
            f" {name[:120]}"
        )
        raise PolicyError("an adapter of this base", found=told, where=where, fix=fix)


FIX = "./run dvc repro base train"


@dataclass(frozen=True, slots=True)
class Weights:
    """Where a base and an adapter lie, and how a base is loaded; the fields are the arguments of `load`."""

    base: Path
    adapter: Path
    device: str
    dtype: str
    quantization: str | None
    template: Mapping[str, bool | int | str] = field(default_factory=dict)

    def policy(self) -> Policy:
        """Return the base under its adapter, as the pipeline plays it."""
        return self.load(self.base, self.adapter, self.quantization)

    def load(self, base: Path, adapter: Path | None, quantization: str | None) -> Policy:
        """Return another model in this one's place, on the same device, spoken to in the same way."""
        return load(
            base,
            adapter=adapter,
            device=self.device,
            dtype=self.dtype,
            quantization=quantization,
            template=self.template,
        )


def merge(weights: Weights) -> Policy:
    """Return base and adapter as one model without an adapter.

    A 4-bit base is first turned into weights of the compute dtype, the very numbers its 4-bit layers compute
    with, since what is added to weights that stay 4-bit would be rounded to 4 bits as well. So the merged
    model is not 4-bit any more and takes the memory of a plain one. In bfloat16 each merged weight is rounded
    once.

    Raises:
        ConfigError: The device does not exist.
        PolicyError: Base or adapter cannot be read, do not fit each other, or give weights that are not
            finite.
    """
    if weights.adapter.is_dir():
        refuse_odd_files(weights.adapter)
    plain = weights.load(weights.base, None, weights.quantization)
    from peft import PeftModel

    with refuse_unreadable(
        "an adapter that merges", where=f"{weights.base.name} + {weights.adapter.name}", fix=FIX
    ):
        model = plain.model if weights.quantization is None else plain.model.dequantize()
        model = PeftModel.from_pretrained(model, str(weights.adapter)).merge_and_unload(safe_merge=True)
    own = adapted_digest(plain.digest, weights.adapter)
    return Policy(model, plain.tokenizer, plain.dialogue, own, plain.digest)


def write_model(policy: Policy, folder: Path, *, base: Path) -> None:
    """Write a model without an adapter as a folder that `from_pretrained` reads: safetensors, config,
    tokenizer.

    The tokenizer's files are those of the base, byte for byte: transformers would add how it was opened here.
    Equal weights give equal bytes with equal versions of transformers and safetensors.
    """
    policy.model.save_pretrained(folder)
    for name in {Path(path).name for path in policy.tokenizer.save_pretrained(folder)}:
        if (base / name).is_file():
            shutil.copyfile(base / name, folder / name)
    for path in sorted(folder.iterdir()):
        path.chmod(0o644)
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
    sync_folder(folder)


def greedy(
    policy: Policy, prompts: Sequence[Sequence[int]], decoding: Decoding, *, batch_size: int
) -> list[list[int]]:
    """Return the ids of one completion a prompt, played by the engine that plays everything else.

    Args:
        policy: Who writes.
        prompts: Token ids, up to where the policy starts to write.
        decoding: Temperature 0, and the limit of a completion in tokens.
        batch_size: Conversations held at once.
    """
    written: list[list[int]] = []
    with evaluating(policy.model):
        for start in range(0, len(prompts), batch_size):
            batch = prompts[start : start + batch_size]
            session = converse(policy, batch, [0] * len(batch), decoding)
            written += [completion.ids for completion in session.complete()]
    return written


def logits_of(policy: Policy, ids: Sequence[int]) -> torch.Tensor:
    """Return the logits of the next token at every place of a text, [len(ids), vocabulary], in the model's
    own dtype."""
    device = next(policy.model.parameters()).device
    with evaluating(policy.model):
        out = policy.model(input_ids=torch.tensor([list(ids)], device=device), use_cache=False)
    found: torch.Tensor = out.logits[0].detach().cpu().contiguous()
    return found
