"""A small Hugging Face model and its tokenizer, built from scratch out of a task's own words."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from assay.core.config.settings import TinyArchitecture
from assay.policy.base.words import (
    ASSISTANT,
    CHAT_TEMPLATE,
    END,
    PAD,
    SPECIAL,
    UNKNOWN,
    USER,
    ordered,
    pattern_of,
)


def build_tokenizer(words: Sequence[str]) -> PreTrainedTokenizerFast:
    """Build a word-level tokenizer whose tokens, joined without a gap, give the text back.

    Args:
        words: Every word that may be written or shown; the longest match wins.
    """
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *ordered(words)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern_of(words)), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    fast: PreTrainedTokenizerFast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        extra_special_tokens=[USER, ASSISTANT],
        padding_side="left",
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def build_model(
    architecture: TinyArchitecture, tokenizer: PreTrainedTokenizerFast, seed: int
) -> Qwen3ForCausalLM:
    """Build a randomly initialised attention-only Qwen3; equal seeds give equal weights."""
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=architecture.hidden_size,
        intermediate_size=architecture.intermediate_size,
        num_hidden_layers=architecture.layers,
        num_attention_heads=architecture.heads,
        num_key_value_heads=architecture.heads,
        head_dim=architecture.hidden_size // architecture.heads,
        max_position_embeddings=architecture.max_positions,
        initializer_range=architecture.initializer_range,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model
