"""A task that plays everything once: arms in one world often say the same, and what was done is looked at
after it was graded."""

from __future__ import annotations

from typing import Any

from assay.tasks.protocol import Item, Message, Step, Task


class Remembered:
    """A task in front of another; what the same completions lead to in the same world is looked up.

    A task is pure and its states are values, so nobody can tell. What raises is tried again.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._starts: dict[tuple[str, str, int], tuple[list[Message], Any]] = {}
        # By the identity of the state, which is kept beside the step, lest another one takes its place.
        self._steps: dict[tuple[int, str], tuple[Any, Step]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def start(self, item: Item, world_seed: int) -> tuple[list[Message], Any]:
        """Open an episode as the task does."""
        key = (item.id, item.record, world_seed)
        if key not in self._starts:
            self._starts[key] = self._task.start(item, world_seed)
        return self._starts[key]

    def step(self, state: Any, completion: str) -> Step:
        """Play one completion as the task does."""
        key = (id(state), completion)
        if key not in self._steps:
            self._steps[key] = state, self._task.step(state, completion)
        return self._steps[key][1]
