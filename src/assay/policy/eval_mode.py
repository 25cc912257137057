"""A model as it is while it plays: no dropout, no gradients, and a small adapter added to the weights it
belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from assay.policy.engine.fused_lora import summed


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
