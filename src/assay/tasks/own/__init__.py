"""Tasks that are brought along: what stands behind `task.name: own`."""

from __future__ import annotations

from assay.core.config.settings import GenerationSettings
from assay.tasks.own.calls import Runner
from assay.tasks.own.task import OwnTask, own_task
from assay.tasks.settings.own import OwnTask as OwnSettings

__all__ = ["OwnTask", "build"]


def build(
    settings: OwnSettings,
    generation: GenerationSettings,
    *,
    shaping: bool,
    blocklist: str,
    where: str,
    root: str | None = None,
    runner: Runner | None = None,
) -> OwnTask:
    """Return the task that the settings describe.

    Args:
        settings: Its folder, entry and success.
        generation: Not read: such a task has one surface.
        shaping: Whether shaping by its potential counts.
        blocklist: Not read.
        where: Not read.
        root: Project that the folder is relative to; None: nobody's code is run, which is enough to judge
            texts.
        runner: Answers in the place of that code.
    """
    return own_task(settings, root, runner, shaping=shaping)
