"""The choice of a token from logits, and bounds to it: what a row may write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

Bits = NDArray[np.int32]


class Bound(Protocol):
    """What one row may write, token after token: `grammar.SchemaBound`."""

    def begin(self) -> None:
        """Begin another completion."""
        ...

    def fill(self, bits: Bits) -> None:
        """Take from the bits of a row, one for each logit, the tokens that may not come next."""
        ...

    def take(self, token: int) -> None:
        """Go on behind a token that was chosen."""
        ...


def masked(logits: torch.Tensor, bounds: Sequence[Bound | None]) -> torch.Tensor:
    """Return logits [rows, vocabulary] that are minus infinity wherever the bound of a row says so."""
    size = logits.shape[1]
    every = np.packbits(np.arange(-(-size // 32) * 32) < size, bitorder="little").view(np.int32)
    bits = np.tile(every, (len(bounds), 1))
    for row, bound in enumerate(bounds):
        if bound is not None:
            bound.fill(bits[row])
    allowed = np.unpackbits(bits.view(np.uint8), axis=1, count=size, bitorder="little").astype(bool)
    return logits.masked_fill(~torch.as_tensor(allowed, device=logits.device), float("-inf"))


# Of a vocabulary, in one block of the two-level search; a smaller vocabulary is one block.
BLOCK = 1024


def choose(
    logits: torch.Tensor, temperature: float, noise: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pick one token a row and return ids [rows] and their log-probabilities [rows] under the sampling
    distribution.

    Args:
        logits: [rows, vocabulary], float32.
        temperature: 0 takes the likeliest; its log-probability is that at temperature 1.
        noise: A uniform number in [0, 1) a row, float64 [rows]; the token is where the distribution function
            passes it.
    """
    if temperature == 0 or noise is None:
        logprobs = torch.log_softmax(logits, dim=-1)
        ids = logits.argmax(dim=-1)
    else:
        logprobs = torch.log_softmax(logits if temperature == 1 else logits / temperature, dim=-1)
        ids = _inverse(logprobs, noise) if logits.shape[1] <= BLOCK else _inverse_by_blocks(logprobs, noise)
    return ids, logprobs.gather(1, ids[:, None]).squeeze(1)


def _inverse(logprobs: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    # Sums in float64 of float32 terms: what is added up in which order does not decide a token.
    cdf = logprobs.exp().cumsum(dim=-1, dtype=torch.float64)
    return _passed(cdf, noise[:, None] * cdf[:, -1:])


def _passed(cdf: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the first place [rows] at which each row of a distribution function is greater than its target
    [rows, 1]."""
    return torch.searchsorted(cdf, target, right=True).squeeze(1).clamp_(max=cdf.shape[1] - 1)


def _inverse_by_blocks(logprobs: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Find the block in which the noise falls, then the place in it: no running sum over a whole
    vocabulary."""
    rows, size = logprobs.shape
    padded = torch.nn.functional.pad(logprobs, (0, -size % BLOCK), value=float("-inf"))
    blocks = padded.view(rows, -1, BLOCK)
    ends = blocks.exp().sum(dim=-1, dtype=torch.float64).cumsum(dim=-1)
    target = noise[:, None] * ends[:, -1:]
    block = _passed(ends, target)
    inside = blocks[torch.arange(rows, device=logprobs.device), block].exp().double()
    before = torch.nn.functional.pad(ends, (1, 0)).gather(1, block[:, None])
    # At a border the two sums may differ in their last bits: the last place with any probability is the last
    # that counts.
    last = (inside > 0).int().cumsum(dim=-1).argmax(dim=-1)
    return (block * BLOCK + torch.minimum(_passed(inside.cumsum(dim=-1), target - before), last)).clamp_(
        max=size - 1
    )
