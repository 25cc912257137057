"""Prompts that rows share, kept once, and who shares which."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from assay.rollout.policy.engine.kv_cache import Slots
from assay.rollout.policy.engine.lean_forward import Shared, Stored
from assay.rollout.policy.engine.lean_weights import Weights
from assay.rollout.policy.engine.shared_prompts import Text, different, portions

# Tokens of prompt that a row must save on the average for prompts to be kept apart from rows.
LEAST_SAVED = 48


def pays(prompts: Sequence[Sequence[int]]) -> bool:
    """Return whether keeping prompts apart saves enough to be worth attending in two parts."""
    texts, _ = different(prompts)
    saved = sum(map(len, prompts)) - sum(map(len, texts))
    return saved >= LEAST_SAVED * len(prompts)


class Prompts:
    """Each different prompt, as long as there is a row that shares it."""

    def __init__(self, weights: Weights) -> None:
        self.stored = Stored(weights)
        self.of = np.zeros(0, np.int64)  # by slot of a row: the number of its prompt
        self._texts: list[Text] = []
        self._lengths = np.zeros(0, np.int64)
        self._logits = weights.embedding.new_zeros(0, weights.head.weight.shape[1])  # of what comes next

    def take(
        self,
        begun: int,
        prompts: Sequence[Sequence[int]],
        read: Callable[[int, Sequence[Text]], torch.Tensor],
    ) -> tuple[Slots, torch.Tensor]:
        """Give new rows, behind those there are, their prompts; those of one prompt become neighbours.

        Args:
            begun: Rows there are.
            prompts: Of the new rows.
            read: Given the place of the first and texts, stores them and returns their next-token logits.

        Returns:
            The slot of each new row, and the next-token logits by slot.
        """
        self.forget(begun)
        texts, which = different(prompts)
        new = [text for text in texts if text not in self._texts]
        there = len(self._texts)
        self.stored.reserve(there + len(new), max(map(len, new), default=0))
        told = [read(there + start, part) for start, part in portions(new)]
        self._logits = torch.cat([self._logits, *told])
        self._lengths = np.concatenate([self._lengths, np.asarray([len(text) for text in new], np.int64)])
        self._texts += new
        number = {text: k for k, text in enumerate(self._texts)}
        kinds = np.asarray([number[texts[k]] for k in which], np.int64)
        order = np.argsort(kinds, kind="stable")
        self.of = np.concatenate([self.of, kinds[order]])
        logits = self._logits[torch.as_tensor(kinds[order], device=self._logits.device)]
        return begun + np.argsort(order), logits

    def forget(self, rows: int) -> None:
        """Drop what none of the first rows shares; there are no further ones."""
        self.of = self.of[:rows]
        kept = np.unique(self.of)
        if len(kept) < len(self._texts):
            self.stored.keep(kept)
            self._texts, self._lengths = [self._texts[k] for k in kept], self._lengths[kept]
            self._logits = self._logits[torch.as_tensor(kept, device=self._logits.device)]
            self.of = np.searchsorted(kept, self.of)

    def lengths(self, slots: Slots | slice) -> Slots:
        """Return how long the prompts of some rows are."""
        found: Slots = self._lengths[self.of[slots]]
        return found

    def shared(self, rows: int) -> Shared:
        """Return what the first rows look at together: groups filled up to the largest."""
        of, device = self.of[:rows], self._logits.device
        counts = np.bincount(of, minlength=len(self._texts))
        members, sort = int(counts.max()), np.argsort(of, kind="stable")
        back = np.empty(rows, np.int64)
        back[sort] = of[sort] * members + np.arange(rows) - (np.cumsum(counts) - counts)[of[sort]]
        order = np.zeros(len(counts) * members, np.int64)
        order[back] = np.arange(rows)
        apart = len(order) != rows or bool((order != np.arange(rows)).any())
        used = int(self._lengths.max())
        mask = None
        if int(self._lengths.min()) < used:
            hidden = np.arange(used) >= self._lengths[:, None]
            lowest = torch.finfo(self._logits.dtype).min
            mask = torch.as_tensor(hidden, device=device)[:, None, None] * torch.tensor(lowest, device=device)
        one, other = (torch.as_tensor(x, device=device) if apart else None for x in (order, back))
        return Shared(self.stored, used, one, other, mask)
