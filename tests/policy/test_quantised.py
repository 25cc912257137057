"""A 4-bit base on a CPU passes gradients to every adapter, also after it has played."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model

from assay.config.settings import TinyArchitecture
from assay.policy import tiny
from assay.policy.engine import evaluating
from assay.policy.model import load


@pytest.mark.filterwarnings("ignore")
def test_every_adapter_has_a_gradient_after_a_pass_in_evaluation_mode(tmp_path: Path) -> None:
    tokenizer = tiny.build_tokenizer([chr(code) for code in range(32, 127)])
    shape = TinyArchitecture(hidden_size=64, intermediate_size=128, layers=2, heads=2, max_positions=64, initializer_range=0.05)
    tiny.build_model(shape, tokenizer, 5).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    policy = load(tmp_path, adapter=None, device="cpu", dtype="bfloat16", quantization="nf4")
    model = get_peft_model(policy.model, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    ids = torch.arange(18).reshape(2, 9)
    with evaluating(model):
        model(input_ids=ids)
    model.train()
    model(input_ids=ids).logits.float().square().sum().backward()
    dead = [
        name for name, p in model.named_parameters() if "lora_B" in name and not (p.grad is not None and p.grad.abs().sum() > 0)
    ]
    assert dead == []
