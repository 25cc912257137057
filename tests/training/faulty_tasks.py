"""A game of letters in which nothing is wrong, and the same game with one fault each."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assay.core.errors import EnvironmentFailure
from assay.core.seeds import rng
from assay.rollout.tasks.protocol import Baseline, Item, Message, Oddity, Step, Verdict

WORDS = ("a", "b", "c", "d", "e", "f", "g", "h")
WANTED = WORDS[:4]


@dataclass(frozen=True)
class State:
    """One moment of a game of letters."""

    item: Item
    world_seed: int
    texts: tuple[str, ...]


class Letters:
    """Two turns; the reward is the share of letters a to d among all letters, success is a share of a half or
    more."""

    name = "letters in turns"
    cluster_name = "prompts"
    parts: Mapping[str, Any] = {"terminal": "outcome"}
    flags: tuple[str, ...] = ("early",)
    metrics: tuple[str, ...] = ("share",)
    floor, ceiling = "late", "early"
    rivals: Mapping[str, Any] = {"late": "trivial"}
    valid_flags: tuple[str, ...] = ()
    alarms: Mapping[str, float] = {}
    max_prompt_tokens: int | None = None

    def item(self, row: Mapping[str, Any]) -> Item:
        return Item(row["id"], row["cluster"], {}, row["prompt"], None)

    def examine(self, row: Mapping[str, Any]) -> tuple[Item, Sequence[Oddity]]:
        return self.item(row), ()

    def shortened(self, item: Item, chars: int) -> Item | None:
        if chars >= len(item.public):
            return None
        return replace(item, public=item.public[chars:], chars_cut=item.chars_cut + chars)

    def truth(self, item: Item) -> str:
        return "a to d"

    def start(self, item: Item, world_seed: int) -> tuple[list[Message], Any]:
        return [{"role": "user", "content": item.public}], State(item, world_seed, ())

    def step(self, state: State, completion: str) -> Step:
        after = replace(state, texts=(*state.texts, completion))
        if len(after.texts) == 1:
            return Step(after, self.observation(state), None, "ok", None, completion, {})
        return Step(after, None, "done", "ok", None, completion, {"terminal": self.reward(after)})

    def observation(self, state: State) -> str:
        place = int(rng("observation", state.world_seed).integers(len(WORDS)))
        return WORDS[place] * 3

    def share(self, state: State) -> float:
        letters = [letter for letter in "".join(state.texts) if letter in WORDS]
        return sum(letter in WANTED for letter in letters) / max(1, len(letters))

    def reward(self, state: State) -> float:
        return self.share(state)

    def judge(self, state: State) -> Verdict:
        share = self.share(state)
        return Verdict(share >= 0.5, {"early": "a" in state.texts[0]}, {"share": share})

    def baselines(self) -> Mapping[str, Baseline]:
        return {"late": lambda item, state, chance: "hgfe", "early": lambda item, state, chance: "abcd"}

    def demonstrations(self, chance: np.random.Generator, n: int) -> Sequence[Sequence[Message]]:
        return []

    def drills(self, chance: np.random.Generator, n: int) -> Sequence[Sequence[Message]]:
        return []

    def vocabulary(self) -> Sequence[str]:
        return WORDS


# Rewards, graders and environments that fail


class NanReward(Letters):
    def reward(self, state: State) -> float:
        return float("nan") if state.texts[0].startswith("h") else self.share(state)


class InfiniteReward(Letters):
    def reward(self, state: State) -> float:
        return float("inf") if self.share(state) > 0.6 else self.share(state)


class ConstantReward(Letters):
    def reward(self, state: State) -> float:
        return 0.25


class NeverPaid(Letters):
    """The right answer pays, but nobody who has not been told would ever write it."""

    def reward(self, state: State) -> float:
        return float(state.texts == ("abcd", "abcd"))


class PaidBackwards(Letters):
    def reward(self, state: State) -> float:
        return 1.0 - self.share(state) if state.texts != ("abcd", "abcd") else 2.0


class PaysTheFloor(Letters):
    def reward(self, state: State) -> float:
        return -self.share(state)


class HugeReward(Letters):
    def reward(self, state: State) -> float:
        return 1e6 * self.share(state)


class UndeclaredPart(Letters):
    def step(self, state: State, completion: str) -> Step:
        step = super().step(state, completion)
        return replace(step, parts={**step.parts, "bonus": 0.5})


class ForgottenRule(Letters):
    def judge(self, state: State) -> Verdict:
        return replace(super().judge(state), success=False)


class AllSucceed(Letters):
    def judge(self, state: State) -> Verdict:
        return replace(super().judge(state), success=True)


class NumpyVerdict(Letters):
    def judge(self, state: State) -> Verdict:
        verdict = super().judge(state)
        return replace(verdict, success=np.bool_(verdict.success))  # type: ignore[arg-type]


class NanMetric(Letters):
    def judge(self, state: State) -> Verdict:
        return replace(super().judge(state), metrics={"share": float("nan")})


class ParsesWithoutNet(Letters):
    def step(self, state: State, completion: str) -> Step:
        json.loads(completion) if completion.startswith("{") else None
        return super().step(state, completion)


class GlobalChance(Letters):
    def observation(self, state: State) -> str:
        return random.choice(WORDS) * 3


class FreshChance(Letters):
    def observation(self, state: State) -> str:
        return "".join(np.random.default_rng().choice(WORDS, 8))


class RestlessOpening(Letters):
    opened = 0

    def start(self, item: Item, world_seed: int) -> tuple[list[Message], Any]:
        RestlessOpening.opened += 1
        messages, state = super().start(item, world_seed)
        messages[0]["content"] += WORDS[RestlessOpening.opened % 8]
        return messages, state


@dataclass
class SharedState:
    item: Item
    world_seed: int
    texts: list[str] = field(default_factory=list)


class ChangesItsState(Letters):
    """Appends to the state it was given, so that the old one is no longer what it was."""

    def start(self, item: Item, world_seed: int) -> tuple[list[Message], Any]:
        return super().start(item, world_seed)[0], SharedState(item, world_seed)

    def step(self, state: Any, completion: str) -> Step:
        state.texts.append(completion)
        if len(state.texts) == 1:
            return Step(state, self.observation(state), None, "ok", None, completion, {})
        return Step(state, None, "done", "ok", None, completion, {"terminal": self.reward(state)})


class NeverEnds(Letters):
    def step(self, state: State, completion: str) -> Step:
        after = replace(state, texts=(completion,))
        return Step(after, self.observation(state), None, "ok", None, completion, {})


class CrashingEnvironment(Letters):
    """Players that know the way get through; any other text crashes the environment."""

    def step(self, state: State, completion: str) -> Step:
        if completion not in ("abcd", "hgfe"):
            raise EnvironmentFailure("connection reset")
        return super().step(state, completion)


class Unparsable(Letters):
    def step(self, state: State, completion: str) -> Step:
        step = super().step(state, completion)
        return (
            step
            if completion in ("abcd", "hgfe")
            else replace(step, outcome="failed", failure="no", action=None)
        )


class SystemMessage(Letters):
    def start(self, item: Item, world_seed: int) -> tuple[list[Message], Any]:
        messages, state = super().start(item, world_seed)
        return [{"role": "system", "content": "abc"}, *messages], state


class ShortPrompts(Letters):
    max_prompt_tokens = 2


class CutPrompts(Letters):
    max_prompt_tokens = 5
