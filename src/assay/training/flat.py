"""Rows that share prompts, read flat: one sequence of each prompt once and the rows behind it, where that
saves enough.

There is no cache, so layers may be computed again on the way back (gradient checkpointing), windows may
slide, and memory grows with the tokens that differ, not with rows x prompt.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from assay.core.console import complain
from assay.rollout.policy.engine.lean_weights import Unserved
from assay.training.flat_attention import Unable, attends_flat
from assay.training.flat_layers import Layers
from assay.training.flat_pack import Pack, Stretch

LEAST_SHARED = 64  # tokens that two rows share, so that it saves enough
_UNABLE, _ALWAYS, _TOLD = "_assay_cannot_read_flat", "_assay_reads_flat", "_assay_told_unserved"


class Shared(NamedTuple):
    """Rows with their first tokens in common: `prompt` of them (0: one row alone), and each row's tokens
    behind."""

    prompt: int
    rows: tuple[int, ...]
    widths: tuple[int, ...]


def shared_openings(openings: Sequence[tuple[int, ...]], lengths: Sequence[int]) -> list[Shared]:
    """Return the rows that are read, with those of equal openings together.

    Args:
        openings: The first tokens of each row, which it may share.
        lengths: Tokens of each row that are read, with its opening; 0: it is not read.
    """
    members: dict[tuple[int, ...], list[int]] = {}
    for row, opening in enumerate(openings):
        if lengths[row] > 0:
            members.setdefault(opening, []).append(row)
    found = []
    for opening, rows in members.items():
        prompt = len(opening) if len(rows) > 1 else 0
        found.append(Shared(prompt, tuple(rows), tuple(lengths[row] - prompt for row in rows)))
    return found


def reads_flat(model: Any, shared: Sequence[Shared]) -> bool:
    """Return whether rows are to be read flat: where at least two share 64 tokens, if the model is not known
    to be unable.

    Args:
        model: A causal language model with a backbone.
        shared: What its rows have in common.
    """
    return not getattr(model, _UNABLE, False) and any(each.prompt >= LEAST_SHARED for each in shared)


def always_read_flat(model: Any) -> None:
    """Have all rows of a model read flat from here on, also those that share nothing, where layers of our own
    serve it (`flat_layers.py`)."""
    setattr(model, _ALWAYS, True)


def packs(shared: Sequence[Shared], most: int) -> list[list[Shared]]:
    """Return what is read in one sequence each: no more tokens than `most` of the longest row have, but for
    one row alone."""
    room = most * max(each.prompt + max(each.widths) for each in shared)
    found: list[list[Shared]] = [[]]
    taken = 0
    for each in shared:
        first = 0
        while first < len(each.rows):
            n, tokens = 0, each.prompt
            for width in each.widths[first:]:
                if n > 0 and taken + tokens + width > room:
                    break
                tokens, n = tokens + width, n + 1
            if taken > 0 and taken + tokens > room:
                found.append([])
                taken = 0
                continue
            found[-1].append(Shared(each.prompt, each.rows[first:][:n], each.widths[first:][:n]))
            taken, first = taken + tokens, first + n
    return found


def read_flat(
    model: Any,
    ids: torch.Tensor,
    starts: Sequence[int],
    lengths: Sequence[int],
    openings: Sequence[int],
    counted: torch.Tensor,
    *,
    most: int,
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the last hidden states [N, H] that decide the tokens that count, and where these stand in the
    flattened ids [N]; None where rows are not to be read flat, or cannot.

    Args:
        model: A causal language model with a backbone.
        ids: [B, W].
        starts: The column of each row's first token.
        lengths: Tokens of each row that are read; 0: it is not.
        openings: Its first tokens that a row may share; none of them counts.
        counted: [B, W]; True for tokens that count.
        most: No sequence has more tokens than so many rows, each as long as the longest.
    """
    tokens = [
        tuple(row[first : first + n]) for row, first, n in zip(ids.tolist(), starts, openings, strict=True)
    ]
    shared = shared_openings(tokens, lengths)
    asked = reads_flat(model, shared)
    if not (asked or getattr(model, _ALWAYS, False)):
        return None
    try:
        layers = Layers(model, _windows(model))
    except Unserved as why:  # which is known before anything is computed
        if getattr(model, _ALWAYS, False) and not getattr(model, _TOLD, False):
            setattr(model, _TOLD, True)
            complain(f"generation.backend: lean does not serve {why}; learns by the model's own layers")
        if not asked:
            return None
        layers = None
    try:
        parts = [_flat_states(model, layers, ids, starts, counted, pack) for pack in packs(shared, most)]
    except Unable as why:
        cannot(model, why)
        return None
    return torch.cat([hidden for hidden, _ in parts]), torch.cat([places for _, places in parts])


