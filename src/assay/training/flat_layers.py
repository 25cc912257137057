"""The layers of known families, for rows that are read flat: one function each, with a gradient of its own.

A layer reads plain tensors. Adapters are added to the weights they belong to, weights of one input are
joined, and a norm's weights are part of the product behind it. Of the last layer only what decides a token is
computed. The numbers are those of transformers' modules, but for what float32 rounds; other models are read
by their modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any

import torch

from assay.rollout.policy.engine.fused_lora import lora_parts
from assay.rollout.policy.engine.lean_weights import ROPES, Unserved, family_of, in_pairs
from assay.training.flat_attention import attend_back, attend_flat
from assay.training.flat_pack import Pack, Rule

_rms_norm = torch.nn.functional.rms_norm
FAMILIES = ("Llama", "Qwen2", "Qwen3", "Mistral")


@dataclass(frozen=True, slots=True)
class _Product:
    """Linear layers of one input as one: weight [in, out] with adapters added, bias [out] or None, and which
    outputs each adapter has. Given apart are the adapters' A, [ranks, in], and every B, [out, rank]."""

    weight: torch.Tensor
    bias: torch.Tensor | None
    adapted: tuple[slice, ...]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, self.weight) if self.bias is None else torch.addmm(self.bias, x, self.weight)

    def back(self, above: torch.Tensor) -> torch.Tensor:
        """Return the gradient of x."""
        return torch.mm(above, self.weight.t())

    def adapters(
        self, x: torch.Tensor, above: torch.Tensor, given: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Return the gradients of A and of every B."""
        if not given:
            return []
        a, *every_b = given
        seen, first = torch.mm(x, a.t()), 0
        through, of_b = [], []
        for outputs, b in zip(self.adapted, every_b, strict=True):
            part, stop = above[:, outputs], first + b.shape[1]
            through.append(torch.mm(part, b))
            of_b.append(torch.mm(part.t(), seen[:, first:stop]))
            first = stop
        return [torch.mm(torch.cat(through, 1).t(), x), *of_b]


@dataclass(frozen=True, slots=True)
class _Weights:
    """What a layer multiplies with; `head_norm` is [query and key heads, dimension], where there is one."""

    qkv: _Product
    out: _Product
    gate_up: _Product
    down: _Product
    head_norm: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class _Look:
    """How a layer looks: its heads, what pairs of queries and keys are turned by (complex [n, 1, dimension /
    2]), and the places that are computed to the end; None: all."""

    heads: int
    kv_heads: int
    dim: int
    eps: float
    rule: Rule
    pack: Pack
    turns: torch.Tensor
    kept: torch.Tensor | None

    def turn(self, qkv: torch.Tensor, turns: torch.Tensor) -> None:
        """Turn queries and keys of [n, heads and twice kv_heads, dimension] in place."""
        turned = qkv[:, : self.heads + self.kv_heads]
        torch.view_as_complex(turned.view(*turned.shape[:2], -1, 2)).mul_(turns)

    def parts(self, qkv: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return queries, keys and values, [heads, n, dimension] each."""
        by_head, keys = qkv.transpose(0, 1), self.heads + self.kv_heads
        return by_head[: self.heads], by_head[self.heads : keys], by_head[keys:]


def _norm(x: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return x over its root mean square, and one over that."""
    size = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    by = size.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
    return x * by, by


def _norm_back(above: torch.Tensor, normed: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    """Return the gradient of what was normed."""
    along = torch.linalg.vecdot(above, normed).div_(normed.shape[-1])[..., None]
    return torch.addcmul(above, normed, along, value=-1).mul_(by)


class _Layer(torch.autograd.Function):
    """One layer; the gradients are those of its input and its adapters."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weights: _Weights, look: _Look, *adapters: torch.Tensor
    ) -> torch.Tensor:
        """Return [n, hidden], of the places that are kept; x is [n, hidden]."""
        looking = look.heads + look.kv_heads
        normed, by = _norm(x, look.eps)
        qkv = weights.qkv(normed).view(len(x), -1, look.dim)
        heads, by_head = None, None
        if weights.head_norm is not None:
            heads, by_head = _norm(qkv[:, :looking], look.eps)
            torch.mul(heads, weights.head_norm, out=qkv[:, :looking])
        look.turn(qkv, look.turns)
        only = look.kept is not None
        seen, sums = attend_flat(*look.parts(qkv), look.pack, look.rule, deciding=only)
        attended = seen.flatten(1)
        if look.kept is not None:
            x, attended = x.index_select(0, look.kept), attended.index_select(0, look.kept)
        x = weights.out(attended).add_(x)
        inner, by_inner = _norm(x, look.eps)
        gate_up = weights.gate_up(inner)
        gate, up = gate_up.chunk(2, dim=1)
        ctx.save_for_backward(
            normed, by, qkv, heads, by_head, seen, sums, attended, inner, by_inner, gate_up, *adapters
        )
        ctx.weights, ctx.look = weights, look
        return weights.down(torch.nn.functional.silu(gate).mul_(up)).add_(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients of x and of the adapters."""
        (above,), weights, look = gradients, ctx.weights, ctx.look
        normed, by, qkv, heads, by_head, seen, sums, attended, inner, by_inner, gate_up, *given = (
            ctx.saved_tensors
        )
        left = iter(given)
        of_qkv, of_out, of_gate_up, of_down = (
            list(islice(left, 1 + len(each.adapted) if each.adapted else 0))
            for each in (weights.qkv, weights.out, weights.gate_up, weights.down)
        )
        gate, up = gate_up.chunk(2, dim=1)
        below, active = weights.down.back(above), torch.nn.functional.silu(gate)
        of_inner = torch.empty_like(gate_up)
        of_gate, of_up = of_inner.chunk(2, dim=1)
        torch.mul(below, active, out=of_up)
        torch.ops.aten.silu_backward.grad_input(below.mul_(up), gate, grad_input=of_gate)
        of_down = weights.down.adapters(active.mul_(up), above, of_down)
        of_gate_up = weights.gate_up.adapters(inner, of_inner, of_gate_up)
        above = _norm_back(weights.gate_up.back(of_inner), inner, by_inner).add_(above)
        of_out = weights.out.adapters(attended, above, of_out)
        of_seen = weights.out.back(above)
        if look.kept is not None:  # the last token of a prompt may decide several
            of_seen = of_seen.new_zeros(len(qkv), of_seen.shape[1]).index_add_(0, look.kept, of_seen)
            above = above.new_zeros(normed.shape).index_add_(0, look.kept, above)
        below = torch.empty_like(qkv)
        above_it, only = of_seen.view_as(seen), look.kept is not None
        read, written = look.parts(qkv), look.parts(below)
        attend_back(above_it, read, seen, sums, look.pack, look.rule, written, deciding=only)
        look.turn(below, look.turns.conj())
        if heads is not None:
            turned = below[:, : heads.shape[1]]
            turned.copy_(_norm_back(turned * weights.head_norm, heads, by_head))
        below = below.flatten(1)
        of_qkv = weights.qkv.adapters(normed, below, of_qkv)
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = _norm_back(weights.qkv.back(below), normed, by).add_(above)
        return of_x, None, None, *of_qkv, *of_out, *of_gate_up, *of_down


class Layers:
    """The backbone of a model as it is now, for one pass.

    Raises:
        Unserved: It is of another family, or has something beside plain float32 weights and LoRA adapters.
    """

    def __init__(self, model: Any, windows: Sequence[int | None]) -> None:
        family, config, body = family_of(model), model.config, model.model
        if family not in FAMILIES:
            raise Unserved(f"a {family}")
        device = body.embed_tokens.weight.device
        attention, rope = body.layers[0].self_attn, body.rotary_emb
        # What the modules would do, which is not in all families what the configuration says
        seen = [
            config.sliding_window if family == "Mistral" else getattr(layer.self_attn, "sliding_window", None)
            for layer in body.layers
        ]
        for what, there in (
            ("windows that its configuration does not state", seen != list(windows)),
            (f"activation {config.hidden_act}", config.hidden_act != "silu"),
            (f"rope of type {rope.rope_type}", rope.rope_type not in ROPES),
            ("a part of each head that turns", 2 * len(rope.inv_freq) != attention.head_dim),
            ("attention dropout", model.training and getattr(attention, "attention_dropout", 0.0) > 0.0),
            ("layers that are computed again", model.training and model.is_gradient_checkpointing),
            ("autocast", torch.is_autocast_enabled(device.type)),
        ):
            if there:
                raise Unserved(what)
        self._body, self._windows = body, windows
        self._heads = config.num_attention_heads, config.num_key_value_heads, attention.head_dim
        self._eps, self._scale = config.rms_norm_eps, attention.scaling
        self._used = set[int]()
        self._layers = [self._layer(layer) for layer in body.layers]
        learning = torch.is_grad_enabled()
        if learning and any(p.requires_grad and id(p) not in self._used for p in body.parameters()):
            raise Unserved("weights that learn, besides adapters")

    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor, pack: Pack, kept: torch.Tensor
    ) -> torch.Tensor:
        """Return the last hidden states of the places that are kept, [kept, hidden].

        Args:
            ids: [n].
            positions: The same; where each token stands in its row.
            pack: Who looks at whom.
            kept: Places in the pack, each a row's or the last of a prompt.
        """
        rope, x = self._body.rotary_emb, torch.nn.functional.embedding(ids, self._body.embed_tokens.weight)
        angles = positions[:, None, None].float() * rope.inv_freq.float()
        turns = torch.complex(angles.cos(), angles.sin()) * rope.attention_scaling
        pack.keep(kept)
        last = len(self._layers) - 1
        for index, ((weights, adapters), window) in enumerate(zip(self._layers, self._windows, strict=True)):
            rule = Rule(self._scale, None, window)
            look = _Look(*self._heads, self._eps, rule, pack, turns, kept if index == last else None)
            x = _Layer.apply(x, weights, look, *adapters)  # type: ignore[no-untyped-call]
        norm = self._body.norm.weight
        return _rms_norm(x, norm.shape, norm, self._eps)

    def _layer(self, layer: Any) -> tuple[_Weights, list[torch.Tensor]]:
        attention, mlp = layer.self_attn, layer.mlp
        heads, kv_heads, _ = self._heads
        first, second = layer.input_layernorm.weight, layer.post_attention_layernorm.weight
        found, adapters = list[_Product](), list[torch.Tensor]()
        for modules, turned, norm in (
            ((attention.q_proj, attention.k_proj, attention.v_proj), (heads, kv_heads), first),
            ((attention.o_proj,), (), None),
            ((mlp.gate_proj, mlp.up_proj), (), second),
            ((mlp.down_proj,), (), None),
        ):
            product, given = self._joined(modules, turned, norm)
            found.append(product)
            adapters += given
        head_norm = None
        if hasattr(attention, "q_norm"):
            of_q, of_k = attention.q_norm.weight.detach(), attention.k_norm.weight.detach()
            head_norm = in_pairs(torch.stack([of_q] * heads + [of_k] * kv_heads))
        return _Weights(found[0], found[1], found[2], found[3], head_norm), adapters

    def _joined(
        self, modules: Sequence[Any], turned: Sequence[int], norm: torch.Tensor | None
    ) -> tuple[_Product, list[torch.Tensor]]:
        """Return modules of one input as one product; the outputs of the first ones are so many heads whose
        numbers stand in pairs."""

        def ordered(x: torch.Tensor, heads: int | None) -> torch.Tensor:
            if heads is None:
                return x
            return in_pairs(x.view(heads, self._heads[2], *x.shape[1:])).flatten(0, 1)

        weights, biases, adapted = list[torch.Tensor](), list[torch.Tensor](), list[slice]()
        every_a, every_b, n = list[torch.Tensor](), list[torch.Tensor](), 0
        there = False
        for module, heads in zip_longest(modules, turned):
            if (parts := lora_parts(module)) is None:
                raise Unserved(f"a {type(module).__name__} that is not one product")
            weight, bias, adapter = parts
            weights.append(ordered(weight.detach(), heads).t())
            biases.append(weight.new_zeros(len(weight)) if bias is None else ordered(bias.detach(), heads))
            there |= bias is not None
            if adapter is not None:
                a, b, scale = adapter
                self._used |= {id(a), id(b)}
                every_a.append(a)
                every_b.append(ordered(b, heads) * scale)
                adapted.append(slice(n, n + len(weight)))
            n += len(weight)
        whole = torch.cat(weights, 1)
        if norm is not None:
            whole *= norm.detach()[:, None]
        product = _Product(whole, torch.cat(biases) if there else None, tuple(adapted))
        if not every_a:
            return product, []
        joined = torch.cat(every_a)
        return product, [joined if norm is None else joined * norm.detach(), *every_b]
