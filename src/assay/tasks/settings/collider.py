"""What configs/task/collider.yaml sets."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from assay.core.config.base import Fraction, From0, Positive
from assay.core.config.tasks import TaskSettings


class ColliderTask(TaskSettings):
    """The bump hunt and its rules of play."""

    not_measured: ClassVar[frozenset[str]] = frozenset({"code", "shaping", "gamma"})

    name: Literal["collider"]
    code: Literal["src/assay/tasks/collider"] = "src/assay/tasks/collider"
    max_turns: Positive
    shaping: From0 = Field(description="coefficient of the potential-based shaping in training")
    gamma: Fraction = Field(description="discount of the shaping potential")

    @property
    def most_turns(self) -> int:
        """Completions an episode may take."""
        return self.max_turns
