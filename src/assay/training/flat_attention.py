"""Attention over one packed sequence: prompts, each read once, and behind each the rows that share it.

A prompt looks at itself; a row looks at itself and at its prompt, whose keys and values are there once. No
mask or score of the whole sequence is ever held: scores are made in tiles and made again on the way back. It
is registered with transformers' attention interface beside the implementation that a model has, and does what
that one does wherever no pack is given.

Source: softmax over parts that are merged by their log-sum-exp, and gradients from it, as in Dao et al.
(2022), FlashAttention, arXiv 2205.14135, sections 3.1 and B.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from assay.rollout.policy.engine.lean_weights import FLAT
from assay.training.flat_pack import Pack, Reach, Rule, Stretch, split

TILE = {"cpu": 2**18, "cuda": 2**24}  # scores held at once: what a core's cache holds; 64 MiB in float32


class Unable(Exception):
    """The model's attention asks for something that is not done here; the argument says what."""


def _tiles(
    q: torch.Tensor, k: torch.Tensor, rule: Rule, reach: Reach | None
) -> list[tuple[slice, slice, torch.Tensor | None]]:
    """Return which queries look at which keys together, and what they must not see (None: they see all)."""
    n, keys = q.shape[-2], k.shape[-2]
    size = max(1, TILE.get(q.device.type, TILE["cuda"]) // (keys * q.shape[:-2].numel()))
    found: list[tuple[slice, slice, torch.Tensor | None]] = []
    for first in range(0, n, size):
        queries = slice(first, min(n, first + size))
        if reach is None:
            found.append((queries, slice(0, keys), None))
            continue
        nearest, farthest = int(reach.here[queries].min()), int(reach.here[queries].max())
        low = 0 if rule.window is None else min(keys - 1, max(0, nearest - rule.window + 1))
        looked = slice(low, max(low + 1, min(keys, farthest + 1)))
        hidden = None
        if nearest < looked.stop - 1 or (rule.window is not None and farthest - rule.window >= low):
            last = reach.there[queries, None]
            key = torch.arange(looked.start, looked.stop, device=q.device)
            hidden = key > last
            if rule.window is not None:
                hidden |= key <= last - rule.window
        found.append((queries, looked, hidden))
    return found


def _scores(q: torch.Tensor, k: torch.Tensor, rule: Rule, hidden: torch.Tensor | None) -> torch.Tensor:
    """Return scores [..., n, keys], at least in float32."""
    scores = torch.matmul(q, k.mT)
    scores = scores if scores.dtype == torch.float64 else scores.float()
    scores = scores.mul_(rule.scale)
    if rule.softcap is not None:
        scores = scores.div_(rule.softcap).tanh_().mul_(rule.softcap)
    return scores if hidden is None else scores.masked_fill_(hidden, float("-inf"))


def _fused(q: torch.Tensor, v: torch.Tensor, rule: Rule, reach: Reach | None) -> bool:
    """Return whether torch's own tiles for processors do it: they know neither caps nor windows."""
    plain = rule.softcap is None and (reach is None or rule.window is None)
    return plain and q.device.type == "cpu" and q.shape[-1] == v.shape[-1]


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rule: Rule, reach: Reach | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what queries [B, H, n, D] make of keys and values [B, H, m, D], and their log-sum-exp [B, H, n].

    A reach means that query i sees key i and those before it, within the window; None: all keys.
    """
    if _fused(q, v, rule, reach):
        fused: tuple[torch.Tensor, torch.Tensor] = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, reach is not None, scale=rule.scale
        )
        return fused
    out, sums = [], []
    for queries, keys, hidden in _tiles(q, k, rule, reach):
        scores = _scores(q[..., queries, :], k[..., keys, :], rule, hidden)
        top = scores.amax(-1, keepdim=True).clamp_(min=torch.finfo(scores.dtype).min)
        shares = scores.sub_(top).exp_()
        total = shares.sum(-1, keepdim=True)
        tiny = torch.finfo(total.dtype).tiny  # where nothing is seen
        out.append(torch.matmul(shares.to(v.dtype), v[..., keys, :]) / total.clamp(min=tiny).to(v.dtype))
        sums.append((top + total.log()).squeeze(-1))
    return torch.cat(out, -2), torch.cat(sums, -1)


def _attend_back(
    above: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    sums: torch.Tensor,
    rule: Rule,
    reach: Reach | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of q, k and v.

    `out` and `sums` are those of all keys that the queries see, of which k may be a part: with them, shares
    and gradients of a part are those within the whole.
    """
    if _fused(q, v, rule, reach):
        fused: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = (
            torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
                above, q, k, v, out, sums, 0.0, reach is not None, scale=rule.scale
            )
        )
        return fused
    of_q = torch.zeros_like(q)
    of_k, of_v = (torch.zeros_like(x, dtype=sums.dtype) for x in (k, v))  # sums over tiles
    mean = (above * out).sum(-1, keepdim=True, dtype=sums.dtype)
    for queries, keys, hidden in _tiles(q, k, rule, reach):
        part, looked = above[..., queries, :], k[..., keys, :]
        scores = _scores(q[..., queries, :], looked, rule, hidden)
        slope = None if rule.softcap is None else 1 - (scores / rule.softcap).square()
        shares = scores.sub_(sums[..., queries, None]).exp_()
        of_v[..., keys, :] += torch.matmul(shares.to(v.dtype).mT, part)
        shares *= torch.matmul(part, v[..., keys, :].mT).to(shares.dtype).sub_(mean[..., queries, :])
        if slope is not None:
            # Behind a mask a score has no slope, and no share
            shares *= slope if hidden is None else slope.masked_fill(hidden, 0)
        of_scores = shares.mul_(rule.scale).to(q.dtype)
        of_q[..., queries, :] = torch.matmul(of_scores, looked)
        of_k[..., keys, :] += torch.matmul(of_scores.mT, q[..., queries, :])
    return of_q, of_k.to(k.dtype), of_v.to(v.dtype)


