"""What a training is made of, before it begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assay.core.config.settings import Params
from assay.rollout.dataset.suite import Suite, choose
from assay.rollout.tasks.protocol import Item, Task

# What an episode earns instead of what its task says: (step, item id, place in the group) to a reward.
Credit = Callable[[int, str, int], float]


@dataclass(frozen=True, slots=True)
class Setup:
    """What is trained on, what chooses the checkpoint, and by which settings.

    Attributes:
        task: What is trained on (shaping may be on).
        judged: The same task as it is evaluated, without shaping.
        items: Training items; nothing here can name the held-out split.
        validation: The suite that chooses the checkpoint; its items are also played greedily.
        params: All settings.
        credit: Pays for the episodes learned from, instead of the task; validation is always graded by the
            task.
    """

    task: Task
    judged: Task
    items: Sequence[Item]
    validation: Suite
    params: Params
    credit: Credit | None = None

    def sample(self, n: int) -> Suite:
        """Return a suite of some training items."""
        return choose(self.items, min(n, len(self.items)), split="train", draws=1, seed=self.params.seed)
