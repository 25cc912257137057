"""A task in whose place an environment fails where a test says so, as a simulator or a server of one's own
would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from assay.core.errors import EnvironmentFailure
from assay.rollout.tasks.protocol import Item, Message, Step, Task, Verdict

Call = tuple[str, str, int]


class Timeout(EnvironmentFailure):
    """What such an environment might raise."""


class Failing:
    """A task as it is, except that calls fail so many times before they succeed.

    A call is named by what it is (`start`, `step 0`, `step 1`, ..., `judge`), its item and its world seed.
    """

    def __init__(self, task: Task, failures: Mapping[Call, int]) -> None:
        self._task, self._failures = task, failures
        self.calls: Counter[Call] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def _fail(self, call: Call) -> None:
        self.calls[call] += 1
        if self.calls[call] <= self._failures.get(call, 0):
            raise Timeout(f"no answer to {call[0]} after 30 s\nand a long trace")

    def start(self, item: Item, world_seed: int) -> tuple[list[Message], Any]:
        self._fail(("start", item.id, world_seed))
        messages, state = self._task.start(item, world_seed)
        return messages, (item.id, world_seed, 0, state)

    def step(self, state: Any, completion: str) -> Step:
        item_id, world_seed, turn, inner = state
        self._fail((f"step {turn}", item_id, world_seed))
        step = self._task.step(inner, completion)
        return replace(step, state=(item_id, world_seed, turn + 1, step.state))

    def judge(self, state: Any) -> Verdict:
        item_id, world_seed, _, inner = state
        self._fail(("judge", item_id, world_seed))
        return self._task.judge(inner)
