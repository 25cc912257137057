"""Keys and values of a batch of conversations, written in place: a row's tokens stand at its own next
places."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache

# Places are reserved in steps of so many: growing copies what is there, which costs as much as a step of
# decoding.
STEP = 64

Slots = np.ndarray[Any, np.dtype[np.int64]]


def reserved_for(length: int) -> int:
    """Return the places that are reserved for a row of so many tokens.

    >>> [reserved_for(n) for n in (1, 64, 65)]
    [64, 64, 128]
    """
    return -(-length // STEP) * STEP


class KeyValues(Cache):
    """A cache for transformers of [slots, heads, capacity, dimension] a layer, in which each row has its own
    length.

    A forward pass is announced by `aim`: to which slots it belongs and to which places its tokens go. What
    stands behind a row's last token is of no row, finite, and overwritten when the row goes on; masks hide it
    until then.
    """

    def __init__(self) -> None:
        super().__init__(layers=[])
        self._stored: dict[int, list[torch.Tensor]] = {}
        self._first, self._places, self._used = 0, torch.zeros(0, 0, dtype=torch.long), 0
        self._targets: dict[int, torch.Tensor] = {}
        self.slots = self.capacity = 0

    def reserve(self, slots: int, length: int) -> None:
        """Make room for so many rows of so many tokens; what is stored stays."""
        slots, capacity = max(slots, self.slots), max(reserved_for(length), self.capacity)
        if (slots, capacity) == (self.slots, self.capacity):
            return
        for pair in self._stored.values():
            # One at a time, so that no more than one tensor is there twice
            for index, old in enumerate(pair):
                pair[index] = old.new_zeros(slots, old.shape[1], capacity, old.shape[3])
                pair[index][: old.shape[0], :, : old.shape[2]] = old
        self.slots, self.capacity = slots, capacity

    def aim(self, first: int, places: torch.Tensor, used: int) -> None:
        """Say where the next forward pass writes, and what of the cache it reads.

        Args:
            first: The first of its slots, which are neighbours.
            places: Of its tokens, [rows, width].
            used: Places from the beginning that are read.
        """
        self._first, self._places, self._used = first, places, used
        self._targets = {}

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store what a layer has computed, [rows, heads, width, dimension], and return all that its rows may
        look at."""
        pair = self._stored.get(layer_idx)
        if pair is None:
            # Zeros, not whatever memory holds: what a mask hides still is multiplied by 0, and 0 times NaN is
            # NaN.
            pair = self._stored[layer_idx] = [
                new.new_zeros(self.slots, new.shape[1], self.capacity, new.shape[3])
                for new in (key_states, value_states)
            ]
        rows, heads = key_states.shape[:2]
        target = self._targets.get(heads)
        if target is None:
            lines = torch.arange(self._first * heads, (self._first + rows) * heads, device=key_states.device)
            target = (lines.view(rows, heads, 1) * self.capacity + self._places[:, None, :]).flatten()
            self._targets[heads] = target
        for stored, new in zip(pair, (key_states, value_states), strict=True):
            stored.view(-1, stored.shape[3]).index_copy_(0, target, new.reshape(-1, new.shape[3]))
        keys, values = (stored[self._first : self._first + rows, :, : self._used] for stored in pair)
        return keys, values

    def copy(self, source: Slots, target: Slots, length: int) -> None:
        """Copy rows of at most `length` tokens to other slots; all is read before anything is written."""
        if not len(source):
            return
        for pair in self._stored.values():
            for stored in pair:
                one, other = (torch.as_tensor(slots, device=stored.device) for slots in (source, target))
                part = stored[:, :, :length]
                part.index_copy_(0, other, part[one])  # index_select is slow on what is not contiguous

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the places that the forward pass under way may look at."""
        return self._used


def bias(places: torch.Tensor, used: int, dtype: torch.dtype, window: int | None = None) -> torch.Tensor:
    """Return what is added to attention scores, [rows, 1, width, used]: a token looks at what stands not
    behind it.

    Args:
        places: Of the tokens that look, [rows, width].
        used: Places that are looked at.
        dtype: Of the scores.
        window: How many places, its own included, a token of a sliding layer looks back.
    """
    key = torch.arange(used, device=places.device)
    seen = key <= places[:, :, None]
    if window is not None:
        seen &= key > places[:, :, None] - window
    nothing = torch.zeros((), dtype=dtype, device=places.device)
    return torch.where(seen, nothing, torch.finfo(dtype).min)[:, None]
