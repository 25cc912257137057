"""Prompts that come together: equal ones are read once, and copied to the slots of the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from assay.rollout.policy.engine.kv_cache import Slots

# Tokens in one forward pass that reads prompts: bounds the memory of its activations and masks.
READ_AT_ONCE = 16_384

Text = tuple[int, ...]


class _Reads(Protocol):
    cache: Any

    def read(self, first: int, blocks: Sequence[Sequence[int]], lengths: Slots) -> torch.Tensor: ...


def different(prompts: Sequence[Sequence[int]]) -> tuple[list[Text], Slots]:
    """Return the different texts, longest first so that little is padded, and which of them each prompt
    is."""
    unique: dict[Text, int] = {}
    which = np.asarray([unique.setdefault(tuple(ids), len(unique)) for ids in prompts], np.int64)
    texts = list(unique)
    order = sorted(range(len(texts)), key=lambda k: -len(texts[k]))
    return [texts[k] for k in order], np.argsort(order)[which]


def portions(texts: Sequence[Text], at_once: int = READ_AT_ONCE) -> Iterator[tuple[int, Sequence[Text]]]:
    """Yield what is read in one pass, with the number of its first text."""
    start = 0
    while start < len(texts):
        stop = start + max(1, at_once // len(texts[start]))
        yield start, texts[start:stop]
        start = stop


def read_once(reader: _Reads, begun: int, prompts: Sequence[Sequence[int]]) -> tuple[Slots, torch.Tensor]:
    """Read prompts behind the slots in use; return the slot of each and, by slot, the next-token logits.

    Each different prompt is read in the slot of its first copy, all of them in neighbouring slots.
    """
    texts, kinds = different(prompts)
    n, longest = len(prompts), len(texts[0])
    reader.cache.reserve(begun + n, longest)
    read = [
        reader.read(begun + start, part, np.zeros(len(part), np.int64)) for start, part in portions(texts)
    ]
    place, slots, taken = len(texts), kinds.copy(), set[int]()
    for row, kind in enumerate(kinds.tolist()):
        if kind in taken:
            slots[row], place = place, place + 1
        taken.add(kind)
    copies = slots != kinds
    reader.cache.copy(begun + kinds[copies], begun + slots[copies], longest)
    logits = torch.cat(read)
    return begun + slots, logits[torch.as_tensor(kinds[np.argsort(slots)], device=logits.device)]
