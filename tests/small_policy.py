"""A policy as small as tests need one, with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerFast

from assay.core.config.settings import TinyArchitecture
from assay.rollout.policy.base import tiny
from assay.rollout.policy.model import Policy
from assay.rollout.policy.renderer import Dialogue

LETTERS = [chr(code) for code in range(32, 127)]
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "layers": 1,
    "heads": 2,
    "max_positions": 512,
    "initializer_range": 0.05,
}


def small_model(tokenizer: PreTrainedTokenizerFast, seed: int = 3, **shape: Any) -> Any:
    """Return a model of SHAPE but for what is said otherwise; equal seeds give equal weights."""
    return tiny.build_model(TinyArchitecture(**SHAPE | shape), tokenizer, seed)


def small_policy(words: Sequence[str] | PreTrainedTokenizerFast, seed: int = 3, **shape: Any) -> Policy:
    """Return such a model with the words that it writes, or with a tokenizer."""
    tokenizer = words if isinstance(words, PreTrainedTokenizerFast) else tiny.build_tokenizer(words)
    return Policy(small_model(tokenizer, seed, **shape), tokenizer, Dialogue(tokenizer), "test")


def small_base(folder: Path, words: Sequence[str] = LETTERS, seed: int = 3, **shape: Any) -> Path:
    """Write such a model and its tokenizer into a folder, as Hugging Face has them, and return it."""
    tokenizer = tiny.build_tokenizer(words)
    for part in (tokenizer, small_model(tokenizer, seed, **shape)):
        part.save_pretrained(folder)
    return folder
