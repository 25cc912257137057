"""How the settings of the task say that values are compared."""

from __future__ import annotations

from assay.rollout.tasks.equality import Rules

from ..settings import StructuredTask


def rules_of(settings: StructuredTask) -> Rules:
    """Return the rules that the settings of a task name."""
    tolerance = settings.number_tolerance
    return Rules(settings.whitespace, tolerance.absolute, tolerance.relative)
