"""What configs/task/collider.yaml sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from assay.core.config.base import Fraction, From0, Positive
from assay.core.config.tasks import TaskSettings

if TYPE_CHECKING:
    from assay.core.config.settings import GenerationSettings

    from .task import Collider

RELEASE = ("release", 4)


class ColliderTask(TaskSettings):
    """The bump hunt and its rules of play."""

    not_measured: ClassVar[frozenset[str]] = frozenset({"code", "shaping", "gamma"})
    ships_data: ClassVar[bool] = True

    name: Literal["collider"]
    code: Literal["tasks/collider"] = "tasks/collider"
    max_turns: Positive
    shaping: From0 = Field(description="coefficient of the potential-based shaping in training")
    gamma: Fraction = Field(description="discount of the shaping potential")

    @property
    def most_turns(self) -> int:
        """Completions an episode may take."""
        return self.max_turns

    def build(self, generation: GenerationSettings, *, shaping: bool, **_: Any) -> Collider:
        """Return the task; it has no blocklist and no code of anybody's."""
        from .task import Collider, ColliderSettings

        weight = self.shaping if shaping else 0.0
        return Collider(
            ColliderSettings(generation.surface, self.max_turns, weight, self.gamma, tuple(self.cut))
        )

    @classmethod
    def make_data(cls) -> dict[str, str]:
        """Return the scenarios of every suite."""
        from assay.core.storage.json import dumps

        from .world.generation import SUITES, generate

        rows = {name: generate(name, size, max_turns=10, labels=RELEASE) for name, size in SUITES.items()}
        return {f"{name}.jsonl": "".join(dumps(row) + "\n" for row in suite) for name, suite in rows.items()}
