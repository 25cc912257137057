"""A task that plays everything once: arms in one world often say the same, and what was done is looked at
after it was graded."""

from __future__ import annotations

from typing import Any, cast

from assay.core.config.tasks import TaskSettings
from assay.rollout.tasks.protocol import Item, Message, Step, Task

MOST = 100_000  # steps that are remembered, some 250 MB; then all are forgotten


def remembered(task: Task, settings: TaskSettings) -> Task:
    """Return a task that plays everything once; one with code of its own is left as it is, since whether that
    repeats itself is part of what grading again looks at."""
    return task if settings.brings_code else cast(Task, Remembered(task))


class Remembered:
    """A task in front of another; what the same completions lead to in the same world is looked up.

    A task is pure and its states are values, so nobody can tell. What raises is tried again.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        # By the identity of item and state, which are kept beside what they led to, lest others take their
        # places.
        self._starts: dict[tuple[int, int], tuple[Item, tuple[list[Message], Any]]] = {}
        self._steps: dict[tuple[int, str], tuple[Any, Step]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def start(self, item: Item, world_seed: int) -> tuple[list[Message], Any]:
        """Open an episode as the task does."""
        key = (id(item), world_seed)
        if key not in self._starts:
            self._starts[key] = item, self._task.start(item, world_seed)
        return self._starts[key][1]

    def step(self, state: Any, completion: str) -> Step:
        """Play one completion as the task does."""
        key = (id(state), completion)
        if key not in self._steps:
            if len(self._steps) >= MOST:
                self._steps.clear()
            self._steps[key] = state, self._task.step(state, completion)
        return self._steps[key][1]
