"""The engine that plays by default: batched multi-turn decoding, with keys and values kept from turn to
turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from assay.core.decoding import Completion, Decoding
from assay.core.seeds import keyed_uniform
from assay.policy.engine.architecture import Reader
from assay.policy.engine.kv_cache import Slots
from assay.policy.engine.sampling import choose

# Tokens in one forward pass that reads openings: bounds the memory of its activations and masks.
READ_AT_ONCE = 16_384
# Of the rows that are fed, how many must have ended before the others are brought together without them.
ENDED_SHARE = 0.25
# Tokens between two looks at what a GPU has chosen. A look waits for it; what a row writes behind its end is
# dropped.
LOOK_EVERY = {"cuda": 4}


class Session:
    """Conversations with one model, each in a slot of one cache; token ids only ever go to the end of a row.

    Nothing is read twice, and equal openings that come together are read once. The slots in use are always
    the first ones: what has ended gives its place to the last. The number that decides a sampled token is a
    function of (seed of the row, position in the row), so neither slots nor neighbours matter but for last
    bits.

    Args:
        model: A causal language model; peft adapters and quantised weights are fine.
        openings: Token ids, one list a row; none may be empty.
        seeds: One sampling seed a row.
        decoding: How tokens are chosen.
        end_ids: The tokens that end a completion, any of them.
        pad_id: Any valid token id, for places that nobody looks at.

    Raises:
        PolicyError: The model has layers that this engine cannot serve.
    """

    def __init__(
        self,
        model: Any,
        openings: Sequence[Sequence[int]],
        seeds: Sequence[int],
        decoding: Decoding,
        *,
        end_ids: Sequence[int],
        pad_id: int,
    ) -> None:
        self._reader = Reader(model, pad_id, static=decoding.cuda_graphs)
        self._decoding, self._ends = decoding, np.asarray(end_ids, np.int64)
        self._device = self._reader.device
        self._slots = np.zeros(0, np.int64)  # by row
        self._lengths = np.zeros(0, np.int64)  # by slot: tokens read
        self._seeds = np.zeros(0, np.uint64)  # by slot
        self._logits: torch.Tensor | None = None  # by slot: of what comes next
        self.admit(openings, seeds)

    @property
    def capacity(self) -> int:
        """Places a row that are reserved."""
        return self._reader.cache.capacity

    def admit(self, openings: Sequence[Sequence[int]], seeds: Sequence[int]) -> None:
        """Take in further conversations, as rows behind those there are; before the next `complete`."""
        if not openings:
            return
        assert self._logits is not None or not len(self._slots), "what is there was not told what comes next"
        unique: dict[tuple[int, ...], int] = {}
        which = np.asarray([unique.setdefault(tuple(ids), len(unique)) for ids in openings], np.int64)
        n, begun = len(which), len(self._slots)
        # Each different opening is read in the slot of its first copy, all of them in neighbouring slots,
        # longest first so that little is padded.
        order = sorted(range(len(unique)), key=lambda k: -len(list(unique)[k]))
        texts, rank = [list(unique)[k] for k in order], np.argsort(order)
        longest = len(texts[0]) if texts else 0
        self._reader.cache.reserve(begun + n, longest)
        read: list[torch.Tensor] = []
        start = 0
        while start < len(texts):
            stop = start + max(1, READ_AT_ONCE // len(texts[start]))
            part = texts[start:stop]
            read.append(self._reader.read(begun + start, part, np.zeros(len(part), np.int64)))
            start = stop
        place, slots, source = len(texts), np.zeros(n, np.int64), np.zeros(n, np.int64)
        taken: set[int] = set()
        for row, kind in enumerate(rank[which].tolist()):
            slots[row], source[row] = (place, kind) if kind in taken else (kind, kind)
            place += kind in taken
            taken.add(kind)
        copies = slots != source
        self._reader.cache.copy(begun + source[copies], begun + slots[copies], longest)
        by_slot = np.argsort(slots)
        self._slots = np.concatenate([self._slots, begun + slots])
        self._seeds = np.concatenate([self._seeds, np.asarray(seeds, np.uint64)[by_slot]])
        self._lengths = np.concatenate(
            [self._lengths, np.asarray([len(ids) for ids in openings], np.int64)[by_slot]]
        )
        logits = torch.cat(read)[torch.as_tensor(source[by_slot], device=self._device)]
        self._logits = logits if self._logits is None or not begun else torch.cat([self._logits, logits])

    def keep(self, rows: Sequence[int]) -> None:
        """Drop every row but these, after `complete`: finished conversations leave the batch."""
        kept = np.asarray(rows, np.int64)
        slots = self._slots[kept]
        holes = np.setdiff1d(np.arange(len(kept)), slots)
        movers = slots[slots >= len(kept)]
        self._reader.cache.copy(movers, holes, int(self._lengths[movers].max(initial=0)))
        self._lengths[holes], self._seeds[holes] = self._lengths[movers], self._seeds[movers]
        if self._logits is not None:
            self._logits[holes] = self._logits[movers]
            self._logits = self._logits[: len(kept)]
        slots[slots >= len(kept)] = holes
        self._slots, self._lengths, self._seeds = slots, self._lengths[: len(kept)], self._seeds[: len(kept)]

    def tell(self, last_ids: Sequence[int], replies: Sequence[Sequence[int]]) -> None:
        """Feed each row the last token it wrote and what stands between that and its next completion."""
        rows = np.argsort(self._slots)
        blocks = [[last_ids[row], *replies[row]] for row in rows.tolist()]
        self._logits = self._reader.read(0, blocks, self._lengths)
        self._lengths = self._lengths + np.asarray([len(block) for block in blocks], np.int64)

    def complete(self) -> list[Completion]:
        """Let every row write until one of its ends or the token limit.

        The last chosen token is not yet fed to the model; `tell` does that together with the observation.
        """
        limit, every = self._decoding.max_new_tokens, LOOK_EVERY.get(self._device.type, 1)
        n = fed = len(self._slots)
        rows, open_rows = np.argsort(self._slots), np.ones(n, bool)  # by slot; by row
        counts = np.zeros(n, np.int64)
        written: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        pending: list[tuple[torch.Tensor, torch.Tensor]] = []
        logits, self._logits = self._logits, None
        assert logits is not None, "nothing was told since the last completion"
        steps = self._reader.steps(fed, self._lengths)
        noise = self._noise(fed, 0)
        for step in range(1, limit + 1):
            chosen, logprobs = choose(logits, self._decoding.temperature, next(noise))
            pending.append((chosen, logprobs))
            if step == limit or len(pending) >= every:
                for ids, values in pending:
                    told = np.full(n, self._ends[0]), np.zeros(n, np.float32)
                    told[0][rows[:fed]], told[1][rows[:fed]] = ids.cpu().numpy(), values.cpu().numpy()
                    written.append(told)
                    counts += open_rows
                    open_rows &= (told[0][:, None] != self._ends).all(axis=1)
                pending.clear()
                still = open_rows[rows[:fed]]
                if step == limit or not still.any():
                    break
                if (going := int(still.sum())) <= (1 - ENDED_SHARE) * fed:
                    order = self._gather(still, step)
                    rows[:fed] = rows[:fed][order]
                    chosen, fed = chosen[torch.as_tensor(order[:going], device=self._device)], going
                    steps = self._reader.steps(fed, self._lengths + step - 1)
                    noise = self._noise(fed, step)
            logits = steps(chosen)
        self._slots = np.argsort(rows)
        self._lengths = self._lengths + counts[rows] - 1
        table = [np.stack(column) for column in zip(*written, strict=True)]
        return [
            Completion(table[0][:count, row].tolist(), table[1][:count, row].tolist())
            for row, count in enumerate(counts)
        ]

    def _gather(self, still: np.ndarray[Any, Any], written: int) -> Slots:
        """Bring the rows that go on to the first slots, and return the former slot of each of those that were
        fed."""
        order, going = np.arange(len(still)), int(still.sum())
        ended, movers = np.flatnonzero(~still[:going]), going + np.flatnonzero(still[going:])
        order[ended], order[movers] = movers, ended
        both = np.concatenate([ended, movers])
        self._reader.cache.copy(order[both], both, int(self._lengths[both].max(initial=0)) + written)
        self._lengths[both], self._seeds[both] = self._lengths[order[both]], self._seeds[order[both]]
        return order

    def _noise(self, fed: int, written: int, ahead: int = 16) -> Any:
        """Yield, token after token, the numbers that decide it: one a slot; made and sent a few tokens
        ahead."""
        while True:
            if self._decoding.temperature == 0:
                yield None
                continue
            places = (self._lengths[:fed] + written + np.arange(ahead)[:, None]).astype(np.uint64)
            yield from torch.as_tensor(keyed_uniform(self._seeds[:fed], places), device=self._device)
            written += ahead
