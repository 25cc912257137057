"""The forward pass of training: hidden states of the positions that count, and the model's own head on
nothing else.

TRL's loss asks a model for log-probabilities of whole rows, padded to the longest. Here rows are cut to what
matters, the backbone reads them, and TRL's fused head, with its scaling and soft caps, sees only
the positions whose next token counts. What comes out has TRL's shapes, with zeros elsewhere. Which rows go
through together is arithmetic on lengths, so that equal lengths give equal passes.
"""

from __future__ import annotations

import copy
import functools
import inspect
import types
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer
from trl.trainer import utils as trl_utils
from trl.trainer.utils import FusedCausalLMOutput

from assay.policy.engine.fused_lora import summed
from assay.training.flat import read_flat

# What beginning one more pass costs for each layer, in multiply-adds that could have been made instead.
# Measured on one CPU core (best of 1e5 to 1e9 on a step of 64 rows); on a GPU arithmetic is faster by far
# more than a launch.
PASS_COST = {"cpu": 1e7, "cuda": 2e10}


class Work(NamedTuple):
    """Multiply-adds of a model, roughly: for a token, for a pair of tokens that look at each other, for one
    more pass."""

    token: float
    pair: float
    begin: float

    @classmethod
    def of(cls, config: Any, device: str) -> Work:
        """Return the estimate for a decoder by its text configuration; what it does not say is taken as
        usual."""
        layers, hidden = config.num_hidden_layers, config.hidden_size
        inner = getattr(config, "intermediate_size", None) or 4 * hidden
        begin = PASS_COST.get(device, PASS_COST["cuda"])
        return cls(layers * hidden * (4 * hidden + 3 * inner), 2 * layers * hidden, layers * begin)


class Unit(NamedTuple):
    """Rows that stay together: `prompt` tokens they share and that are read once (0: nothing), then up to
    `width` each."""

    prompt: int
    rows: tuple[int, ...]
    width: int


def rows_alone(lengths: Sequence[int]) -> list[Unit]:
    """Return one unit for each row that has tokens."""
    return [Unit(0, (row,), length) for row, length in enumerate(lengths) if length > 0]


def rows_by_prompt(
    prompts: Sequence[int], prompt_lengths: Sequence[int], widths: Sequence[int], most: int
) -> list[Unit]:
    """Return one unit for each prompt, of at most so many rows.

    Args:
        prompts: Which prompt each row has.
        prompt_lengths: Tokens of each row's prompt.
        widths: Tokens of each row after it; below 0: the row is left out.
        most: Rows in one pass.
    """
    members: dict[int, list[int]] = {}
    for row, prompt in enumerate(prompts):
        if widths[row] >= 0:
            members.setdefault(prompt, []).append(row)
    chunks = [rows[start : start + most] for rows in members.values() for start in range(0, len(rows), most)]
    return [
        Unit(prompt_lengths[rows[0]], tuple(rows), max(1, *(widths[row] for row in rows))) for rows in chunks
    ]


def passes(units: Sequence[Unit], work: Work, most: int) -> tuple[float, list[list[Unit]]]:
    """Return the cheapest way to cut units, sorted by length, into passes, and its cost in multiply-adds.

    Args:
        units: What has to be read.
        work: What the model costs.
        most: Rows in one pass, unless one unit alone has more.
    """
    ordered = sorted(units, key=lambda unit: (-unit.width, -unit.prompt, unit.rows))
    prompt, width, rows = np.array([(unit.prompt, unit.width, len(unit.rows)) for unit in ordered], float).T
    best, cut = np.zeros(len(ordered) + 1), np.zeros(len(ordered), int)
    for first in reversed(range(len(ordered))):
        n_rows = rows[first:].cumsum()
        n_rows = n_rows[: max(1, int(np.searchsorted(n_rows, most, side="right")))]
        stop = first + len(n_rows)
        # All in one pass are as long as the longest of them.
        p, w = np.maximum.accumulate(prompt[first:stop]), width[first]
        n_prompts = np.arange(1, len(n_rows) + 1)
        shared = np.where(p > 0, work.begin + n_prompts * p * (work.token + work.pair * p), 0)
        cost = (
            work.begin + shared + n_rows * w * (work.token + work.pair * (p + w)) + best[first + 1 : stop + 1]
        )
        chosen = int(cost.argmin())
        best[first], cut[first] = cost[chosen], first + 1 + chosen
    found, first = [], 0
    while first < len(ordered):
        found.append(ordered[first : cut[first]])
        first = cut[first]
    return float(best[0]), found


