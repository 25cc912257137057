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
import types
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from trl.trainer import utils as trl_utils
from trl.trainer.utils import FusedCausalLMOutput

from assay.rollout.policy.engine.fused_lora import summed
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


def longest_first(lengths: Sequence[int]) -> list[int]:
    """Return the rows that have tokens, the longest first."""
    return sorted((row for row, length in enumerate(lengths) if length > 0), key=lambda row: -lengths[row])


def passes(lengths: Sequence[int], work: Work, most: int) -> tuple[float, list[list[int]]]:
    """Return the cheapest way to cut rows, sorted by length, into passes, and its cost in multiply-adds.

    Args:
        lengths: Tokens of each row that are read; 0: it is not.
        work: What the model costs.
        most: Rows in one pass.
    """
    ordered = longest_first(lengths)
    best, cut = np.zeros(len(ordered) + 1), np.zeros(len(ordered), int)
    for first in reversed(range(len(ordered))):
        stop = min(first + most, len(ordered))
        # All in one pass are as long as the longest of them.
        n_rows, w = np.arange(1, stop - first + 1), lengths[ordered[first]]
        cost = work.begin + n_rows * w * (work.token + work.pair * w) + best[first + 1 : stop + 1]
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
    of which openings are equal. Rows are read flat (`flat.py`) where at least two share at least 64 tokens,
    and alone otherwise.

    Args:
        model: A causal language model with a backbone.
        ids: [B, W]; what is real of a row is in one piece.
        attention: [B, W]; 1 where a token is real.
        counted: [B, W]; True for tokens that count, never a row's first; at least one.
        most: Rows in one pass.
        prompt_width: Columns of ids that hold prompts, padded on the left, which rows may share.
        openings: Without prompt_width, the first tokens of each row that it may share.
        together: All rows in one pass, as where every pass is a conversation of several processes.
    """
    places = torch.arange(ids.shape[1], device=ids.device)
    start = attention.argmax(dim=1)
    stop = (counted * places).amax(dim=1)  # the last token that counts: what is read ends before it
    starts, lengths = start.tolist(), (stop - start).clamp(min=0).tolist()
    if prompt_width is not None:
        openings = [prompt_width - first for first in starts]
    if openings is not None and not together:
        flat = read_flat(model, ids, starts, lengths, openings, counted, most=most)
        if flat is not None:
            return flat
    if together:
        chosen = [longest_first(lengths)]
    else:
        chosen = passes(lengths, Work.of(model.config.get_text_config(), ids.device.type), most)[1]
    hidden, found = [], []
    for read in chosen:
        rows = torch.tensor(read, device=ids.device)
        first = start[rows]
        columns = first[:, None] + torch.arange(lengths[read[0]], device=ids.device)
        # What stands behind a row is read too, and seen by none before it, so no mask is needed.
        states = model.base_model(
            input_ids=ids[rows[:, None], columns.clamp(max=ids.shape[1] - 1)], use_cache=False
        ).last_hidden_state
        row, column = counted[rows].nonzero(as_tuple=True)
        hidden.append(states.flatten(0, 1).index_select(0, row * states.shape[1] + column - 1 - first[row]))
        found.append(rows[row] * ids.shape[1] + column)
    return torch.cat(hidden), torch.cat(found)


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
