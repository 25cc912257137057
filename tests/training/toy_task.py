"""A task of one turn that rewards any text by its letters: an untrained policy already gets unequal
rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.rollout.tasks.protocol import Baseline, Item, Message, Oddity, Step, Verdict

WORDS = ("a", "b", "c", "d", "e", "f", "g", "h")


class Letters:
    """Reward: share of the completion's letters that are in the first half of the alphabet of the task."""

    name = "letters"
    cluster_name = "prompts"
    parts: Mapping[str, Any] = {"terminal": "outcome"}
    flags: tuple[str, ...] = ("early",)
    metrics: tuple[str, ...] = ()
    floor = ceiling = "nobody"
    rivals: Mapping[str, Any] = {}
    valid_flags: tuple[str, ...] = ()

    def __init__(
        self, alarms: Mapping[str, float] | None = None, max_prompt_tokens: int | None = None
    ) -> None:
        self.alarms = alarms or {}
        self.max_prompt_tokens = max_prompt_tokens

    def item(self, row: Mapping[str, Any]) -> Item:
        return Item(row["id"], row["id"], {}, row["prompt"], None)

    def oddities(self, row: Mapping[str, Any]) -> Sequence[Oddity]:
        return ()

    def contradictory(self, items: Sequence[Item]) -> Sequence[int]:
        return ()

    def most_right(self, items: Sequence[Item]) -> int:
        return len(items)

    def shortened(self, item: Item, chars: int) -> Item | None:
        if chars >= len(item.public):
            return None
        return replace(item, public=item.public[chars:], chars_cut=item.chars_cut + chars)

    def truth(self, item: Item) -> str:
        return f"any of {', '.join(WORDS[:4])}"

    def start(self, item: Item, world_seed: int) -> tuple[list[Message], Any]:
        return [{"role": "user", "content": item.public}], ""

    def step(self, state: Any, completion: str) -> Step:
        share = sum(completion.count(word) for word in WORDS[:4]) / max(1, len(completion))
        return Step(completion, None, "done", "ok", None, completion, {"terminal": share})

    def judge(self, state: Any) -> Verdict:
        return Verdict(state.startswith("a"), {"early": "a" in state}, {})

    def baselines(self) -> Mapping[str, Baseline]:
        return {}

    def demonstrations(self, rng: np.random.Generator, n: int) -> Sequence[Sequence[Message]]:
        return []

    def drills(self, rng: np.random.Generator, n: int) -> Sequence[Sequence[Message]]:
        return []

    def vocabulary(self) -> Sequence[str]:
        return WORDS


def items(n: int) -> list[Item]:
    """Return n items with prompts of their own."""
    rows = [{"id": f"item{i}", "prompt": "".join(WORDS[(i + k * k) % 8] for k in range(4))} for i in range(n)]
    return [Letters().item(row) for row in rows]
