"""The loss of the warm start: cross-entropy of the assistant's tokens alone."""

from __future__ import annotations

import pytest
import torch

from assay.core.config.settings import TinyArchitecture
from assay.rollout.policy.base import tiny

SHAPE = TinyArchitecture(
    hidden_size=32, intermediate_size=64, layers=2, heads=2, max_positions=64, initializer_range=0.5
)


def test_the_loss_is_the_one_of_transformers_with_labels_and_an_attention_mask() -> None:
    tokenizer = tiny.build_tokenizer(["a", "b", "c"])
    model = tiny.build_model(SHAPE, tokenizer, 5)
    batch = [([1, 2, 0, 2, 1, 3], [0, 0, 1, 1, 0, 1]), ([2, 1, 3], [0, 1, 1])]
    ids, attention = torch.zeros((2, 6), dtype=torch.long), torch.zeros((2, 6), dtype=torch.long)
    labels = torch.full((2, 6), -100)
    for row, (tokens, mask) in enumerate(batch):
        for place, (token, told) in enumerate(zip(tokens, mask, strict=True)):
            ids[row, place], attention[row, place] = token, 1
            labels[row, place] = token if told else -100
    found = tiny._loss(model, batch, 0).detach()
    known = model(input_ids=ids, attention_mask=attention, labels=labels).loss.detach()
    assert float(found) == pytest.approx(float(known), abs=1e-6)
    assert float(found) != pytest.approx(float(tiny._loss(model, batch[:1], 0).detach()), abs=1e-3)
