"""A frozen base that several processes hold in parts while they learn, and whole while they play (FSDP2 of
torch).

What is trained, a LoRA adapter, is small and every process holds all of it: so optimizer, checkpoints,
digests and the guard see the same parameters as with any other engine, and gradients are averaged as
DistributedDataParallel averages them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from assay.core.config.places import setting
from assay.core.errors import ConfigError


class Shards:
    """A second tree of the same modules, for learning: its base is sharded layer by layer, its adapter is the
    model's own.

    Between `whole` and `whole` the model's base has no elements, and must not be used.

    Args:
        model: A peft model whose base is frozen and whole. Every process has the same one.
        device: Where it is.

    Raises:
        ConfigError: The model does not say which of its modules are layers.
    """

    def __init__(self, model: Any, device: torch.device) -> None:
        originals = dict(model.named_parameters())
        self.learner = copy.deepcopy(model, {id(p): p for p in originals.values()})
        kept = {p for p in originals.values() if p.requires_grad}
        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        for layer in _layers(self.learner):
            fully_shard(layer, mesh=mesh, ignored_params=kept)
        fully_shard(self.learner, mesh=mesh, reshard_after_forward=False, ignored_params=kept)
        sharded = dict(self.learner.named_parameters())
        self._parts = [(p, sharded[name]) for name, p in originals.items() if not p.requires_grad]
        self._release()

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Give the model its base back for a while. Every process has to enter."""
        with torch.no_grad():
            for parameter, part in self._parts:
                parameter.data = part.full_tensor()
        try:
            yield
        finally:
            self._release()

    def part(self) -> None:
        """End: give the model its base back for good, and drop the parts. Every process has to call this."""
        with self.whole():
            self._parts = []

    def average(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Make gradients the mean over all processes."""
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        for parameter, part in zip(
            parameters, torch.split(flat, [p.numel() for p in parameters]), strict=True
        ):
            parameter.grad = part.view_as(parameter).clone()

    def _release(self) -> None:
        for parameter, _ in self._parts:
            parameter.data = parameter.data.new_empty(0)


def _layers(model: Any) -> list[torch.nn.Module]:
    """Return the modules that transformers calls the smallest that stay together on a device: the decoder's
    layers."""
    names = set(getattr(model.get_base_model(), "_no_split_modules", None) or ())
    found = [module for module in model.modules() if type(module).__name__ in names]
    if not found:
        raise ConfigError(
            "a model that says which of its modules are layers (_no_split_modules)",
            found=type(model.get_base_model()).__name__,
            where=setting("distributed.engine"),
            fix="set distributed.engine: ddp",
        )
    return found
