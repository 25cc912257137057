"""The least that playing and learning take: every token read once, at the rates that a machine reaches."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

BYTES = {torch.float32: 4, torch.bfloat16: 2}


@dataclass(frozen=True, slots=True)
class Shape:
    """A Qwen3: hidden and inner sizes, layers, query and key-value heads, their size, vocabulary, tied
    embeddings."""

    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool = True

    @classmethod
    def of(cls, config: Any) -> Shape:
        """Return the shape that a model's configuration states."""
        sizes = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
        sizes += ("num_key_value_heads", "head_dim", "vocab_size", "tie_word_embeddings")
        return cls(*(getattr(config, name) for name in sizes))

    @property
    def body(self) -> int:
        """Parameters of all layers: what each token is multiplied with, but for the head."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.inner)

    def adapter(self, rank: int) -> int:
        """Parameters of a LoRA adapter on all linear layers but the head."""
        query, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = 2 * (self.hidden + query) + 2 * (self.hidden + keys)
        return rank * self.layers * (attention + 3 * (self.hidden + self.inner))

    @property
    def head(self) -> int:
        """Parameters of the output layer."""
        return self.hidden * self.vocabulary

    @property
    def kv(self) -> int:
        """Numbers that are kept of one token."""
        return 2 * self.layers * self.kv_heads * self.head_dim


SHAPES = {"7 M": Shape(320, 960, 6, 8, 4, 40, 1024), "29 M": Shape(576, 1728, 8, 8, 4, 72, 1024)}


@dataclass(frozen=True, slots=True)
class Work:
    """Groups of `group` episodes on `prompts` prompts: `turns` completions of `new` tokens, `reply` tokens
    between two."""

    prompts: int = 1
    group: int = 8
    prompt: int = 128
    turns: int = 1
    new: int = 32
    reply: int = 24

    @property
    def rows(self) -> int:
        """Episodes."""
        return self.prompts * self.group

    @property
    def longest(self) -> int:
        """Tokens of a whole episode."""
        return self.prompt + self.turns * self.new + (self.turns - 1) * self.reply


@dataclass(frozen=True, slots=True)
class Machine:
    """What the machine was measured to do: bytes read or written a second, and operations a second."""

    bandwidth: float
    flops: float


def floor(
    shape: Shape, work: Work, machine: Machine, width: int, *, weight_bytes: float | None = None
) -> dict[str, float]:
    """Return the least seconds, FLOPs and bytes of a work: each prompt read once, every other token once a
    row.

    A pass takes the longer of its bytes (all weights once, the keys and values of every row) and its
    operations (2 a parameter and token, 4 a head dimension and position for attention). Weights that fit a
    processor's cache can be read faster than this.

    Args:
        shape: Of the model.
        work: What is played.
        machine: What was measured.
        width: Bytes of a number in keys and values.
        weight_bytes: Of all weights that are read in a pass; None: width for each.
    """
    weights = float(width * (shape.body + shape.head)) if weight_bytes is None else weight_bytes
    total = {"seconds": 0.0, "flops": 0.0, "bytes": 0.0}

    def passed(rows: int, tokens: int, context: int) -> None:
        attention = 4.0 * shape.layers * shape.heads * shape.head_dim * tokens * (context - tokens / 2)
        flops = rows * (2.0 * shape.body * tokens + 2.0 * shape.head + attention)
        moved = weights + rows * width * float(shape.kv) * context
        total["flops"] += flops
        total["bytes"] += moved
        total["seconds"] += max(moved / machine.bandwidth, flops / machine.flops)

    passed(work.prompts, work.prompt, work.prompt)
    context = work.prompt
    for turn in range(work.turns):
        if turn:
            context += work.reply + 1
            passed(work.rows, work.reply + 1, context)
        for _ in range(work.new - 1):
            context += 1
            passed(work.rows, 1, context)
    return total


@dataclass(frozen=True, slots=True)
class Talk:
    """An episode in tokens: of its prompt, of all behind it, and of these the policy's own; equal `opening`,
    one prompt."""

    opening: Hashable
    prompt: int
    after: int
    written: int
    turns: int


def least_work(shape: Shape, talks: Sequence[Talk], rank: int) -> dict[str, float]:
    """Return the FLOPs that some episodes take at least: each prompt is read once, and every other token once
    a row.

    `read`: prompts and observations, forward. `written`: the policy's tokens, forward, and the head for each
    of them; where in an episode they stand is not known here, so attention is dealt out evenly. `learned`:
    forward through base and adapter and backward (the base's weights have no gradient), of the same tokens.
    Norms, activations, softmax and sampling are left out, and so are the optimizer and everything that is no
    product of matrices.

    Args:
        shape: Of the model.
        talks: All episodes of one set of weights, or of several with openings that tell them apart.
        rank: Of the adapter; 0: nothing is learned.
    """
    look, body, head = 4.0 * shape.layers * shape.heads * shape.head_dim, 2.0 * shape.body, 2.0 * shape.head
    prompts = {talk.opening: talk.prompt for talk in talks}.values()
    read, written = sum(body * n + look * n * (n + 1) / 2 for n in prompts), 0.0
    tokens, looks = float(sum(prompts)), sum(look * n * (n + 1) / 2 for n in prompts)
    for talk in talks:
        seen = max(0, talk.after - 1)  # behind the last token comes nothing
        attention = look * seen * (talk.prompt + (seen + 1) / 2)
        share = max(0, talk.written - 1) / seen if seen else 0.0
        read += (1.0 - share) * (body * seen + attention)
        written += share * (body * seen + attention) + head * talk.written
        tokens, looks = tokens + seen, looks + attention
    adapter, scored = 2.0 * shape.adapter(rank), head * sum(talk.written for talk in talks)
    learned = (2 * body + 3 * adapter) * tokens + 3 * looks + 2 * scored if rank else 0.0
    return {"read": read, "written": written, "learned": learned}


def product_rate(shape: Shape, rows: int) -> float:
    """Measure operations a second of the model's widest product, [rows, hidden] by [hidden, inner], in
    float32; best of 5."""
    left, right = torch.ones(rows, shape.hidden), torch.ones(shape.hidden, shape.inner)
    out, flops = torch.empty(rows, shape.inner), 2.0 * rows * shape.hidden * shape.inner
    repeats, seconds = max(1, int(2e8 / flops)), []
    for _ in range(6):
        began = time.perf_counter()
        for _ in range(repeats):
            torch.mm(left, right, out=out)
        seconds.append(time.perf_counter() - began)
    return repeats * flops / min(seconds[1:])


def probe(device: str, dtype: torch.dtype) -> Machine:
    """Measure the machine: bytes a second of a copy (read and written), operations a second of a matrix
    product; best of 5."""
    size, side = (2**30, 8192) if device == "cuda" else (2**27, 1024)
    source, square = torch.ones(size // 4, device=device), torch.ones(side, side, device=device, dtype=dtype)
    target, product = torch.empty_like(source), torch.empty_like(square)

    def best(action: Any) -> float:
        seconds = []
        for _ in range(6):
            if device == "cuda":
                torch.cuda.synchronize()
            began = time.perf_counter()
            action()
            if device == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - began)
        return min(seconds[1:])

    copied = best(lambda: target.copy_(source))
    multiplied = best(lambda: torch.mm(square, square, out=product))
    return Machine(2 * size / copied, 2 * float(side) ** 3 / multiplied)
