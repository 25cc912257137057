"""A 4-bit base on a CPU passes gradients to every adapter, also after it has played."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from assay.core.config.settings import TinyArchitecture
from assay.core.decoding import Decoding
from assay.policy.base import tiny
from assay.policy.engine.engine import Session
from assay.policy.model import evaluating, load, playing
from tests.policy.architectures import logprobs_of


def four_bit(folder: Path, dtype: str) -> Any:
    """Return a 4-bit model under an adapter that changes what it says."""
    tokenizer = tiny.build_tokenizer([chr(code) for code in range(32, 127)])
    shape = TinyArchitecture(
        hidden_size=64, intermediate_size=128, layers=2, heads=2, max_positions=64, initializer_range=0.05
    )
    tiny.build_model(shape, tokenizer, 5).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    policy = load(folder, adapter=None, device="cpu", dtype=dtype, quantization="nf4")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        settings = LoraConfig(
            r=4, init_lora_weights=False, target_modules="all-linear", task_type="CAUSAL_LM"
        )
        return get_peft_model(policy.model, settings)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("static", [False, True])
def test_a_4_bit_base_under_an_adapter_plays_what_a_plain_pass_says(tmp_path: Path, static: bool) -> None:
    model, openings = four_bit(tmp_path, "float32"), [[9, 8, 7], [9, 8, 7], [20] * 9]
    stored = [p.detach().clone() for p in model.parameters()]
    with playing(model, add=not static):
        decoding = Decoding(1.0, 5, cuda_graphs=static)
        session = Session(model, openings, [1, 2, 3], decoding, end_ids=[2], pad_id=0)
        first = session.complete()
        session.tell([one.ids[-1] for one in first], [[30], [31, 32], [33]])
        second = session.complete()
    assert all(torch.equal(p, before) for p, before in zip(model.parameters(), stored, strict=True))
    for row, reply in enumerate([[30], [31, 32], [33]]):
        ids = [*openings[row], *first[row].ids, *reply, *second[row].ids]
        expected = logprobs_of(model.eval(), ids)[-len(second[row].ids) :]
        assert float((expected - torch.tensor(second[row].logprobs)).abs().max()) < 1e-4


@pytest.mark.filterwarnings("ignore")
def test_every_adapter_has_a_gradient_after_a_pass_in_evaluation_mode(tmp_path: Path) -> None:
    model = four_bit(tmp_path, "bfloat16")
    ids = torch.arange(18).reshape(2, 9)
    with evaluating(model):
        model(input_ids=ids)
    model.train()
    model(input_ids=ids).logits.float().square().sum().backward()
    dead = [
        name
        for name, p in model.named_parameters()
        if "lora_B" in name and not (p.grad is not None and p.grad.abs().sum() > 0)
    ]
    assert dead == []
