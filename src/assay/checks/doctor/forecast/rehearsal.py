"""A step of a training in its parts, with everything as long as it may get: what is read, written, learned
from, looked at.

The same few functions run with fake tensors, to count bytes (weighing.py), and with real ones of a few
layers, to take time (pace.py). They drive what a training drives: the engine's reader, the pass of scoring.py
under LoRA, the KL's hidden states.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes
from trl.trainer.utils import add_fused_lm_head

from assay.core.config.settings import Params
from assay.rollout.policy.engine.choice import choose
from assay.rollout.policy.engine.engine import Reader
from assay.rollout.policy.engine.shared_prompts import READ_AT_ONCE
from assay.rollout.policy.model import Policy, playing
from assay.training.adapter import attach_adapter, trainable
from assay.training.kl import TILE
from assay.training.logprobs import hidden_states, install, logits_of
from assay.training.rollouts import untouched

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long an episode may get, in tokens: its prompt, completions a turn, and what is told between two of
    them."""

    prompt: int
    turns: int
    new: int
    reply: int

    @property
    def behind(self) -> int:
        """Tokens behind the prompt."""
        return self.turns * self.new + (self.turns - 1) * self.reply

    @property
    def whole(self) -> int:
        """Tokens of a whole episode."""
        return self.prompt + self.behind

    def counted(self) -> torch.Tensor:
        """Return which of the tokens behind the prompt the policy writes, bool [behind]."""
        turn = torch.arange(self.behind) % (self.new + self.reply)
        return turn < self.new


def with_layers(config: Any, layers: int) -> Any:
    """Return the configuration of a model with its first layers only."""
    config = copy.deepcopy(config)
    text = config.get_text_config(decoder=True)
    text.num_hidden_layers = layers
    if getattr(text, "layer_types", None):
        text.layer_types = list(text.layer_types)[:layers]
    return config


def build(config: Any, params: Params, device: str) -> Any:
    """Return the model under training as a training has it, with random weights (fake ones within
    `weightless`).

    Raises:
        ConfigError: There is nothing that LoRA's targets name.
    """
    from accelerate import init_empty_weights
    from transformers import AutoModelForCausalLM

    base = params.base
    dtype = _DTYPES[base.dtype]
    with untouched(), _disable_current_modes():
        with init_empty_weights(include_buffers=False):
            model: Any = AutoModelForCausalLM.from_config(config, dtype=dtype)  # type: ignore[no-untyped-call]
            if base.quantization is not None:
                _give_place(model, base.quantization, dtype)
        model.tie_weights()
        model.config.use_cache = True
        with init_empty_weights(include_buffers=False):
            model = attach_adapter(Policy(model, cast(Any, None), cast(Any, None), ""), params).model
        inner = model.get_base_model()
        add_fused_lm_head(inner, temperature=params.generation.temperature, outputs=("log_probs", "entropy"))
        install(inner)
    with untouched():
        _fill(model, torch.device(device))
    return model


def _give_place(model: Any, kind: str, dtype: torch.dtype) -> None:
    """Put 4-bit layers where loading puts them."""
    from transformers import BitsAndBytesConfig
    from transformers.quantizers.auto import AutoHfQuantizer

    settings = BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_4bit=True,
        bnb_4bit_quant_type=kind,
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )
    AutoHfQuantizer.from_config(settings, pre_quantized=False).preprocess_model(
        model=model, device_map=None, dtype=dtype
    )
    model.is_loaded_in_4bit = True
    from bitsandbytes.functional import quantize_4bit

    with torch.device("cpu"):
        quantize_4bit(
            torch.zeros(64), compress_statistics=True, quant_type=kind
        )  # its tables, which are kept, must be real


def _fill(model: Any, device: torch.device) -> None:
    """Put random numbers where there are none yet; what is tied stays so, what is 4-bit gets as many bytes as
    by loading."""
    filled: dict[int, torch.nn.Parameter] = {}
    for module in model.modules():
        for name, empty in module._parameters.items():
            if empty is None:
                continue
            if id(empty) not in filled:
                numbers = torch.empty(empty.shape, dtype=empty.dtype, device=device).normal_(0.0, 0.02)
                filled[id(empty)] = (
                    _packed(module, numbers)
                    if hasattr(module, "quant_state")
                    else torch.nn.Parameter(numbers)
                )
                filled[id(empty)].requires_grad_(empty.requires_grad)
            module._parameters[name] = filled[id(empty)]
        for name, buffer in module._buffers.items():
            module._buffers[name] = None if buffer is None else buffer.to(device)


