"""A token is where the distribution function passes the number handed in, however the sum over a vocabulary
is made."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from assay.policy.engine.engine import BLOCK, _inverse, _inverse_by_blocks, choose

SIZE = 3 * BLOCK + 17


@pytest.mark.parametrize("scale", [0.0, 1.0, 8.0])
def test_the_search_by_blocks_finds_what_one_running_sum_finds(scale: float) -> None:
    generator = torch.Generator().manual_seed(3)
    logprobs = torch.log_softmax(scale * torch.randn(400, SIZE, generator=generator), -1)
    noise = torch.rand(400, dtype=torch.float64, generator=generator)
    assert torch.equal(_inverse_by_blocks(logprobs, noise), _inverse(logprobs, noise))


@pytest.mark.parametrize("number", [0.0, 0.5, 1 - 2.0**-53])
def test_a_token_without_probability_is_never_chosen(number: float) -> None:
    logits = torch.full((4, SIZE), float("-inf"))
    alive = [0, BLOCK - 1, BLOCK, SIZE - 2]
    for row, place in enumerate(alive):
        logits[row, place] = 1.0
    ids, logprobs = choose(logits, 1.0, torch.full((4,), number, dtype=torch.float64))
    assert ids.tolist() == alive and logprobs.tolist() == [0.0] * 4


@pytest.mark.parametrize("size", [50, SIZE])
def test_tokens_come_as_often_as_their_probabilities_say(size: int) -> None:
    logits = torch.full((size,), -9.0)
    logits[[1, size // 2, size - 1]] = torch.tensor([1.0, 2.0, 3.0])
    noise = torch.as_tensor((np.arange(20_000) + 0.5) / 20_000)
    ids, _ = choose(logits.expand(20_000, -1).contiguous(), 0.7, noise)
    expected = torch.softmax(logits / 0.7, -1)
    for place in (1, size // 2, size - 1):
        assert float((ids == place).double().mean()) == pytest.approx(float(expected[place]), abs=2e-3)
