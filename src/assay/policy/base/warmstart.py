"""Supervised warm start of a tiny policy: read-off drills until a probe passes, then demonstrations of weak
play."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from assay.core.config.settings import PhaseSettings
from assay.core.decoding import Decoding
from assay.policy.backends.select import converse
from assay.policy.chat_template import Message
from assay.policy.eval_mode import evaluating
from assay.policy.model import Policy

Dialogues = Sequence[Sequence[Message]]
Masked = tuple[list[int], list[int]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of supervised training: AdamW with linear warm-up over a tenth and cosine decay to zero."""

    steps: int
    batch_size: int
    learning_rate: float


def phase(settings: PhaseSettings) -> Phase:
    """Return a phase from its settings."""
    return Phase(settings.steps, settings.batch_size, settings.learning_rate)


def batches(pool: Sequence[Masked], size: int, rng: np.random.Generator) -> Iterator[Sequence[Masked]]:
    """Yield batches for ever: a fresh permutation each epoch, neighbours in length together so that little is
    padded."""
    span = 16 * size
    while True:
        order = rng.permutation(len(pool))
        ready: list[Sequence[int]] = []
        for start in range(0, len(pool) - size + 1, span):
            chunk = sorted(order[start : start + span].tolist(), key=lambda i: len(pool[i][0]))
            ready += [chunk[i : i + size] for i in range(0, len(chunk) - size + 1, size)]
        for index in rng.permutation(len(ready)):
            yield [pool[i] for i in ready[index]]


def alternating(often: Iterator[T], seldom: Iterator[T], every: int) -> Iterator[T]:
    """Yield from `often`, but each `every`-th time from `seldom`."""
    for turn in itertools.count(1):
        yield next(seldom) if turn % every == 0 else next(often)


def imitate(
    policy: Policy,
    dialogues: Iterator[Sequence[Masked]],
    phase: Phase,
    *,
    every: int,
    stop: Callable[[int], bool],
    progress: Callable[[int, float], None],
) -> int:
    """Train on batches of dialogues (cross-entropy of the assistant's tokens) and return the steps taken.

    Args:
        policy: Trained in place, all weights.
        dialogues: Yields batches of (ids, mask).
        phase: Length, batch size and learning rate (per step, of AdamW).
        every: How often, in steps, `stop` is asked.
        stop: Told the step; True ends the phase.
        progress: Told the step and the loss in nats per token.
    """
    model: Any = policy.model
    model.train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=phase.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    warmup = max(1, phase.steps // 10)

    def scale(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + float(np.cos(np.pi * (step - warmup) / max(1, phase.steps - warmup))))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, scale)
    for step in range(1, phase.steps + 1):
        loss = _loss(model, next(dialogues), policy.pad_id)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        progress(step, float(loss.detach()))
        if step % every == 0 and stop(step):
            return step
    return phase.steps


def _loss(model: Any, batch: Sequence[Masked], pad_id: int) -> torch.Tensor:
    width = max(len(ids) for ids, _ in batch)
    ids = torch.full((len(batch), width), pad_id)
    labels = torch.full((len(batch), width), -100)
    attention = torch.zeros((len(batch), width), dtype=torch.long)
    for row, (tokens, mask) in enumerate(batch):
        ids[row, : len(tokens)] = torch.as_tensor(tokens)
        attention[row, : len(tokens)] = 1
        labels[row, : len(tokens)] = torch.where(torch.as_tensor(mask) == 1, torch.as_tensor(tokens), -100)
    logits = model(input_ids=ids, attention_mask=attention, use_cache=False).logits
    loss: torch.Tensor = torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100
    )
    return loss


def copy_accuracy(policy: Policy, drills: Dialogues) -> float:
    """Return the share of drills whose greedy completion equals the expected answer, token for token."""
    dialogue = policy.dialogue
    longest = max(sum(dialogue.whole(drill)[1]) for drill in drills)
    with evaluating(policy.model):
        openings = [dialogue.opening(drill[:-1]) for drill in drills]
        session = converse(
            policy, openings, [0] * len(drills), Decoding(temperature=0, max_new_tokens=longest)
        )
        completions = session.complete()
    right = [
        dialogue.text(c.ids) == drill[-1]["content"] for c, drill in zip(completions, drills, strict=True)
    ]
    return sum(right) / len(right)
