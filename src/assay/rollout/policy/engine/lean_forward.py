"""What a model computes, over plain tensors: one pass through all layers, with keys and values of rows and of
prompts that rows share, and attention to both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from assay.rollout.policy.engine.kv_cache import Slots, reserved_for
from assay.rollout.policy.engine.lean_weights import Product, Weights

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_rms_norm = torch.nn.functional.rms_norm


class Stored:
    """Keys and values, [2, slots, heads, capacity, dimension] a layer; each slot has its own length.

    What stands behind a slot's last token is finite, and masks hide it until it is overwritten.
    """

    def __init__(self, weights: Weights) -> None:
        self._heads = weights.kv_heads
        empty = weights.embedding.new_zeros(2, 0, self._heads, 0, weights.dim)
        self._layers = [empty] * len(weights.layers)
        self.slots = self.capacity = 0

    @property
    def nbytes(self) -> int:
        """Bytes that are reserved."""
        return sum(layer.nbytes for layer in self._layers)

    def reserve(self, slots: int, length: int) -> None:
        """Make room for so many slots of so many tokens; what is stored stays."""
        slots, capacity = max(slots, self.slots), max(reserved_for(length), self.capacity)
        if (slots, capacity) == (self.slots, self.capacity):
            return
        for index, old in enumerate(self._layers):
            # One at a time, so that no more than one tensor is there twice
            new = self._layers[index] = old.new_zeros(2, slots, self._heads, capacity, old.shape[4])
            new[:, : self.slots, :, : self.capacity] = old
        self.slots, self.capacity = slots, capacity

    def keep(self, slots: Slots) -> None:
        """Drop every slot but these."""
        for index, old in enumerate(self._layers):
            self._layers[index] = old[:, torch.as_tensor(slots, device=old.device)]
        self.slots = len(slots)

    def copy(self, source: Slots, target: Slots, length: int) -> None:
        """Copy slots of at most `length` tokens to others; all is read before anything is written."""
        if not len(source) or not length:
            return
        for layer in self._layers:
            one, other = (torch.as_tensor(slots, device=layer.device) for slots in (source, target))
            part = layer[:, :, :, :length]
            part.index_copy_(1, other, part[:, one])  # index_select is slow on what is not contiguous

    def targets(self, first: int, places: torch.Tensor) -> torch.Tensor:
        """Return where keys and values of tokens at places [rows, width] go: [rows, width, 2 heads]."""
        head = torch.arange(2 * self._heads, device=places.device)
        head += (head >= self._heads) * (self.slots - 1) * self._heads
        slot = torch.arange(first, first + len(places), device=places.device)[:, None, None]
        return (slot * self._heads + head) * self.capacity + places[:, :, None]

    def write(self, layer: int, target: torch.Tensor, new: torch.Tensor) -> None:
        """Store keys and values, [n, 2 heads, dimension]."""
        stored = self._layers[layer]
        stored.view(-1, stored.shape[4]).index_copy_(0, target, new.reshape(-1, stored.shape[4]))

    def of(self, layer: int, first: int, rows: int, used: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values of neighbouring slots, [rows, heads, used, dimension]."""
        keys, values = self._layers[layer][:, first : first + rows, :, :used].unbind()
        return keys, values


@dataclass(frozen=True, slots=True)
class Shared:
    """Prompts that the rows of a pass share.

    Equally many places belong to each prompt; `order` says which row stands in each of them, and `back` in
    which one each row stands; both None where rows stand so already. `mask`, [prompts, 1, 1, used], hides
    what is behind a shorter prompt; None where all are equally long.
    """

    stored: Stored
    used: int
    order: torch.Tensor | None
    back: torch.Tensor | None
    mask: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class Look:
    """Where the tokens of a pass stand, and what they look at.

    `turns` [rows * width, 1, dimension / 2], `target` [rows * width * 2 heads], `masks` by window, each
    [rows or 1, 1, width * repeats or 1, used]; `used` places of each row's own are looked at. `whole`: what
    follows every token is asked, not what follows each row.
    """

    first: int
    rows: int
    width: int
    turns: torch.Tensor
    target: torch.Tensor
    masks: Mapping[int | None, torch.Tensor]
    used: int
    shared: Shared | None
    whole: bool = False