def _packed(layer: Any, numbers: torch.Tensor) -> torch.nn.Parameter:
    from bitsandbytes.functional import quantize_4bit

    packed, layer.quant_state = quantize_4bit(
        numbers, compress_statistics=True, quant_type=layer.weight.quant_type
    )
    parameter: Any = torch.nn.Parameter(packed, requires_grad=False)
    parameter.quant_state, layer.support_avx512bf16_for_cpu = layer.quant_state, False
    return cast(torch.nn.Parameter, parameter)


class Rehearsal:
    """A step in its parts, with a model that `build` made.

    Args:
        model: With its adapter.
        params: Settings.
        lengths: Of an episode.
    """

    def __init__(self, model: Any, params: Params, lengths: Lengths) -> None:
        self._model, self._params, self._lengths = model, params, lengths
        self._device = model.get_input_embeddings().weight.device

    @contextmanager
    def play(self, rows: int, different: int) -> Iterator[Reader]:
        """Read so many different prompts for so many conversations, as the engine does; give the reader that
        holds them."""
        prompt = self._lengths.prompt
        with playing(self._model):
            reader = Reader(self._model, 0, static=False)
            reader.cache.reserve(rows, prompt)
            at_once, read = max(1, READ_AT_ONCE // prompt), []
            for start in range(0, different, at_once):
                n = min(at_once, different - start)
                read.append(reader.read(start, [[0] * prompt] * n, np.zeros(n, np.int64)))
            copies = np.arange(different, rows)
            reader.cache.copy(copies % different, copies, prompt)
            self.sample(torch.cat(read)[torch.arange(rows, device=self._device) % different])
            yield reader

    def sample(self, logits: torch.Tensor) -> torch.Tensor:
        """Return the tokens that are sampled, int64 [rows]."""
        noise = torch.full((len(logits),), 0.5, dtype=torch.float64, device=self._device)
        return choose(logits, self._params.generation.temperature, noise)[0]

    def read_reply(self, reader: Reader, rows: int, length: int) -> torch.Tensor:
        """Let each row read the last token it wrote and what it is told, behind so many tokens."""
        return reader.read(0, [[0] * (1 + self._lengths.reply)] * rows, np.full(rows, length, np.int64))

    def write(self, reader: Reader, rows: int, length: int, n: int) -> None:
        """Let each row write so many tokens, behind so many."""
        step = reader.steps(rows, np.full(rows, length, np.int64), n)
        chosen = torch.zeros(rows, dtype=torch.long, device=self._device)
        for _ in range(n):
            chosen = self.sample(step(chosen))

    def learn(self, rows: int, *, checkpointing: bool) -> None:
        """Take one forward and one backward pass over a micro-batch of so many episodes."""
        lengths, train = self._lengths, self._params.train
        ids = torch.zeros(rows, lengths.whole, dtype=torch.long)
        ids[:, 0] = torch.arange(rows) // train.group_size  # copies of a group share their prompt
        counted = lengths.counted()[None].expand(rows, -1)
        model = self._model
        if checkpointing:
            model.gradient_checkpointing_enable()
            model.enable_input_require_grads()
        model.train()
        try:
            ids, counted = ids.to(self._device), counted.to(self._device)
            scored = model(input_ids=ids, attention_mask=torch.ones_like(ids), counted=counted, most=rows)
            old = scored.log_probs.detach()
            loss = -(torch.exp(scored.log_probs - old) * counted).sum() / counted.sum()
            (loss / 2).backward()  # type: ignore[no-untyped-call]
        finally:
            if checkpointing:
                model.gradient_checkpointing_disable()

    def look(self, episodes: int) -> torch.Tensor:
        """Read so many texts for the KL; return hidden states [N, H], which are kept of the base."""
        lengths = self._lengths
        ids = torch.zeros(episodes, lengths.whole, dtype=torch.long, device=self._device)
        counted = torch.nn.functional.pad(lengths.counted(), (lengths.prompt, 0))[None].expand(episodes, -1)
        with playing(self._model):
            return hidden_states(
                self._model.get_base_model(),
                ids,
                torch.ones_like(ids),
                counted.to(self._device),
                most=self._params.train.micro_batch_size,
            )[0]

    def compare(self, hidden: torch.Tensor, tiles: int | None = None) -> None:
        """Compare hidden states with the base's over the vocabulary, all of them or as many tiles."""
        inner, temperature = self._model.get_base_model(), self._params.generation.temperature
        at_once = max(1, TILE // inner.get_output_embeddings().weight.shape[0])
        with playing(self._model):
            for part in torch.split(hidden, at_once)[:tiles]:
                log_p, log_q = (torch.log_softmax(logits_of(inner, part) / temperature, -1) for _ in range(2))
                (log_p.exp() * (log_p - log_q)).sum().double()

    @property
    def adapter(self) -> list[torch.nn.Parameter]:
        """What is trained."""
        return [parameter for _, parameter in trainable(self._model)]
