"""The weights of a model as plain tensors, joined and reordered so that a pass takes few calls; only of
models that are known exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from assay.rollout.policy.engine.fused_lora import plain_product

# Before the name of an attention that attends to packs too, which only learning gives it.
FLAT = "flat_"
FAMILIES = ("Llama", "Qwen2", "Qwen3", "Mistral", "Gemma2")
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_pytorch_tanh": partial(torch.nn.functional.gelu, approximate="tanh"),
}
# Kinds of rope whose angles hang on the place alone.
ROPES = ("default", "linear", "llama3", "yarn")
# Bytes of a model whose weights are held twice.
LARGEST = 2**31


Parts = tuple[torch.Tensor, torch.Tensor | None]  # a linear layer's weight [out, in] and bias [out]


class Unserved(Exception):
    """The model is not one that is known exactly; says what about it."""


@dataclass(frozen=True, slots=True)
class Product:
    """A linear layer: weight [in, out], which few rows are multiplied with faster than the other way round,
    and a bias [out] or None."""

    weight: torch.Tensor
    bias: torch.Tensor | None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Return [n, out] of x, [n, in]."""
        if self.bias is None:
            return torch.mm(x, self.weight)
        return torch.addmm(self.bias, x, self.weight)

    def added(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return x and the product of y, [n, in]."""
        both = torch.addmm(x, y, self.weight)
        return both if self.bias is None else both.add_(self.bias)


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer, whose query heads stand in another order than the model's (`_by_member`), and the numbers of
    a query or key in pairs that are turned together (`in_pairs`).

    `norms` are the weights before attention, behind it, before the inner layer and behind it; None where
    there is no norm. `head_norm`, [query and key heads, dimension], is what queries and keys are multiplied
    with once normalised. `window` is how many places a token looks back, its own included.
    """

    norms: tuple[torch.Tensor, torch.Tensor | None, torch.Tensor, torch.Tensor | None]
    qkv: Product
    head_norm: torch.Tensor | None
    out: Product
    gate_up: Product
    down: Product
    window: int | None


@dataclass(frozen=True, slots=True)
class Weights:
    """A model; `lean_forward.forward` says what it computes."""

    embedding: torch.Tensor
    scale: float | None
    layers: tuple[Layer, ...]
    norm: torch.Tensor
    head: Product
    activation: Callable[[torch.Tensor], torch.Tensor]
    eps: float
    heads: int
    kv_heads: int
    dim: int
    scaling: float
    cap: float | None
    head_cap: float | None
    frequencies: torch.Tensor
    turned_scale: float

    @property
    def repeats(self) -> int:
        """Query heads that look at one head of keys."""
        return self.heads // self.kv_heads

    def turns(self, places: int) -> torch.Tensor:
        """Return what the pairs of queries and keys are multiplied with, complex [places, 1, dimension / 2].

        Source: Su et al. 2021, RoFormer, eq. 34; scaled as the model's own rotary module says.
        """
        at = torch.arange(places, device=self.frequencies.device, dtype=torch.float32)
        angles = at[:, None, None] * self.frequencies
        return torch.complex(angles.cos(), angles.sin()) * self.turned_scale


def weights_of(model: Any, windows: Mapping[str, int | None]) -> Weights:
    """Return the weights of a model as they are now.

    Args:
        model: A causal language model.
        windows: Its kinds of attention layers (`context.windows_of`).

    Raises:
        Unserved: It is not of FAMILIES, is not plain float32, or something stands around its layers.
    """
    family, config, body = family_of(model), model.config, model.model
    gemma, rope = family == "Gemma2", body.rotary_emb
    shape = (config.num_attention_heads, config.num_key_value_heads, body.layers[0].self_attn.head_dim)
    if rope.rope_type not in ROPES or 2 * len(rope.inv_freq) != shape[2]:
        raise Unserved(f"rope of type {rope.rope_type} over {2 * len(rope.inv_freq)} of {shape[2]} numbers")
    activation = config.hidden_activation if gemma else config.hidden_act
    if activation not in ACTIVATIONS:
        raise Unserved(f"activation {activation}")
    kinds = getattr(config, "layer_types", None) or list(windows) * len(body.layers)
    return Weights(
        body.embed_tokens.weight.detach(),
        float(body.embed_tokens.embed_scale) if gemma else None,
        tuple(
            _layer(layer, shape, windows[kind], gemma=gemma)
            for layer, kind in zip(body.layers, kinds, strict=True)
        ),
        _norm(body.norm, gemma=gemma),
        _product(model.lm_head),
        ACTIVATIONS[activation],
        config.rms_norm_eps,
        *shape,
        body.layers[0].self_attn.scaling,
        config.attn_logit_softcapping if gemma else None,
        config.final_logit_softcapping if gemma else None,
        rope.inv_freq.detach().float(),
        float(rope.attention_scaling),
    )


def family_of(model: Any) -> str:
    """Return the family, after a look at everything that might compute otherwise than its class says."""
    kind, size = type(model), sum(p.nbytes for p in model.parameters())
    family = kind.__name__.removesuffix("ForCausalLM")
    if family not in FAMILIES or not kind.__module__.startswith("transformers.models."):
        raise Unserved(f"a model of class {kind.__name__}")
    if found := {str(p.dtype) for p in model.parameters()} - {"torch.float32"}:
        raise Unserved(f"weights of {', '.join(sorted(found))}")
    if size > LARGEST:
        raise Unserved(f"{size / 2**30:.1f} GiB of weights, which would be held twice")
    attention = model.config._attn_implementation
    if attention.removeprefix(FLAT) not in ("sdpa", "eager"):
        raise Unserved(f"attention of kind {attention}")
    body = model.model
    parts = [body, body.embed_tokens, body.norm, body.rotary_emb, *body.layers]
    for layer in body.layers:
        parts += layer.children()
        parts += [part for name, part in layer.self_attn.named_children() if name.endswith("norm")]
    for part in parts:
        if type(part).__module__ != kind.__module__ and type(part) is not torch.nn.Embedding:
            raise Unserved(f"a {type(part).__name__} in it")
    for part in model.modules():
        if part._forward_hooks or part._forward_pre_hooks or _replaced(part, model):
            raise Unserved(f"something around a {type(part).__name__}")
    return family


def _replaced(part: Any, model: Any) -> bool:
    """Return whether a part computes by another forward than its class's.

    What training puts around a whole model's, to score, plays as the class does, and wraps its forward.
    """
    forward = vars(part).get("forward")
    known = part is model and getattr(forward, "__wrapped__", None) is type(model).forward
    return forward is not None and not known


def _norm(module: Any, *, gemma: bool) -> torch.Tensor:
    weight: torch.Tensor = module.weight.detach()
    return weight + 1.0 if gemma else weight


def _parts(module: Any) -> Parts:
    found = plain_product(module)
    if found is None:
        raise Unserved(f"a {type(module).__name__} that is not one product")
    weight, bias = found
    return weight.detach(), None if bias is None else bias.detach()


def _product(module: Any) -> Product:
    weight, bias = _parts(module)
    return Product(weight.t().contiguous(), bias)


def _layer(layer: Any, shape: tuple[int, int, int], window: int | None, *, gemma: bool) -> Layer:
    heads, kv_heads, dim = shape
    attention, head_norm = layer.self_attn, None

    def by_head(name: str, n: int) -> Parts:
        weight, bias = _parts(getattr(attention, name))
        return weight.view(n, dim, -1), None if bias is None else bias.view(n, dim)

    weight, bias = by_head("q_proj", heads)
    queries = _by_member(weight, kv_heads), None if bias is None else _by_member(bias, kv_heads)
    turned = [
        (in_pairs(weight), None if bias is None else in_pairs(bias))
        for weight, bias in (queries, by_head("k_proj", kv_heads))
    ]
    if hasattr(attention, "q_norm"):
        scales = [attention.q_norm.weight.detach()] * heads + [attention.k_norm.weight.detach()] * kv_heads
        head_norm = in_pairs(torch.stack(scales))
    norms = [layer.input_layernorm, None, layer.post_attention_layernorm, None]
    if gemma:
        norms[1:] = norms[2], layer.pre_feedforward_layernorm, layer.post_feedforward_layernorm
    weight, bias = _parts(attention.o_proj)
    return Layer(
        tuple(None if norm is None else _norm(norm, gemma=gemma) for norm in norms),  # type: ignore[arg-type]
        _joined(
            [
                (weight.flatten(0, 1), None if bias is None else bias.flatten())
                for weight, bias in (*turned, by_head("v_proj", kv_heads))
            ]
        ),
        head_norm,
        Product(_by_member(weight.t().reshape(heads, dim, -1), kv_heads).flatten(0, 1), bias),
        _joined([_parts(layer.mlp.gate_proj), _parts(layer.mlp.up_proj)]),
        _product(layer.mlp.down_proj),
        window,
    )


def _by_member(x: torch.Tensor, kv_heads: int) -> torch.Tensor:
    """Reorder query heads, [heads, ...]: first the first that looks at each head of keys, then the second.

    What looks at one head of keys is then a view, for any number of tokens and rows.
    """
    return x.reshape(kv_heads, -1, *x.shape[1:]).transpose(0, 1).flatten(0, 1)


def in_pairs(x: torch.Tensor) -> torch.Tensor:
    """Reorder the numbers of each head, [heads, dimension, ...], so that what is turned together are
    neighbours: one complex product turns them."""
    return x.reshape(len(x), 2, -1, *x.shape[2:]).transpose(1, 2).flatten(1, 2)


def _joined(parts: Sequence[Parts]) -> Product:
    """Return one product instead of several of the same input."""
    biases = [weight.new_zeros(len(weight)) if bias is None else bias for weight, bias in parts]
    there = any(bias is not None for _, bias in parts)
    return Product(torch.cat([weight.t() for weight, _ in parts], 1), torch.cat(biases) if there else None)