def forward(weights: Weights, stored: Stored, ids: torch.Tensor, look: Look) -> torch.Tensor:
    """Return the logits behind the last token of each row, [rows, vocabulary], or behind every token, [rows *
    width, vocabulary]; ids are [rows * width]."""
    rows, width, masks = look.rows, look.width, look.masks
    heads, looking, eps = weights.heads, weights.heads + weights.kv_heads, weights.eps
    x = torch.nn.functional.embedding(ids, weights.embedding)
    if weights.scale is not None:
        x = x * weights.scale
    size = x.shape[1:]
    for index, layer in enumerate(weights.layers):
        qkv = layer.qkv(_rms_norm(x, size, layer.norms[0], eps)).view(rows * width, -1, weights.dim)
        turned = qkv[:, :looking]
        if layer.head_norm is not None:
            torch.mul(_rms_norm(turned, (weights.dim,), None, eps), layer.head_norm, out=turned)
        torch.view_as_complex(turned.view(*turned.shape[:2], -1, 2)).mul_(look.turns)
        stored.write(index, look.target, qkv[:, heads:])
        if index == len(weights.layers) - 1 and width > 1 and not look.whole:
            # Of the last layer nothing is asked but what follows each row
            qkv, x = qkv[width - 1 :: width], x[width - 1 :: width]
            width, masks = 1, {key: mask[:, :, -weights.repeats :] for key, mask in masks.items()}
        queries = qkv[:, :heads].reshape(rows, width * weights.repeats, weights.kv_heads, weights.dim)
        seen = _attended(weights, stored, index, queries, masks[layer.window], look)
        x = _added(x, layer.out, seen.reshape(rows * width, -1), layer.norms[1], eps)
        inner = layer.gate_up(_rms_norm(x, size, layer.norms[2], eps))
        gate, up = inner.chunk(2, dim=1)
        x = _added(x, layer.down, weights.activation(gate).mul_(up), layer.norms[3], eps)
    logits = weights.head(_rms_norm(x, size, weights.norm, eps))
    return logits if weights.head_cap is None else torch.tanh(logits / weights.head_cap) * weights.head_cap


def _added(
    x: torch.Tensor, product: Product, y: torch.Tensor, norm: torch.Tensor | None, eps: float
) -> torch.Tensor:
    """Return x and, behind a norm where there is one, the product of y."""
    if norm is not None:
        return x + _rms_norm(product(y), norm.shape, norm, eps)
    return product.added(x, y)


def _attended(
    weights: Weights, stored: Stored, index: int, queries: torch.Tensor, mask: torch.Tensor, look: Look
) -> torch.Tensor:
    """Return what queries [rows, width * repeats, heads, dimension] see of a row's own and of what it
    shares."""
    own, mass = attend(weights, queries, *stored.of(index, look.first, look.rows, look.used), mask)
    shared = look.shared
    if shared is None:
        return own
    if shared.order is not None:
        queries = queries.index_select(0, shared.order)
    keys, values = shared.stored.of(index, 0, shared.stored.slots, shared.used)
    grouped = queries.reshape(len(keys), -1, *queries.shape[2:])
    of_prompt, mass_of_prompt = attend(weights, grouped, keys, values, shared.mask)
    of_prompt = of_prompt.reshape(queries.shape)
    mass_of_prompt = mass_of_prompt.reshape(queries.shape[:3])
    if shared.back is not None:
        of_prompt = of_prompt.index_select(0, shared.back)
        mass_of_prompt = mass_of_prompt.index_select(0, shared.back)
    # Two softmaxes make one: each weighs as the sum of its exponentials, whose logarithms these are
    return torch.lerp(own, of_prompt, torch.sigmoid(mass_of_prompt - mass)[..., None])


def attend(
    weights: Weights,
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return attention [rows, n, heads, dimension] and the logarithm of its sum of exponentials [rows, n,
    heads].

    Args:
        weights: Scale and cap of the scores.
        queries: [rows, n, heads, dimension].
        keys: [rows, heads, used, dimension].
        values: The same.
        mask: Added to scores; one that fits [rows, 1, n, used].
    """
    # The kernel takes a row and a head at a time, which is slower where each has a single query
    plain = weights.cap is None and queries.device.type == "cpu"
    by = _by_kernel if plain and queries.shape[1] > 1 else _by_products
    out, mass = by(weights, queries.transpose(1, 2), keys, values, mask)
    return out.transpose(1, 2), mass.transpose(1, 2)


def _by_kernel(
    weights: Weights,
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    out, mass = _flash(queries, keys, values, attn_mask=mask, scale=weights.scaling)
    return out, mass


def _by_products(
    weights: Weights,
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    scores = torch.matmul(queries * weights.scaling, keys.mT)
    if weights.cap is not None:
        scores = torch.tanh(scores / weights.cap) * weights.cap
    if mask is not None:
        scores += mask
    most = scores.amax(dim=-1, keepdim=True)
    total = scores.sub_(most).exp_().sum(dim=-1, keepdim=True)
    return torch.matmul(scores, values).div_(total), total.log_().add_(most).squeeze(-1)
