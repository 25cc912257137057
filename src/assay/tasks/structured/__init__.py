"""Structured output: one prompt, one JSON object that must satisfy a schema and, where there is a gold, be
right."""

from __future__ import annotations

from assay.core.config.settings import GenerationSettings
from assay.tasks.settings.structured import StructuredTask
from assay.tasks.structured import shop
from assay.tasks.structured.reading.blocklist import parse_blocklist
from assay.tasks.structured.task import Structured

__all__ = ["Structured", "build", "parse_blocklist", "shipped_data"]
RELEASE = ("release", 10)


def build(
    settings: StructuredTask, generation: GenerationSettings, *, shaping: bool, blocklist: str, where: str
) -> Structured:
    """Return the task that the settings describe; it has one surface and no shaping."""
    return Structured(settings, tuple(parse_blocklist(blocklist, where)) if blocklist else ())


def shipped_data() -> dict[str, str]:
    """Return the data that come with it: the text of each file by its name."""
    return shop.files(RELEASE)
