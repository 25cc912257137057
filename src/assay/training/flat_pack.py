"""Who looks at whom in one packed sequence: where prompts and the rows that share them lie, and how far each
token sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch


class Rule(NamedTuple):
    """How scores are made: q k scaled, then capped at +-softcap, and seen up to window - 1 tokens back."""

    scale: float
    softcap: float | None
    window: int | None


class Reach(NamedTuple):
    """The last key that each query sees, on the device and here."""

    there: torch.Tensor
    here: np.ndarray[Any, np.dtype[np.int64]]

    @classmethod
    def of(cls, places: np.ndarray[Any, np.dtype[np.int64]], device: torch.device) -> Reach:
        """Return the reach of queries at these places."""
        return cls(torch.as_tensor(places, device=device), places)


def split(x: torch.Tensor, dim: int, parts: int) -> torch.Tensor:
    """Return x with one dimension made two, of so many parts each."""
    return x.reshape(*x.shape[:dim], parts, x.shape[dim] // parts, *x.shape[dim + 1 :])


class Stretch:
    """A prompt's tokens (0: none) and those of the rows behind it, one piece of a pack.

    Args:
        start: Where it begins.
        prompt: Tokens of the prompt.
        rows: Tokens of each row, at least one each.
        device: Of the pack.
    """

    def __init__(self, start: int, prompt: int, rows: Sequence[int], device: torch.device) -> None:
        self.prompt, self.n_rows, self.width = prompt, len(rows), max(rows, default=0)
        self.read = slice(start, start + prompt)
        self.own = slice(start + prompt, start + prompt + sum(rows))
        self.longest = prompt + self.width
        lengths = np.array(rows, np.int64)
        firsts = lengths.cumsum() - lengths
        steps = np.arange(self.width)
        self._even = len(set(rows)) <= 1
        # Where a row has ended stands its last token again, which nothing real looks at
        padded = (firsts[:, None] + np.minimum(steps, lengths[:, None] - 1)).ravel()
        self._padded = torch.as_tensor(padded, device=device)
        self._real = torch.as_tensor((steps < lengths[:, None]).ravel().nonzero()[0], device=device)
        self.causal = Reach.of(steps, device)
        self.causal_prompt = Reach.of(np.arange(prompt), device)
        self.last_of_prompt = Reach.of(np.array([prompt - 1]), device)
        self.asked: torch.Tensor | None = None  # the rows' tokens that something is asked of; None: all
        self.positions = np.concatenate([np.arange(n) for n in rows]) if rows else steps

    def rows_of(self, x: torch.Tensor) -> torch.Tensor:
        """Return the rows' [H, tokens, ...] as [R, H, width, ...], each padded to the longest."""
        if not self._even:
            x = x.index_select(1, self._padded)
        return split(x, 1, self.n_rows).transpose(0, 1)

    def tokens_of(self, x: torch.Tensor) -> torch.Tensor:
        """Return what `rows_of` made as [H, tokens, ...] again, without the padding."""
        x = x.transpose(0, 1).flatten(1, 2)
        return x if self._even else x.index_select(1, self._real)

    def padded(self, x: torch.Tensor) -> torch.Tensor:
        """Return gradients [H, tokens, ...] as `rows_of` does, but 0 where a row has ended."""
        if not self._even:
            x = x.new_zeros(len(x), len(self._padded), *x.shape[2:]).index_copy(1, self._real, x)
        return split(x, 1, self.n_rows).transpose(0, 1)


class Pack:
    """One sequence of several stretches, and what the layers that attended to it were like (`seen`)."""

    def __init__(self, stretches: Sequence[Stretch]) -> None:
        self.stretches = stretches
        self.longest = max(each.longest for each in stretches)
        self.seen: list[int | None] = []  # the window of each layer

    def keep(self, places: torch.Tensor) -> None:
        """Note of which places something is asked in the end: tokens of rows and the last one of a prompt."""
        asked = torch.unique(places)
        for each in self.stretches:
            own = asked[(asked >= each.own.start) & (asked < each.own.stop)]
            each.asked = own - each.own.start