class _Piece(NamedTuple):
    """Tokens of a row, from one of its positions on, and where in the sequence they or their states stand."""

    row: int
    position: int
    n: int
    place: int


def _spread(pieces: Sequence[_Piece], device: torch.device) -> tuple[torch.Tensor, ...]:
    """Return row, position and place of every token, int64 [n] each."""
    of_piece = np.array(pieces, np.int64).reshape(-1, 4)
    n = of_piece[:, 2]
    step = np.arange(n.sum()) - np.repeat(n.cumsum() - n, n)
    of_token = np.repeat(of_piece, n, axis=0)
    columns = of_token[:, 0], of_token[:, 1] + step, of_token[:, 3] + step
    return tuple(torch.as_tensor(column, device=device) for column in columns)


def _flat_states(
    model: Any,
    layers: Layers | None,
    ids: torch.Tensor,
    starts: Sequence[int],
    counted: torch.Tensor,
    pack: Sequence[Shared],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the last hidden states [N, H] that decide the tokens that count, of rows read in one sequence,
    and where those tokens stand in the flattened ids [N].

    Args:
        model: A causal language model with a backbone.
        layers: Those that read in place of its modules; None: its modules do.
        ids: [B, W].
        starts: The column of each row's first token.
        counted: [B, W]; True for tokens that count, none of them in what is shared.
        pack: What is read.

    Raises:
        Unable: The model's attention is not one that can.
    """
    config, n = _able(model), 0
    read, deciding, stretches = list[_Piece](), list[_Piece](), list[Stretch]()
    for each in pack:
        stretches.append(Stretch(n, each.prompt, [width for width in each.widths if width > 0], ids.device))
        read.append(_Piece(each.rows[0], 0, each.prompt, n))
        last = n + each.prompt - 1
        n += each.prompt
        for row, width in zip(each.rows, each.widths, strict=True):
            read.append(_Piece(row, each.prompt, width, n))
            deciding += [_Piece(row, each.prompt - 1, min(1, each.prompt), last), read[-1]]
            n += width
    whole, first = Pack(stretches), torch.as_tensor(starts, device=ids.device)
    rows, positions, places = _spread(deciding, ids.device)
    decided = rows * ids.shape[1] + first[rows] + positions + 1
    counts = counted.flatten()[decided]
    kept, decided = places[counts], decided[counts]
    rows, positions, _ = _spread(read, ids.device)
    tokens = ids[rows, first[rows] + positions]
    if layers is not None:
        return layers(tokens, positions, whole, kept), decided
    attends_flat(config)
    states = model.base_model(
        input_ids=tokens[None],
        # Of four dimensions: it is taken as it is, and no other is made
        attention_mask=model.get_input_embeddings().weight.new_zeros(1, 1, 1, 1),
        position_ids=positions[None],
        use_cache=False,
        pack=whole,
    ).last_hidden_state[0]
    if whole.seen != _windows(model):
        raise Unable("layers that transformers' attention interface does not see")
    return states.index_select(0, kept), decided


def _windows(model: Any) -> list[int | None]:
    """Return how far back each layer sees; None: to the beginning."""
    layers = DynamicCache(config=model.config.get_text_config()).layers
    return [getattr(each, "sliding_window", None) for each in layers]


def _able(model: Any) -> Any:
    """Return the text configuration of a model that may be able to read flat.

    Raises:
        Unable: It is known beforehand that it is not.
    """
    config = model.config.get_text_config()
    parameters = inspect.signature(model.base_model.forward).parameters
    kinds = {DynamicLayer, DynamicSlidingWindowLayer}
    layers = DynamicCache(config=config).layers
    for what, there in (
        ("an attention that is not of transformers' interface", not model._supports_attention_backend),
        (
            "positions that the model counts by itself",
            "position_ids" not in parameters
            or all(each.kind is not each.VAR_KEYWORD for each in parameters.values()),
        ),
        ("a state besides keys and values", getattr(model, "_is_stateful", False)),
        ("layers of another kind", not layers or any(type(each) not in kinds for each in layers)),
    ):
        if there:
            raise Unable(what)
    return config


def cannot(model: Any, why: Unable) -> None:
    """Note that a model is not read flat from here on, and say so."""
    setattr(model, _UNABLE, True)
    complain(f"{type(model).__name__} has {why}: prompts that rows share are not read flat")