class _Parts:
    """The parts of one stretch: who looks at whom, as [B, H, n, D], for forward and backward alike."""

    def __init__(
        self,
        stretch: Stretch,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        rule: Rule,
        *,
        deciding: bool,
    ):
        self.stretch, self.group = stretch, len(q) // len(k)
        self.rule = (
            rule if rule.window is not None and rule.window < stretch.longest else rule._replace(window=None)
        )
        self.q, self.k, self.v = q, k, v
        window, prompt = self.rule.window, stretch.read
        first = 0 if window is None else max(0, stretch.prompt - window + 1)
        self.looked = slice(prompt.start + first, prompt.stop)
        self.some = stretch.asked if deciding else None
        self.crosses = stretch.n_rows > 0 and first < stretch.prompt
        # Of a prompt only its last token decides anything, and that one sees all of it but for a window
        self.reading = slice(prompt.stop - 1, prompt.stop) if deciding else prompt
        self.read_up_to: Reach | None = stretch.causal_prompt
        if deciding:
            self.read_up_to = None if window is None else stretch.last_of_prompt
        self.reach = None
        if window is not None and self.crosses:
            positions = stretch.positions if self.some is None else stretch.positions[self.some.cpu().numpy()]
            self.reach = Reach.of(np.tile(stretch.prompt - first + positions, self.group), q.device)

    def asked(self, x: torch.Tensor) -> torch.Tensor:
        """Return of [H, N, ...] what belongs to the rows' tokens of which something is asked."""
        own = x[:, self.stretch.own]
        return own if self.some is None else own.index_select(1, self.some)

    def add_asked(self, x: torch.Tensor, found: torch.Tensor) -> None:
        """Add to [H, N, D] what was found for the tokens of `asked`."""
        own = x[:, self.stretch.own]
        if self.some is None:
            own += found
        else:
            own.index_add_(1, self.some, found)

    def repeated(self, x: torch.Tensor) -> torch.Tensor:
        """Return keys or values [H, ...] of so many heads as there are queries."""
        return x if self.group == 1 else x.repeat_interleave(self.group, 0)

    def summed(self, x: torch.Tensor) -> torch.Tensor:
        """Return gradients of `repeated` [H, ...] as those of what was repeated."""
        return x if self.group == 1 else split(x, 0, len(x) // self.group).sum(1)

    def folded(self, x: torch.Tensor) -> torch.Tensor:
        """Return [H, n, ...] as [1, heads of keys, group x n, ...]: queries of one key head side by side."""
        return split(x, 0, len(x) // self.group).flatten(1, 2)[None]

    def unfolded(self, x: torch.Tensor) -> torch.Tensor:
        """Return what `folded` made as it was."""
        return split(x[0], 1, self.group).flatten(0, 1)


def attend_flat(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pack: Pack, rule: Rule, *, deciding: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return attention [N, H, D] of a pack and its log-sum-exp [H, N].

    Args:
        q: [H, N, D].
        k: [heads of keys, N, D].
        v: The same.
        pack: Who looks at whom.
        rule: How scores are made.
        deciding: Only what the pack keeps is asked for; elsewhere are numbers that say nothing.
    """
    make = torch.Tensor.new_zeros if deciding else torch.Tensor.new_empty
    out = make(v, (q.shape[1], len(q), v.shape[-1]))
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    sums = make(q, q.shape[:2], dtype=wide)
    for stretch in pack.stretches:
        p = _Parts(stretch, q, k, v, rule, deciding=deciding)
        if stretch.prompt:
            keys, values = (p.repeated(x[:, stretch.read])[None] for x in (k, v))
            seen, total = _attend(q[None, :, p.reading], keys, values, p.rule, p.read_up_to)
            out[p.reading], sums[:, p.reading] = seen[0].transpose(0, 1), total[0]
        if stretch.n_rows:
            at = stretch.own
            keys, values = (stretch.rows_of(p.repeated(x[:, at])) for x in (k, v))
            seen, total = map(
                stretch.tokens_of, _attend(stretch.rows_of(q[:, at]), keys, values, p.rule, stretch.causal)
            )
            if p.crosses:
                keys, values = k[None, :, p.looked], v[None, :, p.looked]
                also, more = map(p.unfolded, _attend(p.folded(p.asked(q)), keys, values, p.rule, p.reach))
                mine, before = (x if p.some is None else x.index_select(1, p.some) for x in (seen, total))
                whole = torch.logaddexp(before, more)
                here, there = ((x - whole).exp()[..., None] for x in (before, more))
                both = (mine * here + also * there).to(v.dtype)
                if p.some is None:
                    seen, total = both, whole
                else:
                    seen = seen.index_copy(1, p.some, both)
                    total = total.index_copy(1, p.some, whole)
            out[at], sums[:, at] = seen.transpose(0, 1), total
    return out, sums


def attend_back(
    above: torch.Tensor,
    qkv: Sequence[torch.Tensor],
    out: torch.Tensor,
    sums: torch.Tensor,
    pack: Pack,
    rule: Rule,
    into: Sequence[torch.Tensor],
    *,
    deciding: bool = False,
) -> None:
    """Write the gradients of q, k and v into tensors of their shapes.

    Args:
        above: That of `out`, [N, H, D]; 0 wherever nothing was asked for.
        qkv: What was given to `attend_flat`: q, k and v; the same for pack, rule and deciding.
        out: What `attend_flat` returned; the same for sums.
        sums: The same.
        pack: The same.
        rule: The same.
        into: Where gradients go.
        deciding: The same.
    """
    (q, k, v), above, out = qkv, above.transpose(0, 1), out.transpose(0, 1)
    of_q, of_k, of_v = into
    for stretch in pack.stretches:
        p = _Parts(stretch, q, k, v, rule, deciding=deciding)
        if stretch.prompt:
            at = stretch.read
            keys, values = (p.repeated(x[:, at])[None] for x in (k, v))
            mine, asked, seen, total = (x[None, :, p.reading] for x in (above, q, out, sums))
            found = _attend_back(mine, asked, keys, values, seen, total, p.rule, p.read_up_to)
            if deciding:
                of_q[:, at] = 0
            of_q[:, p.reading] = found[0][0]
            of_k[:, at], of_v[:, at] = (p.summed(x[0]) for x in found[1:])
        if stretch.n_rows:
            at = stretch.own
            keys, values = (stretch.rows_of(p.repeated(x[:, at])) for x in (k, v))
            asked, seen, total = (stretch.rows_of(x[:, at]) for x in (q, out, sums))
            mine = stretch.padded(above[:, at])
            found = _attend_back(mine, asked, keys, values, seen, total, p.rule, stretch.causal)
            of_q[:, at] = stretch.tokens_of(found[0])
            # A row's last token stands in its padding too, but nothing that counts has looked there
            of_k[:, at], of_v[:, at] = (p.summed(stretch.tokens_of(x)) for x in found[1:])
            if p.crosses:
                keys, values = k[None, :, p.looked], v[None, :, p.looked]
                mine, asked, seen, total = (p.folded(p.asked(x)) for x in (above, q, out, sums))
                found = _attend_back(mine, asked, keys, values, seen, total, p.rule, p.reach)
                p.add_asked(of_q, p.unfolded(found[0]))
                of_k[:, p.looked] += found[1][0]
                of_v[:, p.looked] += found[2][0]


class _Flat(torch.autograd.Function):
    """Attention [H, N, D] of a pack; the gradient of a sink is not taken."""

    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pack: Pack, rule: Rule, sinks: Any
    ) -> torch.Tensor:
        """Return [N, H, D]; q is [H, N, D], k and v are [heads of keys, N, D], sinks [H] or None."""
        out, sums = attend_flat(q, k, v, pack, rule)
        if sinks is not None:
            whole = torch.logaddexp(sums, sinks.detach().to(sums.dtype)[:, None])
            out *= (sums - whole).exp().t()[..., None].to(out.dtype)
            sums = whole
        ctx.save_for_backward(q, k, v, out, sums)
        ctx.pack, ctx.rule = pack, rule
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients of q, k and v."""
        q, k, v, out, sums = ctx.saved_tensors
        found = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        attend_back(gradients[0], (q, k, v), out, sums, ctx.pack, ctx.rule, found)
        return *found, None, None, None


def _flat(
    module: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pack: Pack, asked: dict[str, Any]
) -> tuple[torch.Tensor, None]:
    """Return attention [1, N, H, D] as the interface wants it.

    Raises:
        Unable: What is asked for is not done here.
    """
    sinks, window = asked.get("s_aux"), asked.get("sliding_window")
    for what, there in (
        ("attention dropout", asked.get("dropout", 0.0) > 0.0),
        ("a position bias", asked.get("position_bias") is not None),
        ("attention that is not causal", not (asked.get("is_causal") or getattr(module, "is_causal", True))),
        ("sinks that learn", sinks is not None and sinks.requires_grad),
        ("numbers of several types", not q.dtype == k.dtype == v.dtype),
        ("several sequences", len(q) != 1),
    ):
        if there:
            raise Unable(what)
    pack.seen.append(window)
    scale = asked.get("scaling")
    rule = Rule(q.shape[-1] ** -0.5 if scale is None else float(scale), asked.get("softcap"), window)
    return _Flat.apply(q[0], k[0], v[0], pack, rule, sinks)[None], None  # type: ignore[no-untyped-call]


def _dispatch(name: str) -> Callable[..., Any]:
    """Return an attention function that is the one of this name unless it is given a pack."""

    @functools.wraps(_flat)
    def attend(
        module: Any,
        query: Any,
        key: Any,
        value: Any,
        mask: Any,
        *rest: Any,
        pack: Pack | None = None,
        **asked: Any,
    ) -> Any:
        if pack is not None:
            if name == "sdpa":  # knows neither caps nor sinks: transformers refuses them there or drops them
                asked |= {"softcap": None, "s_aux": None}
            return _flat(module, query, key, value, pack, asked)
        usual: Any = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
        usual = ALL_ATTENTION_FUNCTIONS.get_interface(name, usual)
        return usual(module, query, key, value, mask, *rest, **asked)

    return attend


def attends_flat(config: Any) -> None:
    """Let a model of this text configuration attend to packs where it is given one, and as ever where not.

    It stays so: a layer that is computed again on the way back has to find what it found before.

    Raises:
        Unable: It has another implementation than the two that need nothing but a mask.
    """
    name = config._attn_implementation
    if name.startswith(FLAT):
        return
    if name not in ("eager", "sdpa"):
        raise Unable(f"the attention implementation {name}")
    AttentionInterface.register(FLAT + name, _dispatch(name))
    AttentionMaskInterface.register(FLAT + name, ALL_MASK_ATTENTION_FUNCTIONS[name])
    config._attn_implementation = FLAT + name