def regrouped(batches: Sequence[dict[str, torch.Tensor]]) -> list[dict[str, torch.Tensor]]:
    """Return the micro-batches of one optimizer step, dealt anew: rows of one prompt together, then those of
    like length.

    Args:
        batches: Of equal size, as TRL keeps them; what has no dimension belongs to all of them alike.
    """
    whole = {
        name: torch.cat([b[name] for b in batches]) if x.ndim > 0 else x for name, x in batches[0].items()
    }
    openings = whole["prompt_ids"].masked_fill(whole["prompt_mask"] == 0, -1)
    prompts = torch.unique(openings, dim=0, return_inverse=True)[1].tolist()
    lengths = whole["completion_mask"].sum(dim=1).tolist()
    longest: dict[int, int] = {}
    for prompt, length in zip(prompts, lengths, strict=True):
        longest[prompt] = max(length, longest.get(prompt, 0))
    order = sorted(
        range(len(lengths)), key=lambda row: (-longest[prompts[row]], prompts[row], -lengths[row], row)
    )
    size = len(order) // len(batches)
    return [
        {name: x[order[start : start + size]] if x.ndim > 0 else x for name, x in whole.items()}
        for start in range(0, len(order), size)
    ]


TILE = trl_utils._CHUNKED_LOGPROB_CHUNK_SIZE  # words of a vocabulary that TRL scores at once


class _States:
    """The output of a backbone that has last hidden states and nothing else: all other fields are None."""

    def __init__(self, hidden: torch.Tensor) -> None:
        self.last_hidden_state = hidden

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.last_hidden_state

    def __getattr__(self, name: str) -> None:
        return None


class _Given(torch.nn.Module):
    """Stands where a backbone stood, and returns the hidden states that it is given."""

    def forward(self, *_: Any, inputs_embeds: torch.Tensor, **__: Any) -> _States:
        return _States(inputs_embeds)


def _head(model: Any) -> Any:
    """Return the model without its backbone: a shallow copy, made anew each time because peft replaces
    modules."""
    head = copy.copy(model)
    head.__dict__["_modules"] = {**model._modules, model.base_model_prefix: _Given()}
    head.get_output_embeddings = model.get_output_embeddings  # which transformers finds by way of the input's
    return head


