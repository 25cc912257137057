"""Decoding at fixed shapes: one step is captured as a CUDA graph and replayed for each token, instead of
being launched.

A small model on a GPU spends most of a step on launching kernels. What is captured reads and writes the same
memory each time, so keys and values outlast a conversation, at the size that was needed most, and rows and
places are rounded up. On a CPU the same steps run uncaptured, which is what the tests see; the capture itself
has not been run by a test.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from assay.rollout.policy.engine.kv_cache import KeyValues

ROWS, PLACES = 8, 256  # in steps of so many; fewer rows than that are rounded up to a power of two

Forward = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]


@dataclass(slots=True)
class _Captured:
    """What a step reads (ids and places, [rows, 1]) and leaves (logits), and the graph; None on a CPU."""

    ids: torch.Tensor
    places: torch.Tensor
    logits: torch.Tensor | None = None
    graph: Any = None


@dataclass(slots=True)
class Arena:
    """The memory of one model's conversations, one batch after another, and the steps that were captured on
    it."""

    cache: KeyValues = field(default_factory=KeyValues)
    steps: dict[tuple[int, int], _Captured] = field(default_factory=dict)
    holder: int = 0
    weights: tuple[Any, ...] = ()
    size: tuple[int, int] = (0, 0)
    pool: Any = None

    def forget_if_moved(self) -> None:
        """Drop what was captured on memory that has been given up for larger."""
        if self.size != (self.cache.slots, self.cache.capacity):
            self.steps.clear()
            self.size = (self.cache.slots, self.cache.capacity)


_ARENAS: weakref.WeakKeyDictionary[Any, Arena] = weakref.WeakKeyDictionary()


def arena_of(model: Any) -> Arena:
    """Return the memory of a model for one more batch of conversations; those before must have ended.

    What was captured on other weights is dropped: a graph holds addresses, and a weight may have been put
    elsewhere. So is what was captured with an adapter that has since been switched on or off. Weights that
    change in place, as an optimizer changes them, stay valid.
    """
    arena = _ARENAS.setdefault(model, Arena())
    weights: tuple[Any, ...] = tuple(parameter.data_ptr() for parameter in model.parameters())
    weights += tuple(
        (x.disable_adapters, *x.active_adapters) for x in model.modules() if hasattr(x, "lora_A")
    )
    if weights != arena.weights:
        arena.steps.clear()
    arena.weights, arena.holder = weights, arena.holder + 1
    return arena


def rounded_rows(rows: int) -> int:
    """Return the rows of the step that serves so many.

    >>> [rounded_rows(n) for n in (1, 3, 8, 9, 64)]
    [1, 4, 8, 16, 64]
    """
    return -(-rows // ROWS) * ROWS if rows > ROWS else 1 << (rows - 1).bit_length()


def static_steps(
    arena: Arena, forward: Forward, rows: int, lengths: np.ndarray[Any, Any], device: torch.device
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return what takes one chosen token for each of the first rows and gives the logits behind it, again and
    again.

    Args:
        arena: Holds what was read so far; this may make it larger.
        forward: Given ids and places, [rows, 1], and the places that are looked at, returns logits [rows,
            vocabulary].
        rows: Conversations that are fed.
        lengths: Tokens of every slot so far. A slot beyond `rows` is fed too, where the rounding reaches it;
            what that leaves stands behind its last token, where nothing looks.
        device: Where the model is.
    """
    padded = rounded_rows(rows)
    begin = np.zeros(padded, np.int64)
    begin[: len(lengths)] = lengths[:padded]
    longest, taken = int(begin.max()), 0
    places = torch.as_tensor(begin[:, None], device=device)
    ids = torch.zeros_like(places)

    def step(chosen: torch.Tensor) -> torch.Tensor:
        nonlocal taken
        used = -(-(longest + taken + 1) // PLACES) * PLACES
        arena.cache.reserve(padded, used)
        arena.forget_if_moved()
        ids[:rows, 0] = chosen
        found = arena.steps.get((padded, used))
        if found is None:
            found = arena.steps[padded, used] = _Captured(ids.clone(), places + taken)
            if device.type == "cuda":
                _capture(arena, found, forward, used)
        found.ids.copy_(ids)
        found.places.copy_(places + taken)
        taken += 1
        if found.graph is None:
            return forward(found.ids, found.places, used)[:rows]
        found.graph.replay()
        assert found.logits is not None
        return found.logits[:rows]

    return step


def _capture(arena: Arena, step: _Captured, forward: Forward, used: int) -> None:
    """Capture a step. Running it before writes only what the first replay writes again."""
    beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        # Libraries that reserve memory at their first calls must not do so while it is captured
        for _ in range(2):
            forward(step.ids, step.places, used)
    torch.cuda.current_stream().wait_stream(beside)
    if arena.pool is None:
        arena.pool = torch.cuda.graph_pool_handle()
    step.graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(step.graph, pool=arena.pool):
        step.logits = forward(step.ids, step.places, used)
