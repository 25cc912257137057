"""The collider: a bump hunt under a luminosity budget, graded against a hidden truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.core.faces import load_lazily

if TYPE_CHECKING:
    from .surfaces import COMPACT_TOKEN_PATTERN
    from .task import Collider, ColliderSettings
    from .world.batch import play_adaptive
    from .world.generation import SUITES, generate

__all__ = ["COMPACT_TOKEN_PATTERN", "SUITES", "Collider", "ColliderSettings", "generate", "play_adaptive"]
__getattr__ = load_lazily(
    __name__,
    {
        "COMPACT_TOKEN_PATTERN": f"{__name__}.surfaces:COMPACT_TOKEN_PATTERN",
        "SUITES": f"{__name__}.world.generation:SUITES",
        "Collider": f"{__name__}.task:Collider",
        "ColliderSettings": f"{__name__}.task:ColliderSettings",
        "generate": f"{__name__}.world.generation:generate",
        "play_adaptive": f"{__name__}.world.batch:play_adaptive",
    },
)
