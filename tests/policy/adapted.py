"""A tiny base with an adapter that changes what it says, as folders."""

from __future__ import annotations

from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model

from assay.core.config.settings import TinyArchitecture
from assay.rollout.policy.base import tiny
from assay.rollout.policy.base.adapter_files import Weights

SHAPE = TinyArchitecture(
    hidden_size=32, intermediate_size=64, layers=2, heads=2, max_positions=128, initializer_range=0.1
)
OPENINGS = [[5 + row + k for k in range(8 + 3 * row)] for row in range(4)]


def adapted_base(
    folder: Path, *, seed: int = 5, words: int = 95, dtype: str = "float32", quantization: str | None = None
) -> Weights:
    """Write base and adapter under a folder; equal arguments give equal weights."""
    tokenizer = tiny.build_tokenizer([chr(32 + code) for code in range(words)])
    model = tiny.build_model(SHAPE, tokenizer, seed)
    model.save_pretrained(folder / "base")
    tokenizer.save_pretrained(folder / "base")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        settings = LoraConfig(
            r=4, lora_alpha=8, init_lora_weights=False, target_modules="all-linear", task_type="CAUSAL_LM"
        )
        get_peft_model(model, settings).save_pretrained(folder / "adapter")
    return Weights(folder / "base", folder / "adapter", "cpu", dtype, quantization)
