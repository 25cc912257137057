"""The one rollout engine: batched multi-turn decoding whose KV cache and token ids are carried from turn to turn."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from assay.policy.decoding import Decoding
from assay.seeds import keyed_uniform

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Completion:
    """Token ids of one completion and the log-probability of each under the sampling distribution."""

    ids: list[int]
    logprobs: list[float]


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Switch dropout off and gradients off, and put the model's mode back afterwards."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


class Session:
    """A batch of conversations with one model.

    Every forward pass appends columns to the cache for all rows; a row with nothing to say there is masked out.
    So any causal language model that takes an attention mask and position ids works, and nothing is prefilled twice.
    The number that decides a sampled token is a function of (row seed, position in the row), not of the batch.

    Args:
        model: A causal language model; peft adapters and quantised weights are fine.
        seeds: One sampling seed a row.
        decoding: How tokens are chosen.
        eos_id: The token that ends a completion.
        pad_id: Any valid token id, for masked places.
    """

    def __init__(
        self, model: Any, openings: Sequence[Sequence[int]], seeds: Sequence[int], decoding: Decoding,
        *, eos_id: int, pad_id: int,
    ) -> None:  # fmt: skip
        self._model, self._decoding, self._eos, self._pad = model, decoding, eos_id, pad_id
        self._device = next(model.parameters()).device
        self._seeds = np.asarray(seeds, np.uint64)
        # Equal openings (a group's copies) are read once and their cache is repeated.
        unique: dict[tuple[int, ...], int] = {}
        rows = [unique.setdefault(tuple(ids), len(unique)) for ids in openings]
        self._mask = torch.zeros((len(unique), 0), dtype=torch.long, device=self._device)
        self._lengths = np.zeros(len(unique), np.int64)
        self._cache: Any = None
        self._logits = self._feed([list(ids) for ids in unique])
        self._select(np.asarray(rows))

    def _select(self, rows: np.ndarray[Any, Any]) -> None:
        index = torch.as_tensor(rows, device=self._device)
        self._cache.batch_select_indices(index)
        self._mask, self._logits = self._mask[index], self._logits[index]
        self._lengths = self._lengths[rows]

    def keep(self, rows: Sequence[int]) -> None:
        """Drop every row but these: finished conversations leave the batch."""
        index = np.asarray(rows)
        if len(index) < len(self._seeds):
            self._select(index)
            self._seeds = self._seeds[index]

    def _feed(self, blocks: Sequence[Sequence[int]]) -> torch.Tensor:
        """Append one block of ids a row (left-padded to equal width) and return the next-token logits [rows, vocab]."""
        width = max(len(block) for block in blocks)
        ids = torch.full((len(blocks), width), self._pad, dtype=torch.long)
        mask = torch.zeros((len(blocks), width), dtype=torch.long)
        for row, block in enumerate(blocks):
            if block:
                ids[row, width - len(block) :] = torch.as_tensor(block)
                mask[row, width - len(block) :] = 1
        return self._forward(ids.to(self._device), mask.to(self._device))

    def _forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        self._mask = torch.cat([self._mask, mask], dim=1)
        positions = (self._mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        out = self._model(
            input_ids=ids,
            attention_mask=self._mask,
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        self._cache = out.past_key_values
        self._lengths = self._lengths + mask.sum(1).cpu().numpy()
        logits: torch.Tensor = out.logits[:, -1].float()
        return logits

    def _choose(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Pick one token a row: ids [rows] and their log-probabilities [rows]."""
        temperature = self._decoding.temperature
        if temperature == 0:
            logprobs = torch.log_softmax(self._logits, dim=-1)
            ids = self._logits.argmax(dim=-1)
        else:
            logprobs = torch.log_softmax(self._logits / temperature, dim=-1)
            cdf = logprobs.double().exp().cumsum(dim=-1)
            noise = torch.as_tensor(keyed_uniform(self._seeds, self._lengths.astype(np.uint64)), device=self._device)
            target = (noise[:, None] * cdf[:, -1:]).clamp(max=cdf[:, -1:])
            ids = torch.searchsorted(cdf, target, right=True).squeeze(1).clamp(max=cdf.shape[1] - 1)
        return ids, logprobs.gather(1, ids[:, None]).squeeze(1)

    def complete(self) -> list[Completion]:
        """Let every row write until end-of-sequence or the token limit.

        The last chosen token is not yet fed to the model; `tell` does that together with the observation.
        """
        n_rows = len(self._seeds)
        ids: list[list[int]] = [[] for _ in range(n_rows)]
        logprobs: list[list[float]] = [[] for _ in range(n_rows)]
        open_rows = np.ones(n_rows, bool)
        for written in range(1, self._decoding.max_new_tokens + 1):
            chosen, chosen_logprobs = self._choose()
            listed, listed_logprobs = chosen.tolist(), chosen_logprobs.tolist()
            for row in np.flatnonzero(open_rows):
                ids[row].append(listed[row])
                logprobs[row].append(listed_logprobs[row])
                open_rows[row] = listed[row] != self._eos
            if not open_rows.any() or written == self._decoding.max_new_tokens:
                break
            mask = torch.as_tensor(open_rows, dtype=torch.long, device=self._device)[:, None]
            logits = self._forward(chosen[:, None], mask)
            self._logits = torch.where(mask.bool(), logits, self._logits)
        return [Completion(i, lp) for i, lp in zip(ids, logprobs, strict=True)]

    def tell(self, last_ids: Sequence[int], replies: Sequence[Sequence[int]]) -> None:
        """Feed each row the last token it wrote and what stands between that and its next completion."""
        self._logits = self._feed([[last, *reply] for last, reply in zip(last_ids, replies, strict=True)])
