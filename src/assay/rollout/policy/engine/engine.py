"""The engine that plays by default: batched multi-turn decoding, with keys and values kept from turn to
turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from assay.core.console import complain
from assay.core.decoding import Completion, Decoding
from assay.core.errors import PolicyError
from assay.core.seeds import keyed_uniform
from assay.rollout.policy.engine.choice import Bound, choose, masked
from assay.rollout.policy.engine.context import turned_alike, windows_of
from assay.rollout.policy.engine.cuda_graphs import arena_of, static_steps
from assay.rollout.policy.engine.drafts import blocks_of, guessed, taken, text_of
from assay.rollout.policy.engine.kv_cache import KeyValues, Slots, bias
from assay.rollout.policy.engine.lean_reader import LeanReader
from assay.rollout.policy.engine.lean_weights import Unserved
from assay.rollout.policy.engine.shared_prompts import read_once


class Reader:
    """One model with one cache: blocks of tokens go in, the logits of what comes next come out.

    Args:
        model: A causal language model, with or without peft's adapters.
        pad_id: Any valid token id.
        static: Whether steps of one token have fixed shapes (`static.py`).

    Raises:
        PolicyError: The model has layers of another kind than full and sliding attention. Later: a row is
            longer than LongRoPE turns in one way.
    """

    def __init__(self, model: Any, pad_id: int, *, static: bool) -> None:
        # What peft puts around a model adds nothing to adapters that sit inside of it but the time of a call.
        self._model = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._pad = pad_id
        self._arena = arena_of(self._model) if static else None
        self._turn = self._arena.holder if self._arena else 0
        self.cache = self._arena.cache if self._arena else KeyValues()
        weights = self._model.get_input_embeddings().weight
        self.device, self._dtype = weights.device, weights.dtype
        self._windows = windows_of(
            self._model.config, recurrent=bool(getattr(self._model, "_is_stateful", False))
        )
        self._alike = turned_alike(self._model.config)

    def read(
        self, first: int, blocks: Sequence[Sequence[int]], lengths: np.ndarray[Any, Any]
    ) -> torch.Tensor:
        """Append a block of ids to each of neighbouring rows and return the next-token logits, float32 [rows,
        vocabulary].

        Blocks are padded on the left, so that all end together. The padding is put behind the row's new
        tokens, where nothing of the row looks and what comes next is written over it.

        Args:
            first: Slot of the first row.
            blocks: Token ids, none empty.
            lengths: Tokens of each row so far.
        """
        sizes = np.asarray([len(block) for block in blocks])
        width, longest = int(sizes.max()), int((lengths + sizes.max()).max())
        self._refuse_beyond(int((lengths + sizes).max()))
        # Of each place in its own block; padding is negative
        column = np.arange(width) - (width - sizes)[:, None]
        ids = np.full((len(blocks), width), self._pad, np.int64)
        ids[column >= 0] = np.concatenate([np.asarray(block, np.int64) for block in blocks])
        places = lengths[:, None] + np.where(column >= 0, column, column + width)
        positions = np.where(column >= 0, places, 0)
        self.cache.reserve(first + len(blocks), longest)
        sent = torch.as_tensor(np.stack([ids, places, positions]), device=self.device)
        return self._forward(first, sent[0], sent[1], sent[2], longest)

    def open(self, begun: int, prompts: Sequence[Sequence[int]]) -> tuple[Slots, torch.Tensor]:
        """Read prompts behind the slots in use; return the slot of each and, by slot, the next-token
        logits."""
        return read_once(self, begun, prompts)

    def move(self, source: Slots, target: Slots, length: int) -> None:
        """Copy rows of at most `length` tokens to other slots; all is read before anything is written."""
        self.cache.copy(source, target, length)

    def steps(
        self, rows: int, lengths: np.ndarray[Any, Any], most: int
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        """Return what takes one chosen token for each of the first rows and gives the logits behind it, at
        most so many times."""
        # A fixed shape may be filled up with rows that have ended, and those are turned with the others.
        longest = int((lengths[:rows] if self._arena is None else lengths).max())
        if self._arena is not None:
            static = static_steps(self._arena, self._step, rows, lengths, self.device)

            def of_fixed_shape(chosen: torch.Tensor) -> torch.Tensor:
                nonlocal longest
                longest += 1
                self._refuse_beyond(longest)
                return static(chosen)

            return of_fixed_shape
        places = torch.as_tensor(lengths[:rows, None] - 1, device=self.device)

        def step(chosen: torch.Tensor) -> torch.Tensor:
            nonlocal longest, places
            longest, places = longest + 1, places + 1
            self._refuse_beyond(longest)
            self.cache.reserve(rows, longest)
            return self._step(chosen[:, None], places, longest)

        return step

    def _refuse_beyond(self, longest: int) -> None:
        if self._alike is not None and longest > self._alike:
            raise PolicyError(
                f"at most {self._alike} tokens, beyond which LongRoPE turns all keys otherwise",
                found=f"{longest} tokens",
                where=f"{self._model.config.model_type}, original_max_position_embeddings",
                fix="lower task.max_turns or task.max_new_tokens",
            )

    def _step(self, ids: torch.Tensor, places: torch.Tensor, used: int) -> torch.Tensor:
        return self._forward(0, ids, places, places, used)

    def _forward(
        self, first: int, ids: torch.Tensor, places: torch.Tensor, positions: torch.Tensor, used: int
    ) -> torch.Tensor:
        assert self._arena is None or self._arena.holder == self._turn, (
            "other conversations have taken over this memory"
        )
        self.cache.aim(first, places, used)
        masks = {kind: bias(places, used, self._dtype, window) for kind, window in self._windows.items()}
        out = self._model(
            input_ids=ids,
            attention_mask=masks if len(masks) > 1 else next(iter(masks.values())),
            position_ids=positions,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: torch.Tensor = out.logits[:, -1].float()
        return logits


_told: set[str] = set()


def reader_of(model: Any, pad_id: int, decoding: Decoding) -> Reader | LeanReader:
    """Return who reads for a decoding: where `lean` cannot serve a model, `cached`, which is said once."""
    if decoding.backend == "lean":
        try:
            return LeanReader(model, pad_id)
        except Unserved as why:
            if str(why) not in _told:
                undrafted = ", without drafts" if decoding.drafts else ""
                complain(f"generation.backend: lean does not serve {why}; plays as cached does{undrafted}")
            _told.add(str(why))
    return Reader(model, pad_id, static=decoding.cuda_graphs)


# Of the rows that are fed, how many must have ended before the others are brought together without them.
ENDED_SHARE = 0.25
# Tokens between two looks at what a GPU has chosen. A look waits for it; what a row writes behind its end is
# dropped.
LOOK_EVERY = {"cuda": 4}


class Session:
    """Conversations with one model, each in a slot of one cache; token ids only ever go to the end of a row.

    Nothing is read twice, and equal prompts that come together are read once. The slots in use are always
    the first ones: what has ended gives its place to the last. The number that decides a sampled token is a
    function of (seed of the row, position in the row), so neither slots nor neighbours matter but for last
    bits.

    Args:
        model: A causal language model; peft adapters and quantised weights are fine.
        prompts: Token ids, one list a row; none may be empty.
        seeds: One sampling seed a row.
        decoding: How tokens are chosen.
        end_ids: The tokens that end a completion, any of them.
        pad_id: Any valid token id, for places that nobody looks at.
        bounds: What each row may write; none: anything.

    Raises:
        PolicyError: The model has layers that this engine cannot serve.
    """

    def __init__(
        self,
        model: Any,
        prompts: Sequence[Sequence[int]],
        seeds: Sequence[int],
        decoding: Decoding,
        *,
        end_ids: Sequence[int],
        pad_id: int,
        bounds: Sequence[Bound | None] = (),
    ) -> None:
        self._reader = reader_of(model, pad_id, decoding)
        self._decoding, self._ends = decoding, np.asarray(end_ids, np.int64)
        self._device = self._reader.device
        self._slots = np.zeros(0, np.int64)  # by row
        self._lengths = np.zeros(0, np.int64)  # by slot: tokens read
        self._seeds = np.zeros(0, np.uint64)  # by slot
        self._bounds = np.zeros(0, object)  # by slot: what the row may write, None for anything
        self._texts = np.zeros(0, object)  # by slot: all tokens of the row, where any are guessed
        self._drafts = decoding.drafts if isinstance(self._reader, LeanReader) else 0
        self._logits: torch.Tensor | None = None  # by slot: of what comes next
        self.admit(prompts, seeds, bounds)

    @property
    def engine(self) -> str:
        """Who plays, as generation.backend names it."""
        return "lean" if isinstance(self._reader, LeanReader) else "cached"

    @property
    def capacity(self) -> int:
        """Places a row that are reserved."""
        return self._reader.cache.capacity

    def admit(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], bounds: Sequence[Bound | None] = ()
    ) -> None:
        """Take in further conversations, as rows behind those there are; before the next `complete`."""
        if not prompts:
            return
        assert self._logits is not None or not len(self._slots), "what is there was not told what comes next"
        begun = len(self._slots)
        slots, logits = self._reader.open(begun, prompts)
        by_slot = np.argsort(slots)
        self._slots = np.concatenate([self._slots, slots])
        self._seeds = np.concatenate([self._seeds, np.asarray(seeds, np.uint64)[by_slot]])
        new = np.asarray(bounds if bounds else [None] * len(prompts), object)
        self._bounds = np.concatenate([self._bounds, new[by_slot]])
        if any(bounds):  # each token has to be known before what may follow it is
            self._drafts = 0
        texts = np.asarray([text_of(ids) if self._drafts else "" for ids in prompts], object)
        self._texts = np.concatenate([self._texts, texts[by_slot]])
        self._lengths = np.concatenate(
            [self._lengths, np.asarray([len(ids) for ids in prompts], np.int64)[by_slot]]
        )
        self._logits = logits if self._logits is None or not begun else torch.cat([self._logits, logits])

    def keep(self, rows: Sequence[int]) -> None:
        """Drop every row but these, after `complete`: finished conversations leave the batch."""
        kept = np.asarray(rows, np.int64)
        slots = self._slots[kept]
        holes = np.setdiff1d(np.arange(len(kept)), slots)
        movers = slots[slots >= len(kept)]
        self._reader.move(movers, holes, int(self._lengths[movers].max(initial=0)))
        for known in (self._lengths, self._seeds, self._bounds, self._texts):
            known[holes] = known[movers]
        if self._logits is not None:
            self._logits[holes] = self._logits[movers]
            self._logits = self._logits[: len(kept)]
        slots[slots >= len(kept)] = holes
        self._slots, self._lengths, self._seeds = slots, self._lengths[: len(kept)], self._seeds[: len(kept)]
        self._bounds, self._texts = self._bounds[: len(kept)], self._texts[: len(kept)]

    def tell(self, last_ids: Sequence[int], replies: Sequence[Sequence[int]]) -> None:
        """Feed each row the last token it wrote and what stands between that and its next completion."""
        rows = np.argsort(self._slots)
        blocks = [[last_ids[row], *replies[row]] for row in rows.tolist()]
        self._logits = self._reader.read(0, blocks, self._lengths)
        self._lengths = self._lengths + np.asarray([len(block) for block in blocks], np.int64)
        if self._drafts:
            self._texts += np.asarray([text_of(block[1:]) for block in blocks], object)

    def complete(self) -> list[Completion]:
        """Let every row write until one of its ends or the token limit.

        The last chosen token is not yet fed to the model; `tell` does that together with the observation.
        """
        if self._drafts:
            return self._complete_by_drafts()
        bounded = self._begin_bounds()
        limit = self._decoding.max_new_tokens
        every = 1 if bounded else LOOK_EVERY.get(self._device.type, 1)
        n = fed = len(self._slots)
        rows, open_rows = np.argsort(self._slots), np.ones(n, bool)  # by slot; by row
        counts = np.zeros(n, np.int64)
        written: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        pending: list[tuple[torch.Tensor, torch.Tensor]] = []
        logits, self._logits = self._logits, None
        assert logits is not None, "nothing was told since the last completion"
        steps = self._reader.steps(fed, self._lengths, limit - 1)
        noise = self._noise(fed, 0)
        for step in range(1, limit + 1):
            if bounded:
                logits = masked(logits, self._bounds[:fed].tolist())
            chosen, logprobs = choose(logits, self._decoding.temperature, next(noise))
            pending.append((chosen, logprobs))
            if bounded:
                for bound, token in zip(self._bounds[:fed], chosen.tolist(), strict=True):
                    if bound is not None:
                        bound.take(token)
            if step == limit or len(pending) >= every:
                looked = (torch.stack(each).cpu().numpy() for each in zip(*pending, strict=True))
                for ids, values in zip(*looked, strict=True):
                    told = np.full(n, self._ends[0]), np.zeros(n, np.float32)
                    told[0][rows[:fed]], told[1][rows[:fed]] = ids, values
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
                    steps = self._reader.steps(fed, self._lengths + step - 1, limit - step)
                    noise = self._noise(fed, step)
            logits = steps(chosen)
        self._slots = np.argsort(rows)
        self._lengths = self._lengths + counts[rows] - 1
        table = [np.stack(column) for column in zip(*written, strict=True)]
        return [
            Completion(table[0][:count, row].tolist(), table[1][:count, row].tolist())
            for row, count in enumerate(counts)
        ]

    def _complete_by_drafts(self) -> list[Completion]:
        """Do what `complete` does, with guesses behind the chosen token of each row: one pass reads both, and
        tells what is drawn behind each. What was guessed wrong is overwritten by what the row writes next."""
        assert isinstance(self._reader, LeanReader) and self._logits is not None
        limit, ends = self._decoding.max_new_tokens, self._ends.tolist()
        fed, rows = len(self._slots), np.argsort(self._slots)  # rows, as `going`: by slot
        said, going = [Completion([], []) for _ in rows], np.ones(fed, bool)
        logits, self._logits = self._logits[:, None], None
        guesses, wide = [list[int]()] * fed, self._reader.wide(fed)
        while True:
            lengths = np.asarray([len(text) for text in self._texts[:fed]], np.int64)
            drawn, logprobs = self._drawn(logits, lengths)
            for slot in np.flatnonzero(going[:fed]).tolist():
                one, n = said[rows[slot]], taken(drawn[slot], guesses[slot], ends)
                one.ids.extend(drawn[slot][:n])
                one.logprobs.extend(logprobs[slot][:n])
                self._texts[slot] += text_of(drawn[slot][:n])
                going[slot] = one.ids[-1] not in ends and len(one.ids) < limit
            if not (still := int(going[:fed].sum())):
                break
            if still <= (1 - ENDED_SHARE) * fed:
                order = self._gather(going[:fed], limit)
                rows[:fed], going[:fed] = rows[:fed][order], going[:fed][order]
                fed, wide = still, self._reader.wide(still)
            # Nothing is guessed for a row's last token, behind which nothing is drawn
            room = [limit - 1 - len(said[row].ids) for row in rows[:fed]]
            most = np.minimum(room, self._drafts) * going[:fed]
            guesses = [guessed(text, n) for text, n in zip(self._texts[:fed], most.tolist(), strict=True)]
            blocks = blocks_of(self._texts[:fed].tolist(), guesses)
            before = np.asarray([len(text) - 1 for text in self._texts[:fed]], np.int64)
            logits = wide(blocks, before)
        self._slots = np.argsort(rows)
        self._lengths = np.asarray([len(text) - 1 for text in self._texts], np.int64)
        return said

    def _drawn(
        self, logits: torch.Tensor, places: np.ndarray[Any, Any]
    ) -> tuple[list[list[int]], list[list[float]]]:
        """Return the tokens that logits [fed, width, vocabulary] and the rows' own numbers give, the first of
        each row at its place, and their log-probabilities."""
        noise = None
        if self._decoding.temperature > 0:
            each = (places[:, None] + np.arange(logits.shape[1])).astype(np.uint64)
            uniform = keyed_uniform(self._seeds[: len(places), None], each).ravel()
            noise = torch.as_tensor(uniform, device=self._device)
        chosen, logprobs = choose(logits.flatten(0, 1), self._decoding.temperature, noise)
        return chosen.view(logits.shape[:2]).tolist(), logprobs.view(logits.shape[:2]).tolist()

    def _gather(self, still: np.ndarray[Any, Any], written: int) -> Slots:
        """Bring the rows that go on to the first slots, and return the former slot of each of those that were
        fed."""
        order, going = np.arange(len(still)), int(still.sum())
        ended, movers = np.flatnonzero(~still[:going]), going + np.flatnonzero(still[going:])
        order[ended], order[movers] = movers, ended
        both = np.concatenate([ended, movers])
        self._reader.move(order[both], both, int(self._lengths[both].max(initial=0)) + written)
        for known in (self._lengths, self._seeds, self._bounds, self._texts):
            known[both] = known[order[both]]
        return order

    def _begin_bounds(self) -> bool:
        """Let every bound begin a completion; return whether there is any."""
        there = [bound for bound in self._bounds if bound is not None]
        for bound in there:
            bound.begin()
        return bool(there)

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
