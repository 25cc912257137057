"""How far a policy has moved from its base, measured on texts that stay the same during the whole run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

import torch

from assay.rollout.policy.model import Policy, evaluating, playing
from assay.training.logprobs import hidden_states, logits_of

TILE = 2**23  # logits held at once; 32 MiB in float32


class Text(NamedTuple):
    """An episode as tokens: the opening, all that came after it, and which of that (1) the policy wrote."""

    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[int]


def openings(prompts: Sequence[list[int]]) -> list[int]:
    """Return how many tokens of each prompt may be read once for several: all, where some are equal, or else
    those that all begin with.

    >>> openings([[1, 2, 3], [1, 2, 3], [1, 5]]), openings([[1, 2, 3], [1, 2, 4], [1, 2, 5]])
    ([3, 3, 2], [2, 2, 2])
    """
    if len({tuple(prompt) for prompt in prompts}) < len(prompts):
        return [len(prompt) for prompt in prompts]
    alike = takewhile(lambda column: len(set(column)) == 1, zip(*prompts, strict=False))
    return [sum(1 for _ in alike)] * len(prompts)


class Divergence:
    """KL(policy || base), in nats per policy token, summed exactly over the vocabulary.

    What the base makes of the texts is found out once and kept as hidden states (tokens × hidden size, which
    is small beside logits); it is a function of texts and base alone, so a resumed training finds the same
    bits.

    Args:
        policy: A peft policy; its base is what remains when the adapter is off.
        probe: Episodes of the base policy; only its own tokens count, not the environment's.
        temperature: Temperature of the sampling distribution that is compared.
        batch_size: Episodes in one forward pass, at most.
    """

    def __init__(self, policy: Policy, probe: Sequence[Text], *, temperature: float, batch_size: int) -> None:
        self._model, self._temperature, self._batch_size = policy.model, temperature, batch_size
        device = next(policy.model.parameters()).device
        width = max((len(text.prompt_ids) + len(text.completion_ids) for text in probe), default=0)
        ids = torch.full((len(probe), width), policy.pad_id)
        attention, counted = torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
        for row, text in enumerate(probe):
            tokens = text.prompt_ids + text.completion_ids
            ids[row, : len(tokens)] = torch.as_tensor(tokens)
            attention[row, : len(tokens)] = 1
            counted[row, len(text.prompt_ids) : len(tokens)] = torch.as_tensor(text.mask).bool()
        self._texts = ids.to(device), attention.to(device), counted.to(device)
        self._n_tokens = int(counted.sum())
        self._openings = openings([text.prompt_ids for text in probe])
        self._base: torch.Tensor | None = None

    def _hidden(self) -> torch.Tensor:
        model = self._model.get_base_model()
        return hidden_states(model, *self._texts, most=self._batch_size, openings=self._openings)[0]

    def _log_softmax(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(logits_of(self._model.get_base_model(), hidden) / self._temperature, dim=-1)

    def __call__(self) -> float:
        """Return the KL as the policy stands now; 0 where no token counts."""
        if self._n_tokens == 0:
            return 0.0
        total, model = 0.0, self._model.get_base_model()
        if self._base is None:
            with evaluating(self._model), self._model.disable_adapter():
                self._base = self._hidden()
        with playing(self._model):
            at_once = max(1, TILE // model.get_output_embeddings().weight.shape[0])
            for mine, theirs in zip(
                torch.split(self._hidden(), at_once), torch.split(self._base, at_once), strict=True
            ):
                log_p, log_q = self._log_softmax(mine), self._log_softmax(theirs)
                total += float((log_p.exp() * (log_p - log_q)).sum().double())
        return total / self._n_tokens
