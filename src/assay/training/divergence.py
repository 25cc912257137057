"""How far a policy has moved from its base, measured on texts that stay the same during the whole run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from assay.policy.engine import evaluating
from assay.policy.model import Policy


class Text(NamedTuple):
    """An episode as tokens: the opening, all that came after it, and which of that (1) the policy wrote."""

    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[int]


def kl_to_base(policy: Policy, probe: Sequence[Text], *, temperature: float, batch_size: int) -> float:
    """Return KL(policy || base), in nats per policy token, summed exactly over the vocabulary.

    Args:
        policy: A peft policy; its base is what remains when the adapter is off.
        probe: Episodes of the base policy; only its own tokens count, not the environment's.
        temperature: Temperature of the sampling distribution that is compared.
        batch_size: Episodes in one forward pass.
    """
    model = policy.model
    device = next(model.parameters()).device
    total, n_tokens = 0.0, 0
    with evaluating(model):
        for start in range(0, len(probe), batch_size):
            batch = probe[start : start + batch_size]
            width = max(len(r.prompt_ids) + len(r.completion_ids) for r in batch)
            ids = torch.full((len(batch), width), policy.pad_id)
            attention, counted = torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
            for row, r in enumerate(batch):
                tokens = r.prompt_ids + r.completion_ids
                ids[row, : len(tokens)] = torch.as_tensor(tokens)
                attention[row, : len(tokens)] = 1
                # The logits at position t decide token t + 1.
                counted[row, len(r.prompt_ids) - 1 : len(tokens) - 1] = torch.as_tensor(r.mask).bool()
            arguments = {"input_ids": ids.to(device), "attention_mask": attention.to(device), "use_cache": False}
            keep = counted.to(device)
            log_p = torch.log_softmax(model(**arguments).logits[keep].float() / temperature, dim=-1)
            with model.disable_adapter():
                log_q = torch.log_softmax(model(**arguments).logits[keep].float() / temperature, dim=-1)
            total += float((log_p.exp() * (log_p - log_q)).sum().double())
            n_tokens += int(keep.sum())
    return total / max(1, n_tokens)
