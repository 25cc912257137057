"""Which tasks there are, from settings to a task: a folder of this room with `build` is one, and its
settings."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, cast

from assay.core.config.settings import GenerationSettings
from assay.core.config.tasks import TaskSettings, settings_class, task_names
from assay.core.errors import ConfigError
from assay.tasks.protocol import Task

if TYPE_CHECKING:
    from assay.tasks.own.calls import Runner


def build(
    settings: TaskSettings,
    generation: GenerationSettings,
    *,
    shaping: bool,
    blocklist: str = "",
    where: str = "blocklist",
    root: str | None = None,
    runner: Runner | None = None,
) -> Task:
    """Return the task that the settings name.

    Args:
        settings: Rules of play.
        generation: Says which surface the policy speaks.
        shaping: Whether shaping rewards count; only training may say yes.
        blocklist: Text of the file that the settings name; a task opens no file.
        where: What to call that file in messages.
        root: Project that a task's own folder of code is in; None: none of that code is run, so that texts
            can be judged but nothing played.
        runner: Answers in the place of that code.
    """
    made = _module(settings.name).build
    beside = {"root": root, "runner": runner} if settings.brings_code else {}
    return cast(Task, made(settings, generation, shaping=shaping, blocklist=blocklist, where=where, **beside))


def shipped_data(task: str) -> dict[str, str]:
    """Return the data that come with a task: the text of each file by its name. Equal code gives equal text.

    Raises:
        ConfigError: No data come with such a task.
    """
    known = {name: _module(name).shipped_data for name in tasks_with_data()}
    if task not in known:
        found, fix = repr(task), f"--task {sorted(known)[-1]}"
        raise ConfigError(" or ".join(sorted(known)), found=found, where="--task", fix=fix)
    return cast(dict[str, str], known[task]())


def tasks_with_data() -> tuple[str, ...]:
    """Return the names of the tasks with which data come."""
    return tuple(name for name in task_names() if hasattr(_module(name), "shipped_data"))


def task_of_own_records() -> str:
    """Return the name of the task to which users bring records of their own."""
    kinds = {name: settings_class(name) for name in task_names()}
    return next(name for name, kind in kinds.items() if kind.reads_own_records and not kind.brings_code)


def _module(name: str) -> Any:
    return importlib.import_module(f"assay.tasks.{name}")
