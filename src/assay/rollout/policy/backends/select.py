"""The one interface behind which episodes are played, and the choice of who plays them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from transformers import GenerationConfig

from assay.core.config.places import setting
from assay.core.console import say
from assay.core.decoding import Completion, Decoding
from assay.core.errors import ConfigError
from assay.core.seeds import derive_seed
from assay.rollout.policy.engine.choice import Bound
from assay.rollout.policy.model import Policy

# Played by `engine.Session`.
OURS = ("cached", "lean")


class Conversations(Protocol):
    """Conversations under way, each a row; rows keep their order."""

    def complete(self) -> list[Completion]:
        """Let every row write until one of its ends or the token limit."""
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Drop every row but these, whose order is the new one."""
        ...

    def tell(self, last_ids: Sequence[int], replies: Sequence[Sequence[int]]) -> None:
        """Give each row what stands between its completion, whose last token is named, and its next one."""
        ...

    def admit(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], bounds: Sequence[Bound | None] = ()
    ) -> None:
        """Take in further conversations behind the rows there are, after `tell` and before `complete`."""
        ...


def converse(
    policy: Policy,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[int],
    decoding: Decoding,
    bounds: Sequence[Bound | None] = (),
) -> Conversations:
    """Begin conversations with a policy, by the backend that the decoding names.

    Args:
        policy: Who writes; inside `playing` or `evaluating`.
        prompts: Token ids, up to where the policy starts to write.
        seeds: One sampling seed a row.
        decoding: How tokens are chosen, and by whom.
        bounds: What each row may write, none for anything; only our own engine keeps to them.

    Raises:
        ConfigError: The backend cannot do what is asked here.
        PolicyError: The backend cannot serve the model.
    """
    ends: dict[str, Any] = {"end_ids": policy.dialogue.end_ids, "pad_id": policy.pad_id}
    if decoding.cuda_graphs and (
        decoding.backend != "cached" or next(policy.model.parameters()).device.type != "cuda"
    ):
        raise ConfigError(
            "backend cached on a CUDA device, for cuda_graphs: true",
            found=f"backend {decoding.backend} on {next(policy.model.parameters()).device.type}",
            where=setting("generation.cuda_graphs"),
            fix="set generation.cuda_graphs: false",
        )
    if decoding.drafts and decoding.backend != "lean":
        raise ConfigError(
            "backend lean, for drafts above 0",
            found=f"backend {decoding.backend}",
            where=setting("generation.drafts"),
            fix="set generation.drafts: 0",
        )
    assert decoding.backend in OURS or not any(bounds), "no other engine keeps to bounds"
    if decoding.backend == "transformers":
        _tell_engine(decoding.backend)
        return StockConversations(policy.model, prompts, seeds, decoding, **ends)
    from assay.rollout.policy.engine.engine import Session

    session = Session(policy.model, prompts, seeds, decoding, bounds=bounds, **ends)
    _tell_engine(session.engine)
    return session


_told: set[str] = set()


def _tell_engine(engine: str) -> None:
    """Say once who plays; why it is not the one that was asked for, `reader_of` says."""
    if engine not in _told:
        _told.add(engine)
        say(f"engine: {engine} plays")


class StockConversations:
    """Conversations by token ids through `model.generate`; same dialogue, temperature and limits as the
    engine's own. Arguments are those of `engine.Session`.

    Sampled tokens are those of `generate`: they hang on the batch, and repeat for the same batch with the
    same seeds.
    """

    def __init__(
        self,
        model: Any,
        prompts: Sequence[Sequence[int]],
        seeds: Sequence[int],
        decoding: Decoding,
        *,
        end_ids: Sequence[int],
        pad_id: int,
    ) -> None:
        self._decoding, self._ends, self._pad = decoding, list(end_ids), pad_id
        self._texts: list[list[int]] = []
        self._seeds: list[int] = []
        self.admit(prompts, seeds)
        # Adapters sit inside of the model that peft wraps.
        self._model = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._device = next(model.parameters()).device

    def admit(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], bounds: Sequence[Bound | None] = ()
    ) -> None:
        """Take in further conversations behind the rows there are; none of them is bound."""
        self._texts += [list(ids) for ids in prompts]
        self._seeds += [int(seed) for seed in seeds]

    def keep(self, rows: Sequence[int]) -> None:
        """Drop every row but these."""
        self._texts, self._seeds = [self._texts[row] for row in rows], [self._seeds[row] for row in rows]

    def tell(self, last_ids: Sequence[int], replies: Sequence[Sequence[int]]) -> None:
        """Append what each row is told; what it wrote is there already."""
        for text, reply in zip(self._texts, replies, strict=True):
            text += reply

    def complete(self) -> list[Completion]:
        """Let every row write until one of its ends or the token limit."""
        width = max(len(text) for text in self._texts)
        ids = torch.full((len(self._texts), width), self._pad, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, text in enumerate(self._texts):
            ids[row, width - len(text) :] = torch.as_tensor(text)
            mask[row, width - len(text) :] = 1
        chosen: dict[str, Any] = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        if self._decoding.temperature > 0:
            chosen = {"do_sample": True, "temperature": self._decoding.temperature, "top_p": 1.0, "top_k": 0}
        devices = [self._device] if self._device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices), _no_wishes(self._model):
            torch.manual_seed(derive_seed("generate", *self._seeds, width))
            out = self._model.generate(
                input_ids=ids.to(self._device),
                attention_mask=mask.to(self._device),
                use_cache=True,
                max_new_tokens=self._decoding.max_new_tokens,
                eos_token_id=self._ends,
                pad_token_id=self._pad,
                return_dict_in_generate=True,
                output_scores=True,
                **chosen,
            )
        written = out.sequences[:, width:]
        # Of scores, which are logits over temperature.
        logprobs = torch.stack(
            [
                torch.log_softmax(scores.float(), -1).gather(1, written[:, place, None]).squeeze(1)
                for place, scores in enumerate(out.scores)
            ],
            dim=1,
        )
        found: list[Completion] = []
        for text, row, values in zip(self._texts, written.tolist(), logprobs.tolist(), strict=True):
            n = next((i for i, token in enumerate(row, start=1) if token in self._ends), len(row))
            found.append(Completion(row[:n], values[:n]))
            text += row[:n]
        return found


@contextmanager
def _no_wishes(model: Any) -> Iterator[None]:
    """Set aside what a model's generation_config.json asks for, such as a repetition penalty: training scores
    without it."""
    asked, model.generation_config = model.generation_config, GenerationConfig()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        model.generation_config = asked
