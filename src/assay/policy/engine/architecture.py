"""How one forward pass is put to a Hugging Face model: ids, places and masks for a batch whose rows differ in
length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from assay.core.errors import PolicyError
from assay.policy.engine.cuda_graphs import arena_of, static_steps
from assay.policy.engine.kv_cache import KeyValues, bias

FULL, SLIDING = "full_attention", "sliding_attention"


class Reader:
    """One model with one cache: blocks of tokens go in, the logits of what comes next come out.

    Args:
        model: A causal language model, with or without peft's adapters.
        pad_id: Any valid token id.
        static: Whether steps of one token have fixed shapes (`static.py`).

    Raises:
        PolicyError: The model has layers of another kind than full and sliding attention.
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
        column = (
            np.arange(width) - (width - sizes)[:, None]
        )  # of each place in its own block; padding is negative
        ids = np.full((len(blocks), width), self._pad, np.int64)
        ids[column >= 0] = np.concatenate([np.asarray(block, np.int64) for block in blocks])
        places = lengths[:, None] + np.where(column >= 0, column, column + width)
        positions = np.where(column >= 0, places, 0)
        self.cache.reserve(first + len(blocks), longest)
        sent = torch.as_tensor(np.stack([ids, places, positions]), device=self.device)
        return self._forward(first, sent[0], sent[1], sent[2], longest)

    def steps(self, rows: int, lengths: np.ndarray[Any, Any]) -> Callable[[torch.Tensor], torch.Tensor]:
        """Return what takes one chosen token for each of the first rows and gives the logits behind it, again
        and again."""
        if self._arena is not None:
            return static_steps(self._arena, self._step, rows, lengths, self.device)
        longest = int(lengths[:rows].max())
        places = torch.as_tensor(lengths[:rows, None] - 1, device=self.device)

        def step(chosen: torch.Tensor) -> torch.Tensor:
            nonlocal longest, places
            longest, places = longest + 1, places + 1
            self.cache.reserve(rows, longest)
            return self._step(chosen[:, None], places, longest)

        return step

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


def windows_of(config: Any, *, recurrent: bool = False) -> dict[str, int | None]:
    """Return the kinds of attention layers of a model, with how far those of a sliding window look back.

    Args:
        config: Of the model; GPT-Neo's own list of kinds, whose windows count from the longest row, is read
            and refused.
        recurrent: Whether transformers says that the model has a state.

    Raises:
        PolicyError: There are layers of a kind whose state is more than keys and values by place.
    """
    config = config.get_text_config(decoder=True)
    window = getattr(config, "sliding_window", None)
    named = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)
    kinds = set(named or [FULL if window is None else SLIDING]) | ({"recurrent"} if recurrent else set())
    if kinds - {FULL, SLIDING}:
        raise PolicyError(
            "a model of layers with full attention or a sliding window",
            found=", ".join(sorted(kinds - {FULL, SLIDING})),
            where=f"{config.model_type}, kinds of layers",
            fix="set generation.backend: transformers",
        )
    if SLIDING in kinds and (type(window) is not int or window < 1):
        raise PolicyError(
            "a window of at least one token",
            found=repr(window)[:80],
            where=f"{config.model_type}, sliding_window",
            fix="put the model's own config.json back",
        )
    return {kind: window if kind == SLIDING else None for kind in sorted(kinds)}
