"""A model as it is while it plays: no dropout, no gradients, and a small adapter added to the weights it belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

# Bytes of weights that are held twice meanwhile. What an adapter of its own costs is calls, not arithmetic: it is small
# models that gain.
LARGEST = 2**28


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
    """Do as `evaluating`, and compute with the sums of float32 weights and their LoRA adapters, where these are small.

    Meanwhile plain layers stand in the places of peft's, each with a matrix of its own, so that what is tied to the base's
    stays as it is. The layers come back with their own parameters, the very ones, so nothing is rounded twice. Weights
    that are 4-bit or bfloat16, where a sum would be rounded, are left alone, and all are where `add` is False.
    Log-probabilities differ from those of a pass through base and adapter by what float32 rounds.
    """
    with evaluating(model):
        changed: list[tuple[torch.nn.Module, str, Any, torch.nn.Parameter]] = []
        try:
            for parent, name, layer in _small_adapters(model) if add else []:
                base = layer.get_base_layer()
                changed.append((parent, name, layer, base.weight))
                summed = base.weight.data
                for key in _active(layer):
                    summed = summed + layer.get_delta_weight(key)
                base.weight = torch.nn.Parameter(summed, requires_grad=False)
                setattr(parent, name, base)
            yield
        finally:
            for parent, name, layer, weight in changed:
                layer.get_base_layer().weight = weight
                setattr(parent, name, layer)


def _small_adapters(model: Any) -> list[tuple[torch.nn.Module, str, Any]]:
    """Return peft's plain LoRA layers on float32 matrices with where they stand; none where they are large together."""
    found: list[tuple[torch.nn.Module, str, Any]] = [
        (p, name, child) for p in model.modules() for name, child in p.named_children() if _is_plain_lora(child)
    ]
    return found if sum(layer.get_base_layer().weight.nbytes for _, _, layer in found) <= LARGEST else []


def _active(layer: Any) -> list[str]:
    return [name for name in layer.active_adapters if name in layer.lora_A]


def _is_plain_lora(module: Any) -> bool:
    if not hasattr(module, "get_delta_weight") or not hasattr(module, "lora_A"):
        return False
    base, names = module.get_base_layer(), _active(module)
    return (
        type(base) is torch.nn.Linear and base.weight.dtype == torch.float32
        and not module.merged and not module.disable_adapters
        and not any(module.lora_bias.get(name) or name in module.lora_variant for name in names)
    )  # fmt: skip
