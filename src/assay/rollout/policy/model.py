"""A model that completes text: loaded from a folder, with or without an adapter, identified by a digest; and
what makes its computations repeat bit by bit."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from assay.core.config.places import setting
from assay.core.console import complain
from assay.core.errors import ConfigError, PolicyError
from assay.rollout.policy.base.model_files import TOKENIZERS, own_code, refuse_odd_files, refuse_unreadable
from assay.rollout.policy.digests import adapted_digest, digest_folder
from assay.rollout.policy.engine.fused_lora import summed
from assay.rollout.policy.memory import keep_freed_memory
from assay.rollout.policy.products import choose_products
from assay.rollout.policy.renderer import Dialogue


@dataclass(frozen=True, slots=True)
class Policy:
    """A causal language model together with the way messages become its tokens."""

    model: Any
    tokenizer: PreTrainedTokenizerBase
    dialogue: Dialogue
    digest: str
    base_digest: str = ""  # of the base under its adapter; the same where there is none

    @property
    def pad_id(self) -> int:
        """A valid token id for masked places."""
        pad = self.tokenizer.pad_token_id
        return int(self.dialogue.eos_id if pad is None else pad)


def require_device(device: str) -> torch.device:
    """Return the torch device that the settings name, or refuse: there is no silent fall-back.

    Raises:
        ConfigError: The machine has no such device.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "a CUDA device (device: cuda)",
            found=f"none that torch {torch.__version__} can use",
            where=setting("device"),
            fix=(
                "run on a GPU box, choose a CPU preset (./run assay config use grpo=tiny), or set device: cpu"
                " in your preset"
            ),
        )
    return torch.device(device)


def _keep_gradients(model: Any) -> None:
    """Keep 4-bit layers on a CPU from packing their weights anew at the first forward pass in evaluation
    mode.

    On processors with AVX512-BF16 bitsandbytes 0.50 does so, and what is packed passes no gradient on: after
    a rollout only some of the adapters would learn.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False


def open_tokenizer(base: Path, template: Mapping[str, bool | int | str] | None) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a model folder, whose chat template was seen to serve; that takes no weights.

    Raises:
        PolicyError: The folder holds no readable tokenizer, a chat template that cannot be served, or names
            code of its own.
    """
    refuse_odd_files(base)
    if (name := own_code(base)) is not None:
        fix = "choose another base; code that comes with a model is never run"
        raise PolicyError(
            "a model without code of its own", found=f"auto_map in {name}", where=base.name, fix=fix
        )
    fix = "./run dvc repro base"
    # Transformers would make up an empty one of the model's kind
    if not any((base / name).is_file() for name in TOKENIZERS):
        raise PolicyError(
            "a readable tokenizer", found=f"none of {', '.join(TOKENIZERS)}", where=base.name, fix=fix
        )
    with refuse_unreadable("a readable tokenizer", where=base.name, fix=fix):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            base, local_files_only=True, trust_remote_code=False
        )
        Dialogue(tokenizer, template)
    return tokenizer


_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def load(
    base: Path,
    *,
    adapter: Path | None,
    device: str,
    dtype: str,
    quantization: str | None,
    template: Mapping[str, bool | int | str] | None = None,
    trainable: bool = False,
) -> Policy:
    """Load a base model from a local folder, and an adapter on top of it where one is given.

    Args:
        base: A folder that `from_pretrained` reads.
        adapter: A folder written by peft, or None.
        device: "cpu" or "cuda".
        dtype: "float32" or "bfloat16".
        quantization: "nf4" (4-bit NormalFloat with double quantisation) or None.
        template: What the chat template is given (`base.template`).
        trainable: Whether the adapter's weights should take gradients.

    Raises:
        ConfigError: The device does not exist.
        PolicyError: The folder holds no readable model or adapter, or a chat template that cannot be served.
    """
    target = require_device(device)
    # Of several processes each has its own, and some loaders take "cuda" for the first
    if target.type == "cuda":
        target = torch.device("cuda", torch.cuda.current_device())
    arguments: dict[str, Any] = {
        "dtype": _DTYPES[dtype],
        "local_files_only": True,
        "trust_remote_code": False,
    }
    if quantization is not None:
        from transformers import BitsAndBytesConfig

        arguments["quantization_config"] = BitsAndBytesConfig(  # type: ignore[no-untyped-call]
            load_in_4bit=True,
            bnb_4bit_quant_type=quantization,
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=_DTYPES[dtype],
        )
        arguments["device_map"] = {"": target}
    if not (base / "config.json").is_file():
        raise PolicyError(
            "a model folder with config.json", found="none", where=base.name, fix="./run dvc repro base"
        )
    tokenizer = open_tokenizer(base, template)
    where = base.name if adapter is None else f"{base.name} + {adapter.name}"
    if adapter is not None and adapter.is_dir():
        refuse_odd_files(adapter)
    with refuse_unreadable("a readable model", where=where, fix="./run dvc repro base train"):
        model, told = cast(Any, AutoModelForCausalLM).from_pretrained(
            base, output_loading_info=True, ignore_mismatched_sizes=True, **arguments
        )
        _refuse_made_up(told["missing_keys"], base.name)
        for name, there, asked in sorted(told["mismatched_keys"]):
            raise PolicyError(
                f"{name} of shape {list(asked)}, as config.json asks for",
                found=f"{list(there)}",
                where=base.name,
                fix="take its files again",
            )
        if told["unexpected_keys"]:
            n, first = len(told["unexpected_keys"]), min(told["unexpected_keys"])
            complain(f"{base.name}: {n} weights of its files are no part of the model (first: {first})")
        if quantization is None:
            model = model.to(target)
        elif target.type == "cpu":
            _keep_gradients(model)
        if adapter is not None:
            from peft import PeftModel

            model = PeftModel.from_pretrained(model, str(adapter), is_trainable=trainable)
        ends = getattr(model.generation_config, "eos_token_id", None)
        dialogue = Dialogue(tokenizer, template, ends)
        choose_products(model, target)
        _look_at(model, tokenizer, where)
    model.config.use_cache = True
    vars(model.config).pop("auto_map", None)  # of code that was not run, and is no part of what is saved
    of_base = digest_folder(base)
    own = of_base if adapter is None else adapted_digest(of_base, adapter)
    return Policy(model, tokenizer, dialogue, own, of_base)


