"""Which tasks there are: from settings to a task."""

from __future__ import annotations

from assay.config import GenerationSettings, TaskSettings
from assay.tasks.collider import Collider, ColliderSettings
from assay.tasks.protocol import Task


def build(settings: TaskSettings, generation: GenerationSettings, *, shaping: bool) -> Task:
    """Return the task that the settings name.

    Args:
        settings: Rules of play.
        generation: Says which surface the policy speaks.
        shaping: Whether shaping rewards count; only training may say yes.
    """
    return Collider(
        ColliderSettings(
            surface=generation.surface,
            max_turns=settings.max_turns,
            shaping=settings.shaping if shaping else 0.0,
            gamma=settings.gamma,
        )
    )
