"""A whole model that somebody else may have written: looked at, file by file and number by number, before it
is taken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from assay.core.errors import PolicyError
from assay.core.storage.untrusted import inside
from assay.rollout.policy.base.model_files import (
    CONFIG,
    WEIGHTS,
    faults,
    own_code,
    refuse_odd_files,
    refuse_unreadable,
)
from assay.rollout.policy.digests import describes, digest_folder, files_of_model

SAFE = WEIGHTS[:2]
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
FIX = "save the model again, whole, with save_pretrained"
_NAMED = 3


@dataclass(frozen=True, slots=True)
class WholeModel:
    """What a model folder is, as far as it can be told without computing with it."""

    digest: str
    architecture: str
    parameters: int


def look_at(folder: Path) -> WholeModel:
    """Return what a folder holds, all of whose numbers were read.

    Raises:
        DataError: A link leads out of the folder.
        PolicyError: No model can be loaded from it, part of it is missing, it holds weights as a pickle,
            brings code of its own, was quantised, or holds NaN.
    """
    where = folder.name
    refuse_odd_files(folder)
    for path in files_of_model(folder):
        inside(path, [folder], where=str(path), fix="put the file itself there")
    _refuse_other_forms(folder)
    if found := faults(folder):
        raise PolicyError("all files of a model", found="; ".join(found), where=where, fix=FIX)
    if (name := own_code(folder)) is not None:
        raise PolicyError(
            "a model that transformers has code for",
            found=f"auto_map in {name}: code of its own, which is not run",
            where=where,
            fix="where transformers knows this model by itself, remove auto_map in a copy of it",
        )
    config = json.loads((folder / CONFIG).read_bytes())
    if quantised := config.get("quantization_config"):
        method = quantised.get("quant_method") if isinstance(quantised, dict) else quantised
        raise PolicyError(
            "weights in float32, bfloat16 or float16",
            found=f"quantised ones ({str(method)[:40]})",
            where=f"{where}/{CONFIG}, quantization_config",
            fix="bring the weights they were made of; base.quantization says how both models are played",
        )
    for file in weight_files(folder):
        refuse_odd_numbers(file)
    architecture, parameters, missing = outline(folder)
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise PolicyError(
            "a weight for each parameter",
            found=f"none of {', '.join(missing[:_NAMED])}{more}, which would be made up",
            where=where,
            fix=FIX,
        )
    return WholeModel(digest_folder(folder), architecture, parameters)


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files that hold the weights of a folder without faults."""
    if (folder / SAFE[0]).is_file():
        return [folder / SAFE[0]]
    index = json.loads((folder / SAFE[1]).read_bytes())
    return [folder / name for name in sorted(set(index["weight_map"].values()))]


def same_weights(one: Path, other: Path) -> bool:
    """Return whether two folders hold the same numbers by the same names; stops at the first that differs."""
    numbers = [dict(_tensors(folder)) for folder in (one, other)]
    if numbers[0].keys() != numbers[1].keys():
        return False
    # In another precision they may still be the same
    return all(torch.equal(*(each[name]().float() for each in numbers)) for name in sorted(numbers[0]))


def _tensors(folder: Path) -> Iterator[tuple[str, Any]]:
    if not any((folder / name).is_file() for name in SAFE):
        return
    for file in weight_files(folder):
        with safe_open(file, framework="pt") as opened:
            names = list(opened.keys())
        yield from ((name, _reader(file, name)) for name in names)


def _reader(file: Path, name: str) -> Any:
    def read() -> torch.Tensor:
        with safe_open(file, framework="pt") as opened:
            found: torch.Tensor = opened.get_tensor(name)
        return found

    return read


# What lies where no safetensors do, and what makes a model of it. Source: the documentation of verl ("Convert
# FSDP and Megatron checkpoints to HuggingFace format model"), DeepSpeed (zero_to_fp32.py) and Accelerate
# (merge-weights).
_OTHER_FORMS = (
    (
        "model_world_size_*.pt",
        "where it was made: python -m verl.model_merger merge --backend fsdp --local_dir .../actor"
        " --target_dir FOLDER",
    ),
    ("zero_to_fp32.py", "where it was made: python zero_to_fp32.py . FOLDER --safe_serialization"),
    ("pytorch_model_fsdp_*", "where it was made: accelerate merge-weights pytorch_model_fsdp_0 FOLDER"),
    ("*.gguf", "bring the safetensors that it was converted from"),
)
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def _refuse_other_forms(folder: Path) -> None:
    """Refuse weights in a form that is not read, and say what makes safetensors of them."""
    if any((folder / name).is_file() for name in SAFE):
        return
    places = (
        (folder, folder.parent) if folder.name == "huggingface" else (folder,)
    )  # verl keeps shards beside it
    again = "where it was made, load it and save_pretrained(FOLDER, safe_serialization=True)"
    for form, fix in (*_OTHER_FORMS, *((form, again) for form in _PICKLES)):
        for path in sorted(path for place in places for path in place.glob(form)):
            if path.is_dir() or not describes(Path(path.name)) or path.name == form:
                pickled = (
                    ""
                    if path.suffix in (".gguf", ".py") or path.is_dir()
                    else ", a pickle, which is not read"
                )
                found = f"none, and {path.name}{pickled}"
                raise PolicyError("weights as safetensors", found=found, where=folder.name, fix=fix)


def refuse_odd_numbers(file: Path) -> None:
    """Refuse weights that are no finite floats of at least 16 bits; each of them is read.

    Raises:
        PolicyError: Names the first tensor that is otherwise.
    """
    where = f"{file.parent.name}/{file.name}"
    with (
        refuse_unreadable("a safetensors file", where=where, fix=FIX),
        safe_open(file, framework="pt") as opened,
    ):
        for name in opened.keys():  # noqa: SIM118  # it is no mapping
            tensor = opened.get_tensor(name)
            if tensor.dtype not in FLOATS:
                if not tensor.dtype.is_floating_point and tensor.numel() <= 1:
                    continue  # a counter that some architectures keep
                found = f"{tensor.dtype} in {name[:80]}"
                fix = "bring weights that were not quantised"
                raise PolicyError("float32, bfloat16 or float16", found=found, where=where, fix=fix)
            # Its ends are NaN where anything is: a tenth of the time of asking each number
            if tensor.numel() and not torch.isfinite(torch.stack(torch.aminmax(tensor))).all():
                found = f"NaN or Inf in {name[:80]}"
                raise PolicyError("finite weights", found=found, where=where, fix="bring another checkpoint")


def outline(folder: Path) -> tuple[str, int, list[str]]:
    """Return architecture, number of parameters, and the names of those that the files have no numbers
    for."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    told, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        with refuse_unreadable("a model that can be loaded", where=folder.name, fix=FIX):
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder,
                device_map="meta",  # names and shapes without memory
                output_loading_info=True,
                local_files_only=True,
                trust_remote_code=False,
            )
    finally:
        logging.set_verbosity(told)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
    model, found = loaded
    n = sum(each.numel() for each in model.parameters())
    return type(model).__name__, n, sorted(found["missing_keys"])
