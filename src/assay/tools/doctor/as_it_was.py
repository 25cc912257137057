"""Look at a policy and leave no trace: weights, modules, modes and random generators are put back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from assay.training.rollouts import untouched


@contextmanager
def as_it_was(model: Any) -> Iterator[None]:
    """Put a model back as it is now when the block ends, whatever was attached to it, and every random
    generator.

    Base weights are not copied: nothing in the block may write to them. An adapter that is attached replaces
    modules, freezes parameters and leaves attributes behind; all of this is undone.
    """
    modules = [(module, dict(module._modules), module.training) for module in model.modules()]
    gradients = [(parameter, parameter.requires_grad, parameter.grad) for parameter in model.parameters()]
    hooks = [
        (module, dict(module._forward_hooks), dict(module._forward_pre_hooks)) for module in model.modules()
    ]
    attributes, use_cache = set(vars(model)), getattr(model.config, "use_cache", None)
    try:
        with untouched():
            yield
    finally:
        for module, children, training in modules:
            module._modules.clear()
            module._modules.update(children)
            module.training = training
        for module, after, before in hooks:
            _restore(module._forward_hooks, after)
            _restore(module._forward_pre_hooks, before)
        for parameter, wanted, gradient in gradients:
            parameter.requires_grad_(wanted)
            parameter.grad = gradient
        for name in set(vars(model)) - attributes:
            delattr(model, name)
        if use_cache is not None:
            model.config.use_cache = use_cache
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _restore(hooks: Any, before: dict[int, Any]) -> None:
    for name in [name for name in hooks if name not in before]:
        del hooks[name]