NAMED = 3  # weights that a message names


def _refuse_made_up(missing: Collection[str], where: str) -> None:
    """Refuse weights that no file holds: transformers fills them with random numbers, others each time.

    Raises:
        PolicyError: Names some of them.
    """
    if missing:
        named = ", ".join(sorted(missing)[:NAMED])
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        raise PolicyError(
            "a weight for each parameter",
            found=f"none of {named}{more}, which would be made up",
            where=where,
            fix="take its files again",
        )


def _look_at(model: Any, tokenizer: PreTrainedTokenizerBase, where: str) -> None:
    """Let a model read one token, since a folder may be loaded and be of no use all the same.

    Raises:
        PolicyError: The tokenizer knows tokens that the model has no rows for, or what the model says are no
            numbers.
    """
    rows = int(model.get_input_embeddings().weight.shape[0])
    last = max(tokenizer.get_vocab().values(), default=0)
    if last >= rows:
        fix = "put model and tokenizer of one kind into the folder"
        raise PolicyError(
            f"at most {rows} tokens, as the model has rows", found=f"token {last}", where=where, fix=fix
        )
    training = model.training
    model.eval()
    with torch.no_grad():
        logits = model(
            input_ids=torch.tensor([[last]], device=model.get_input_embeddings().weight.device)
        ).logits
    model.train(training)
    if not torch.isfinite(logits).all():
        raise PolicyError(
            "a model that says numbers", found="NaN or Inf", where=where, fix="take its files again"
        )


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Switch dropout off and gradients off, and put the model's mode back afterwards."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


@contextmanager
def playing(model: torch.nn.Module, *, add: bool = True) -> Iterator[None]:
    """Do as `evaluating`, and compute with small adapters added to their weights (`summed`) unless `add` is
    False."""
    with evaluating(model), summed(model, add=add):
        yield


# cuBLAS repeats itself only with a fixed workspace, and reads this when CUDA is first used.
# Source: NVIDIA cuBLAS library documentation, "Results reproducibility".
CUBLAS_VARIABLE, CUBLAS_WORKSPACES = "CUBLAS_WORKSPACE_CONFIG", (":4096:8", ":16:8")


def pin(threads: int, *, deterministic: bool, device: str) -> None:
    """Fix the number of CPU threads and, where asked, every deterministic switch of this process; then verify
    them.

    Raises:
        ConfigError: A switch does not hold; names it.
    """
    keep_freed_memory()
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")  # until a model is loaded that is wide (`choose_products`)
    if deterministic and os.environ.get(CUBLAS_VARIABLE) not in CUBLAS_WORKSPACES:
        os.environ[CUBLAS_VARIABLE] = CUBLAS_WORKSPACES[0]
    torch.use_deterministic_algorithms(deterministic)
    # Torch would then fill all new memory with NaN, to show who reads it before writing: an aid in finding
    # faults, no part of repeating oneself, and 29 % of a tiny model's step.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.deterministic = deterministic
    torch.backends.cudnn.benchmark = False
    if deterministic:
        # TF32 would repeat itself too, but rounds differently from one GPU generation to the next.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    _verify(threads, deterministic, device)


def gpu_name(device: str) -> str | None:
    """Return what the GPU is called that this process computes on; None on a CPU, and where there is none."""
    return torch.cuda.get_device_name() if device == "cuda" and torch.cuda.is_available() else None


def _verify(threads: int, deterministic: bool, device: str) -> None:
    held = {"threads": torch.get_num_threads() == threads}
    if deterministic:
        held |= {
            "torch.use_deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
            "torch.backends.cudnn.deterministic": torch.backends.cudnn.deterministic,
            "torch.backends.cudnn.benchmark off": not torch.backends.cudnn.benchmark,
            CUBLAS_VARIABLE: os.environ.get(CUBLAS_VARIABLE) in CUBLAS_WORKSPACES,
        }
        held["a matrix product that repeats itself"] = _repeats(device)
    for name, holds in held.items():
        if not holds:
            raise ConfigError(
                f"{name} to hold (deterministic: {str(deterministic).lower()}, threads: {threads})",
                found="that it does not on this machine",
                where=setting("deterministic"),
                fix=(
                    "unset what sets it otherwise, or set deterministic: false in your preset: runs then"
                    " differ in last bits"
                ),
            )


def _repeats(device: str) -> bool:
    """Return whether a product with its gradient gives the same bits twice; reads no generator that training
    draws from."""
    left = torch.arange(96.0 * 96, device=device).reshape(96, 96).sin().requires_grad_()
    runs: list[list[torch.Tensor]] = []
    for _ in range(2):
        product = left @ left.T
        (gradient,) = torch.autograd.grad(product.square().sum(), left)
        runs.append([product.detach(), gradient])
    return all(torch.equal(one, other) for one, other in zip(*runs, strict=True))
