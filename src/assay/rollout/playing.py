"""A model in memory plays examples in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import pandas as pd
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from assay.core.decoding import Backend, Decoding
from assay.core.errors import ConfigError, TaskError
from assay.core.records import Episode
from assay.core.storage.json import digest
from assay.rollout.dataset.suite import Suite
from assay.rollout.evaluation.measure import measure
from assay.rollout.evaluation.rollout import Pace
from assay.rollout.policy.model import Policy
from assay.rollout.policy.renderer import Dialogue
from assay.rollout.tasks.own.api import Batched, Environment
from assay.rollout.tasks.own.calls import More
from assay.rollout.tasks.own.isolation.inline import Inline
from assay.rollout.tasks.own.loading import RewardFunction
from assay.rollout.tasks.own.settings import OwnTask as OwnSettings
from assay.rollout.tasks.own.settings import Success
from assay.rollout.tasks.own.task import OwnState, OwnTask
from assay.rollout.tasks.protocol import Item

THREADS, TIMEOUT_S = 16, 30.0
Reward = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Engine:
    """A causal language model, its tokenizer, and how its tokens are chosen.

    Args:
        model: Of transformers, with or without adapters of peft, on its device.
        tokenizer: With a chat template.
        max_new_tokens: Tokens of one completion.
        temperature: 0 is greedy.
        batch_size: Conversations held at once: speed and memory, not results.
        backend: `cached` plays every model; `lean` is faster on CPU for the architectures that it knows.

    Raises:
        ConfigError: A number or the backend makes no sense.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    max_new_tokens: int = 256
    temperature: float = 1.0
    batch_size: int = 32
    backend: Backend = "cached"

    def __post_init__(self) -> None:
        checks = {
            "max_new_tokens": (self.max_new_tokens >= 1, "at least 1"),
            "temperature": (0 <= self.temperature < math.inf, "0 or more"),
            "batch_size": (self.batch_size >= 1, "at least 1"),
            "backend": (self.backend in get_args(Backend), " or ".join(get_args(Backend))),
        }
        for name, (holds, expected) in checks.items():
            if not holds:
                where, found = f"Engine, {name}", repr(getattr(self, name))
                raise ConfigError(expected, found=found, where=where, fix="leave it out for the default")


def play(
    engine: Engine,
    environment: type[Environment] | Reward,
    examples: Sequence[Mapping[str, Any]],
    *,
    draws: int = 1,
    seed: int = 0,
    parts: Sequence[str] = ("reward",),
    at_least: float = 1.0,
    max_turns: int = 64,
) -> list[Episode]:
    """Return `draws` episodes of each example, in the order of the examples.

    Args:
        engine: Who plays; without dropout, also where its model is being trained.
        environment: A class of `Environment`, or a reward function as TRL calls it: `completions` and the
            columns of an example go in, a number a completion comes out.
        examples: Each with `prompt`, text or messages, and whatever the reward reads; `id` names one.
        draws: Episodes of each; they meet the same world by other samples.
        seed: Equal seeds give equal episodes.
        parts: Names that rewards may have.
        at_least: Reward of a success; an environment that tells success itself is believed.
        max_turns: Completions of one episode, at most.

    Raises:
        TaskError: An example lacks its prompt, is there twice, or holds what JSON cannot; or the reward or
            environment raised an error, and names the example.
        EnvironmentLost: There was no reward, as None, or no answer in time; names the example.
        ConfigError: It is neither a class of Environment nor a function, or a setting makes no sense.
        PolicyError: The model or its chat template cannot be served.
    """
    is_reward = not isinstance(environment, type)
    is_environment = isinstance(environment, type) and issubclass(environment, Environment)
    if not (is_environment or (is_reward and callable(environment))):
        expected = "a class of assay.rollout.Environment, or a reward function"
        fix = "class NAME(Environment), or def reward(completions, **columns)"
        raise ConfigError(expected, found=repr(environment)[:80], where="play", fix=fix)
    if draws < 1:
        raise ConfigError("at least one draw", found=str(draws), where="play", fix="draws=1")
    parts = (parts,) if isinstance(parts, str) else tuple(parts)
    settings = OwnSettings(
        name="own",
        code="memory",
        entry="task.py:environment",
        max_new_tokens={"json": engine.max_new_tokens, "compact": engine.max_new_tokens},
        success=Success(compare="reward", at_least=at_least) if is_reward else Success(compare="environment"),
        parts=dict.fromkeys(parts, "outcome"),
        max_turns=1 if is_reward else max_turns,
    )
    make = (lambda: RewardFunction(environment, None)) if is_reward else environment
    together = is_environment and issubclass(environment, Batched)  # type: ignore[arg-type]
    runner = Inline(make, parts, threads=THREADS, timeout_s=TIMEOUT_S, together=together)
    try:
        task = Believed(settings, runner)
        suite = Suite("heldout", tuple(_items(task, examples)), draws, seed)
        ends = getattr(engine.model.generation_config, "eos_token_id", None)
        dialogue = Dialogue(engine.tokenizer, ends=ends)
        policy = Policy(engine.model, engine.tokenizer, dialogue, "in memory")
        decoding = Decoding(engine.temperature, engine.max_new_tokens, engine.backend)
        return measure(policy, task, suite.plays(), decoding, pace=Pace(engine.batch_size))
    finally:
        runner.close()


class Believed(OwnTask):
    """A task without a preset that could name flags, metrics and endings: what Told says is taken."""

    def _refuse_undeclared(self, state: OwnState, more: More) -> None:
        pass


def _items(task: OwnTask, examples: Sequence[Mapping[str, Any]]) -> Iterator[Item]:
    """Yield examples as items: each once, since the same one again would be the same episodes again."""
    seen = dict[str, int]()
    for k, row in enumerate(examples):
        try:
            digest(dict(row))
            item = task.item(row)
        except (TypeError, ValueError) as error:
            fix = "texts, finite numbers, lists and dicts of them; None where there is nothing"
            raise TaskError("what JSON can hold", found=str(error), where=f"example {k}", fix=fix) from None
        if seen.setdefault(item.id, k) != k:
            found, fix = (
                f"that of example {seen[item.id]} again",
                "leave it out, or give each an id of its own",
            )
            raise TaskError("an example of its own", found=found, where=f"example {k}", fix=fix)
        yield item


def to_frame(episodes: Sequence[Episode]) -> pd.DataFrame:
    """Return episodes as rows that `assay.verdict.read` takes: item, cluster, draw, score, success, the last
    completion, tokens of all, and a column `part_NAME` a part."""
    return pd.DataFrame(
        [
            {
                "item": each.item_id,
                "cluster": each.cluster,
                "draw": each.draw,
                "score": each.reward,
                "success": each.success,
                "completion": each.turns[-1].completion if each.turns else "",
                "tokens": each.n_tokens,
                **{f"part_{name}": value for name, value in each.parts.items()},
            }
            for each in episodes
        ]
    )
