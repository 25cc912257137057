"""The collider: a bump hunt under a luminosity budget, graded against a hidden truth."""

from __future__ import annotations

from assay.core.config.settings import GenerationSettings
from assay.core.storage.json import dumps
from assay.tasks.collider.surfaces import COMPACT_TOKEN_PATTERN
from assay.tasks.collider.task import Collider, ColliderSettings
from assay.tasks.collider.world.batch import play_adaptive
from assay.tasks.collider.world.generation import SUITES, generate
from assay.tasks.settings.collider import ColliderTask

__all__ = [
    "COMPACT_TOKEN_PATTERN",
    "SUITES",
    "Collider",
    "ColliderSettings",
    "build",
    "generate",
    "play_adaptive",
    "shipped_data",
]
RELEASE = ("release", 4)


def build(
    settings: ColliderTask, generation: GenerationSettings, *, shaping: bool, blocklist: str, where: str
) -> Collider:
    """Return the task that the settings describe; it has no blocklist."""
    weight = settings.shaping if shaping else 0.0
    cut = tuple(settings.cut)
    return Collider(ColliderSettings(generation.surface, settings.max_turns, weight, settings.gamma, cut))


def shipped_data() -> dict[str, str]:
    """Return the data that come with it: the text of each file by its name."""
    rows = {name: generate(name, size, max_turns=10, labels=RELEASE) for name, size in SUITES.items()}
    return {f"{name}.jsonl": "".join(dumps(row) + "\n" for row in suite) for name, suite in rows.items()}