def logits_of(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    """Return what a causal language model's head makes of hidden states [N, H]: logits [N, V], in float32."""
    logits: torch.Tensor = type(model).forward(_head(model), inputs_embeds=hidden[None]).logits[0]
    return logits.float()


def shares_prompts(model: Any) -> bool:
    """Return whether a prompt may be read once for several rows: its keys and values are then all that rows
    need of it.

    Not so with sliding windows, recurrent layers or positions that the model counts by itself, nor while
    gradient checkpointing is at work, which drops the cache.
    """
    if model.training and getattr(model, "is_gradient_checkpointing", False):
        return False
    asked = inspect.signature(model.base_model.forward).parameters
    layers = DynamicCache(config=model.config.get_text_config()).layers
    return (
        {"position_ids", "past_key_values"} <= set(asked)
        and not getattr(model, "_is_stateful", False)
        and len(layers) > 0
        and all(type(layer) is DynamicLayer for layer in layers)
    )


def hidden_states(
    model: Any,
    ids: torch.Tensor,
    attention: torch.Tensor,
    counted: torch.Tensor,
    *,
    most: int,
    prompt_width: int | None = None,
    openings: Sequence[int] | None = None,
    together: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the last hidden states [N, H] that decide the tokens that count, and where those tokens stand
    [N].

    Places are indices into the flattened ids. The order is that of the passes, and a function of lengths and
    of which openings are equal. Rows that share a prompt are read flat (`flat.py`) where copies of its keys
    and values for each of them would take more than 64 MiB together, and where no copies can be made
    (`shares_prompts`) if at least two share at least 64 tokens. Otherwise the prompt is read once and copied,
    or rows are read alone, whichever is cheaper.

    Args:
        model: A causal language model with a backbone.
        ids: [B, W]; what is real of a row is in one piece.
        attention: [B, W]; 1 where a token is real.
        counted: [B, W]; True for tokens that count, never a row's first; at least one.
        most: Rows in one pass.
        prompt_width: Columns of ids that hold prompts, padded on the left; None: none is copied.
        openings: Without prompt_width, the tokens of each row that it may share when it is read flat.
        together: All rows in one pass, as where every pass is a conversation of several processes.
    """
    places = torch.arange(ids.shape[1], device=ids.device)
    start = attention.argmax(dim=1)
    stop = (counted * places).amax(dim=1)  # the last token that counts: what is read ends before it
    starts, lengths = start.tolist(), (stop - start).clamp(min=0).tolist()
    if prompt_width is not None:
        openings = [prompt_width - first for first in starts]
    copied = shares_prompts(model)
    if openings is not None and not together:
        read = read_flat(model, ids, starts, lengths, openings, counted, most=most, copied=copied)
        if read is not None:
            return read
    work = Work.of(model.config.get_text_config(), ids.device.type)
    cost, chosen = passes(rows_alone(lengths), work, most)
    if together:
        chosen = [sorted(rows_alone(lengths), key=lambda unit: -unit.width)]
    elif prompt_width is not None and copied:
        shown = ids.masked_fill(attention == 0, -1)[:, :prompt_width]
        prompts = torch.unique(shown, dim=0, return_inverse=True)[1].tolist()
        # A prompt's last hidden state decides the first token behind it.
        widths = [
            first + length - prompt_width if length > 0 else -1
            for first, length in zip(starts, lengths, strict=True)
        ]
        shared = rows_by_prompt(prompts, [prompt_width - first for first in starts], widths, most)
        if len(shared) < len(rows_alone(lengths)) and (other := passes(shared, work, most))[0] < cost:
            chosen = other[1]
    hidden, found = [], []
    for units in chosen:
        rows = torch.tensor([row for unit in units for row in unit.rows], device=ids.device)
        if units[0].prompt > 0:
            assert prompt_width is not None
            states = _shared(model, ids, units, rows, prompt_width)
            first = torch.full_like(rows, prompt_width - 1)
        else:
            first = start[rows]
            columns = (first[:, None] + torch.arange(units[0].width, device=ids.device)).clamp(
                max=ids.shape[1] - 1
            )
            # What stands behind a row is read too, and seen by none before it, so no mask is needed.
            states = model.base_model(
                input_ids=ids[rows[:, None], columns], use_cache=False
            ).last_hidden_state
        row, column = counted[rows].nonzero(as_tuple=True)
        hidden.append(states.flatten(0, 1).index_select(0, row * states.shape[1] + column - 1 - first[row]))
        found.append(rows[row] * ids.shape[1] + column)
    return torch.cat(hidden), torch.cat(found)


def _shared(
    model: Any, ids: torch.Tensor, units: Sequence[Unit], rows: torch.Tensor, prompt_width: int
) -> torch.Tensor:
    """Return hidden states [rows, 1 + width, H], from each prompt's last token on; each prompt is read
    once."""
    width, longest = max(unit.width for unit in units), max(unit.prompt for unit in units)
    lengths = torch.tensor([unit.prompt for unit in units], device=ids.device)
    group = torch.repeat_interleave(torch.tensor([len(unit.rows) for unit in units], device=ids.device))
    firsts = torch.tensor([unit.rows[0] for unit in units], device=ids.device)
    mask = (torch.arange(longest, device=ids.device) >= longest - lengths[:, None]).long()
    read = model.base_model(
        input_ids=ids[firsts, prompt_width - longest : prompt_width],
        attention_mask=mask,
        position_ids=(mask.cumsum(1) - 1).clamp(min=0),
        use_cache=True,
    )
    cache = read.past_key_values
    cache.batch_select_indices(group)
    steps = torch.arange(width, device=ids.device)
    states = model.base_model(
        input_ids=ids[rows[:, None], (prompt_width + steps).clamp(max=ids.shape[1] - 1)],
        attention_mask=torch.cat([mask[group], mask.new_ones(len(rows), width)], dim=1),
        position_ids=lengths[group][:, None] + steps,
        past_key_values=cache,
        use_cache=True,
    ).last_hidden_state
    return torch.cat([read.last_hidden_state[:, -1:].index_select(0, group), states], dim=1)


def install(model: Any) -> bool:
    """Let a causal language model with TRL's fused head read and score only what counts; return whether it
    can.

    It can where head and backbone are two. The change is made inside the model, so that peft and
    DistributedDataParallel see one call a micro-batch, as ever.
    """
    if model.base_model is model:
        return False
    fused = model.forward.__func__

    @functools.wraps(type(model).forward)  # generate looks at the signature
    def forward(
        self: Any,
        *arguments: Any,
        counted: torch.Tensor | None = None,
        most: int = 0,
        together: bool = False,
        **named: Any,
    ) -> Any:
        if counted is None:
            return fused(self, *arguments, **named)
        return _scored(self, fused, counted=counted, most=most, together=together, **named)

    model.forward = types.MethodType(forward, model)
    return True


def _scored(
    model: Any,
    fused: Any,
    *,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    counted: torch.Tensor,
    most: int,
    together: bool,
    **_: Any,
) -> FusedCausalLMOutput:
    """Return log-probabilities and entropies [B, T] of the last T tokens of each row, 0 where counted [B, T]
    is False."""
    prompt_width = input_ids.shape[1] - counted.shape[1]
    everywhere = torch.nn.functional.pad(counted, (prompt_width, 0))
    # One token is scored for nothing: gradients of 0 are awaited, by other processes too
    if not counted.any():
        everywhere[0, prompt_width] = True
    # What is recomputed on the way back must find the layers it found before; shards are no matrices, and
    # under autocast neither is what is added up the weight that is multiplied.
    add = not (together or (model.training and getattr(model, "is_gradient_checkpointing", False)))
    with summed(model, add=add and not torch.is_autocast_enabled(input_ids.device.type)):
        hidden, places = hidden_states(
            model,
            input_ids,
            attention_mask,
            everywhere,
            most=most,
            prompt_width=prompt_width,
            together=together,
        )
    labels = input_ids.flatten()[places]
    # TRL's tiles are allocated at their full width where a vocabulary is smaller too. Set each time: the
    # number is of the whole process, and another model's may be larger.
    trl_utils._CHUNKED_LOGPROB_CHUNK_SIZE = min(model.get_output_embeddings().weight.shape[0], TILE)
    out = fused(
        _head(model),
        inputs_embeds=hidden[None],
        shift_labels=labels[None],
        fused_lm_head=True,
        output_router_logits=False,
    )

    def spread(values: torch.Tensor) -> torch.Tensor:
        rows = values.new_zeros(input_ids.numel()).index_copy(0, places, values[0]).view(input_ids.shape)
        return rows[:, prompt_width:].masked_fill(~counted, 0)

    return FusedCausalLMOutput(
        log_probs=spread(out.log_probs), entropy=None if out.entropy is None else spread(out.entropy)
    )
