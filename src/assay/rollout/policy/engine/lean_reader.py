"""The second way to read and to decode (`generation.backend: lean`): passes over plain tensors, and a prompt
that rows share is kept and attended to once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from assay.rollout.policy.engine.context import windows_of
from assay.rollout.policy.engine.kv_cache import Slots, bias
from assay.rollout.policy.engine.lean_forward import Look, Shared, Stored, forward
from assay.rollout.policy.engine.lean_prompts import Prompts, pays
from assay.rollout.policy.engine.lean_weights import weights_of
from assay.rollout.policy.engine.shared_prompts import read_once

# Steps whose places are computed together.
AHEAD = 16


class LeanReader:
    """Does what `engine.Reader` does, for models that are known exactly.

    Args:
        model: A causal language model; its weights are taken as they are now.
        pad_id: Any valid token id.

    Raises:
        PolicyError: No engine of ours can serve the model.
        Unserved: This one cannot.
    """

    def __init__(self, model: Any, pad_id: int) -> None:
        model = model.get_base_model() if hasattr(model, "get_base_model") else model
        windows = windows_of(model.config, recurrent=bool(getattr(model, "_is_stateful", False)))
        self._weights, self._pad = weights_of(model, windows), pad_id
        self.device, self._dtype = self._weights.embedding.device, self._weights.embedding.dtype
        self._windows = {layer.window for layer in self._weights.layers}
        self._turns = self._weights.turns(0)
        self.cache = Stored(self._weights)
        self._prompts: Prompts | None = None
        self._opened = False

    def open(self, begun: int, prompts: Sequence[Sequence[int]]) -> tuple[Slots, torch.Tensor]:
        """Read prompts behind the slots in use; return the slot of each and, by slot, the next-token
        logits."""
        if not self._opened and self._windows == {None} and pays(prompts):
            self._prompts = Prompts(self._weights)
        self._opened, held = True, self._prompts
        if held is None:
            return read_once(self, begun, prompts)

        def read(first: int, texts: Sequence[Sequence[int]]) -> torch.Tensor:
            nothing = np.zeros(len(texts), np.int64)
            return self._pass(held.stored, first, texts, nothing, nothing, None)

        return held.take(begun, prompts, read)

    def move(self, source: Slots, target: Slots, length: int) -> None:
        """Copy rows of at most `length` tokens to other slots; all is read before anything is written."""
        if self._prompts is not None and len(source):
            length -= int(self._prompts.lengths(source).min())
            self._prompts.of[target] = self._prompts.of[source]
            # Rows that have read no more than their prompt have no slot yet
            self.cache.reserve(int(max(source.max(), target.max())) + 1, 0)
        self.cache.copy(source, target, length)

    def read(self, first: int, blocks: Sequence[Sequence[int]], lengths: Slots) -> torch.Tensor:
        """Append a block of ids to each of neighbouring rows, as `engine.Reader.read` does."""
        if self._prompts is None:
            return self._pass(self.cache, first, blocks, lengths, np.zeros_like(lengths), None)
        assert first == 0, "rows that share prompts are told together"
        self._prompts.forget(len(blocks))
        begins = self._prompts.lengths(slice(None))
        return self._pass(self.cache, 0, blocks, lengths - begins, begins, self._prompts.shared(len(blocks)))

    def _pass(
        self,
        stored: Stored,
        first: int,
        blocks: Sequence[Sequence[int]],
        lengths: Slots,
        begins: Slots,
        shared: Shared | None,
        *,
        whole: bool = False,
    ) -> torch.Tensor:
        """Read blocks behind `lengths` tokens of each row's own, which begin behind `begins` of a prompt."""
        sizes = np.asarray([len(block) for block in blocks])
        rows, width, used = len(blocks), int(sizes.max()), int((lengths + sizes.max()).max())
        # Padded on the left; the padding is put behind a row's new tokens
        column = np.arange(width) - (width - sizes)[:, None]
        ids = np.full((rows, width), self._pad, np.int64)
        ids[column >= 0] = np.concatenate([np.asarray(block, np.int64) for block in blocks])
        places = lengths[:, None] + np.where(column >= 0, column, column + width)
        stored.reserve(first + rows, used)
        sent = torch.as_tensor(np.stack([ids, places, begins[:, None] + places]), device=self.device)
        looking = sent[1] if (places != places[0]).any() else sent[1, :1]
        masks = {
            window: bias(looking, used, self._dtype, window).repeat_interleave(self._weights.repeats, 2)
            for window in self._windows
        }
        turns = self._turned(sent[2].flatten(), int(begins.max()) + used)
        target = stored.targets(first, sent[1]).flatten()
        look = Look(first, rows, width, turns, target, masks, used, shared, whole)
        return forward(self._weights, stored, sent[0].flatten(), look)

    def steps(self, rows: int, lengths: Slots, most: int) -> Callable[[torch.Tensor], torch.Tensor]:
        """Return what takes one chosen token for each of the first rows and gives the logits behind it, at
        most so many times."""
        looks = self._looks(rows, lengths[:rows], most)

        def step(chosen: torch.Tensor) -> torch.Tensor:
            return forward(self._weights, self.cache, chosen, next(looks))

        return step

    def wide(self, rows: int) -> Callable[[Sequence[Sequence[int]], Slots], torch.Tensor]:
        """Return what takes equally many tokens for each of the first rows, behind `lengths` others, and
        gives the logits behind every one, [rows, width, vocabulary]."""
        begins, shared = self._beside(rows)

        def read(blocks: Sequence[Sequence[int]], lengths: Slots) -> torch.Tensor:
            logits = self._pass(self.cache, 0, blocks, lengths - begins, begins, shared, whole=True)
            return logits.view(rows, -1, logits.shape[1])

        return read

    def _beside(self, rows: int) -> tuple[Slots, Shared | None]:
        """Return how long the prompts that the first rows share are, and these prompts."""
        if self._prompts is None:
            return np.zeros(rows, np.int64), None
        return self._prompts.lengths(slice(rows)), self._prompts.shared(rows)

    def _looks(self, rows: int, lengths: Slots, most: int) -> Iterator[Look]:
        begins, shared = self._beside(rows)
        own, farthest = lengths - begins, int(lengths.max()) + most
        longest = int(own.max())
        self.cache.reserve(rows, longest + most)
        places, positions = torch.as_tensor(np.stack([own, lengths]), device=self.device)[:, :, None]
        # What a token sees moves on with its place, so that the mask of each step is a part of one
        reach = longest + most + 1
        whole = {window: bias(places + most, reach, self._dtype, window) for window in self._windows}
        for begun in range(0, most, AHEAD):
            ahead = torch.arange(begun, min(begun + AHEAD, most), device=self.device)
            targets = self.cache.targets(0, places + ahead).transpose(0, 1).flatten(1)
            turns = self._turned((positions + ahead).t().flatten(), farthest)
            turns = turns.view(len(ahead), rows, 1, -1)
            for step in range(len(ahead)):
                gone = begun + step
                used = longest + gone + 1
                masks = {
                    window: mask[..., most - gone : most - gone + used] for window, mask in whole.items()
                }
                yield Look(0, rows, 1, turns[step], targets[step], masks, used, shared)

    def _turned(self, positions: torch.Tensor, places: int) -> torch.Tensor:
        """Return by what the tokens at some positions, all below `places`, are turned."""
        if len(self._turns) < places:
            self._turns = self._weights.turns(2 * places)
        return self._turns.index_select(0, positions)
