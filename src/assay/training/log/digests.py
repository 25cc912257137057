"""One digest for each link of an optimizer step: what was asked, written, earned, how it pulled, what it
made."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from assay.evaluation.rollout import Lost, Rollout


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
