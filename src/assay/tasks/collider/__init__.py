"""The collider: a bump hunt under a luminosity budget, graded against a hidden truth."""

from assay.tasks.collider.compact import COMPACT_TOKEN_PATTERN
from assay.tasks.collider.task import Collider, ColliderSettings
from assay.tasks.collider.world.batch import play_adaptive
from assay.tasks.collider.world.generation import SUITES, generate

__all__ = ["COMPACT_TOKEN_PATTERN", "SUITES", "Collider", "ColliderSettings", "generate", "play_adaptive"]
