"""Which tasks there are, from settings to a task: a folder of this room with `build` is one, and its
settings."""

from __future__ import annotations

import importlib
from typing import cast

from assay.core.config.settings import GenerationSettings
from assay.core.config.tasks import TaskSettings, settings_class, task_names
from assay.core.errors import ConfigError
from assay.tasks.protocol import Task


def build(
    settings: TaskSettings,
    generation: GenerationSettings,
    *,
    shaping: bool,
    blocklist: str = "",
    where: str = "blocklist",
) -> Task:
    """Return the task that the settings name.

    Args:
        settings: Rules of play.
        generation: Says which surface the policy speaks.
        shaping: Whether shaping rewards count; only training may say yes.
        blocklist: Text of the file that the settings name; a task opens no file.
        where: What to call that file in messages.
    """
    made = importlib.import_module(f"assay.tasks.{settings.name}").build
    return cast(Task, made(settings, generation, shaping=shaping, blocklist=blocklist, where=where))


def shipped_data(task: str) -> dict[str, str]:
    """Return the data that come with a task: the text of each file by its name. Equal code gives equal text.

    Raises:
        ConfigError: No data come with such a task.
    """
    modules = {name: importlib.import_module(f"assay.tasks.{name}") for name in task_names()}
    known = {name: module.shipped_data for name, module in modules.items() if hasattr(module, "shipped_data")}
    if task not in known:
        found, fix = repr(task), f"--task {sorted(known)[-1]}"
        raise ConfigError(" or ".join(sorted(known)), found=found, where="--task", fix=fix)
    return cast(dict[str, str], known[task]())


def task_of_own_records() -> str:
    """Return the name of the task to which users bring records of their own."""
    return next(name for name in task_names() if settings_class(name).reads_own_records)
