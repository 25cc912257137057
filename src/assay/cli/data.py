"""Data of a project."""

from __future__ import annotations

from pathlib import Path


def fresh() -> None:
    """Draw a new held-out suite for the trained policy, by its plan and itself, so that nobody can have seen
    it; with that suite chosen, keep base and policy for it.

    Example: assay data fresh
    """
    from assay.cli.tools import fresh_data as tool
    from assay.pipeline.project import Project

    tool.run(Project.open(Path.cwd()))
