"""A small Hugging Face model and its tokenizer, built from scratch out of a task's own words, and taught to
speak the task by imitation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from assay.core.config.settings import PhaseSettings, TinyArchitecture
from assay.core.decoding import Decoding
from assay.rollout.policy.backends.select import converse
from assay.rollout.policy.base.bpe import NUMBERS
from assay.rollout.policy.base.words import (
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
from assay.rollout.policy.model import Policy, evaluating
from assay.rollout.policy.renderer import Message


def build_tokenizer(words: Sequence[str]) -> PreTrainedTokenizerFast:
    """Build a word-level tokenizer whose tokens, joined without a gap, give the text back.

    Args:
        words: Every word that may be written or shown; the longest match wins.
    """
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *ordered(words)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern_of(words)), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return _wrapped(tokenizer, unk_token=UNKNOWN)


def train_tokenizer(texts: Iterable[str], size: int) -> PreTrainedTokenizerFast:
    """Learn a byte-level BPE tokenizer of at most so many tokens; equal texts give equal tokenizers."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(NUMBERS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return _wrapped(tokenizer)


def _wrapped(tokenizer: Tokenizer, **unknown: str) -> PreTrainedTokenizerFast:
    fast: PreTrainedTokenizerFast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        extra_special_tokens=[USER, ASSISTANT],
        padding_side="left",
        **unknown,
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


class Kept(Protocol):
    """Where a phase keeps what it needs to go on after an interruption."""

    def load(self, optimizer: torch.optim.Optimizer) -> int:
        """Put weights and moments back, and return after which step; 0 where nothing is kept."""
        ...

    def save(self, step: int, loss: float, optimizer: torch.optim.Optimizer) -> None:
        """Take note of a step."""
        ...


def imitate(
    policy: Policy,
    dialogues: Iterator[Sequence[Masked]],
    phase: Phase,
    *,
    every: int,
    stop: Callable[[int], bool],
    progress: Callable[[int, float], None],
    kept: Kept | None = None,
) -> int:
    """Train on batches of dialogues (cross-entropy of the assistant's tokens) and return the steps taken.

    Args:
        policy: Trained in place, all weights that take gradients.
        dialogues: Yields batches of (ids, mask).
        phase: Length, batch size and learning rate (per step, of AdamW).
        every: How often, in steps, `stop` is asked.
        stop: Told the step; True ends the phase.
        progress: Told the step and the loss in nats per token.
        kept: Goes on where an interrupted phase had got to; `dialogues` are those of its beginning.
    """
    model: Any = policy.model
    model.train()
    weights = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=phase.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    warmup = max(1, phase.steps // 10)

    def scale(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + float(np.cos(np.pi * (step - warmup) / max(1, phase.steps - warmup))))

    begun = 0 if kept is None else kept.load(optimizer)
    for _ in range(begun):
        next(dialogues)
    for step in range(begun + 1, phase.steps + 1):
        optimizer.param_groups[0]["lr"] = phase.learning_rate * scale(step - 1)
        loss = _loss(model, next(dialogues), policy.pad_id)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        told = float(loss.detach())
        progress(step, told)
        if kept is not None:
            kept.save(step, told, optimizer)
        if step % every == 0 and stop(step):
            return step
    return phase.steps


def _loss(model: Any, batch: Sequence[Masked], pad_id: int) -> torch.Tensor:
    width = max(len(ids) for ids, _ in batch)
    device = model.get_input_embeddings().weight.device
    ids = torch.full((len(batch), width), pad_id)
    told = torch.zeros((len(batch), width), dtype=torch.bool)
    for row, (tokens, mask) in enumerate(batch):
        ids[row, : len(tokens)] = torch.as_tensor(tokens)
        told[row, : len(tokens)] = torch.as_tensor(mask) == 1
    ids, asked = ids.to(device), told.to(device)[:, 1:]
    # Padding is on the right, where no token before it looks; the head is only asked where an answer stands.
    if isinstance(model, Qwen3ForCausalLM):
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
        logits = model.lm_head(hidden[:, :-1][asked])
    else:  # another family may do more with what comes out of its layers than to multiply it
        columns = asked.any(dim=0).nonzero()[:, 0]
        logits = model(input_ids=ids, use_cache=False, logits_to_keep=columns).logits
        logits = logits[asked[:, columns]].float()
    loss: torch.Tensor = torch.nn.functional.cross_entropy(logits, ids[:, 1:][asked])
    return loss


def copy_accuracy(policy: Policy, drills: Dialogues) -> float:
    """Return the share of drills whose greedy completion equals the expected answer, token for token."""
    dialogue = policy.dialogue
    longest = max(sum(dialogue.whole(drill)[1]) for drill in drills)
    with evaluating(policy.model):
        prompts = [dialogue.prompt(drill[:-1]) for drill in drills]
        session = converse(
            policy, prompts, [0] * len(drills), Decoding(temperature=0, max_new_tokens=longest)
        )
        completions = session.complete()
    right = [
        dialogue.text(c.ids) == drill[-1]["content"] for c, drill in zip(completions, drills, strict=True)
    ]
    return sum(right) / len(right)
