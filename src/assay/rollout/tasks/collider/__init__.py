"""The collider: a bump hunt under a luminosity budget, graded against a hidden truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.core.faces import load_lazily

if TYPE_CHECKING:
    from assay.rollout.tasks.collider.surfaces import COMPACT_TOKEN_PATTERN
    from assay.rollout.tasks.collider.task import Collider, ColliderSettings
    from assay.rollout.tasks.collider.world.batch import play_adaptive
    from assay.rollout.tasks.collider.world.generation import SUITES, generate

__all__ = ["COMPACT_TOKEN_PATTERN", "SUITES", "Collider", "ColliderSettings", "generate", "play_adaptive"]
__getattr__ = load_lazily(
    __name__,
    {
        "COMPACT_TOKEN_PATTERN": "assay.rollout.tasks.collider.surfaces:COMPACT_TOKEN_PATTERN",
        "SUITES": "assay.rollout.tasks.collider.world.generation:SUITES",
        "Collider": "assay.rollout.tasks.collider.task:Collider",
        "ColliderSettings": "assay.rollout.tasks.collider.task:ColliderSettings",
        "generate": "assay.rollout.tasks.collider.world.generation:generate",
        "play_adaptive": "assay.rollout.tasks.collider.world.batch:play_adaptive",
    },
)
