"""What the settings of every task have; a task's own stand in `tasks/<name>/settings.py`, light to import,
and make the task."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union

from pydantic import Field, field_validator

from assay.core.beside import beside
from assay.core.config.base import Positive, Settings
from assay.core.errors import ConfigError

if TYPE_CHECKING:
    from assay.core.config.settings import GenerationSettings

Surface = Literal["compact", "json"]
# Tokens one completion may take. What a task has to say does not depend on who trains on it, but on the
# surface it does.
CompletionLimits = Annotated[
    dict[Surface, Positive], Field(min_length=2, examples=[{"compact": 24, "json": 160}])
]
# What may stand around an answer; `assay/rollout/tasks/wrappings.py` says what each is.
Wrapping = Literal["channels", "think", "answer", "boxed", "tool_call", "fence", "prose"]
PartKind = Literal["outcome", "shaping", "format"]  # what a part of a reward pays for
OWN = "own"  # a reward function, an environment or an adapter's, with the settings that all of these have
FOLDER = "tasks"  # whose folders are tasks; those with settings of their own are packages
PACKAGE = "assay_tasks"  # what that folder is called among modules: `tasks` may be anybody's
# Where such tasks lay before; packages of that time say so.
_BEFORE = re.compile(r"src/assay/(?:rollout/)?tasks/(\w+)")


class TaskSettings(Settings):
    """What a preset of configs/task/ sets of a task. Its kind is found by its name, that of its file."""

    # What only training or the making of a base reads, and files that count by their content: another value
    # makes no other suite. All else of a task says what is asked and how it is graded.
    not_measured: ClassVar[frozenset[str]] = frozenset()
    # Whether users bring records of their own, so that texts may be anybody's.
    reads_own_records: ClassVar[bool] = False
    # Whether its code is the user's, in a folder of the project outside src/.
    brings_code: ClassVar[bool] = False
    # Whether data come with it, which `make_data` makes.
    ships_data: ClassVar[bool] = False

    name: str
    code: str = Field(description="folder of what asks and grades; a change of it plays and trains again")
    max_new_tokens: CompletionLimits
    # Left out where it is empty, so that digests of settings are those of the time before there was one.
    cut: list[Wrapping] = Field(
        default=[],
        exclude_if=lambda value: not value,
        description="what is cut off a completion before it is graded, in this order; [] for nothing",
        examples=[["think", "fence"]],
    )

    @field_validator("code", mode="before")
    @classmethod
    def _lies_where_it_was_moved(cls, code: Any) -> Any:
        moved = _BEFORE.fullmatch(code) if isinstance(code, str) else None
        return code if moved is None or cls.brings_code else f"{FOLDER}/{moved[1]}"

    @property
    def told_code(self) -> str | None:
        """Folder of its code where that is told of by its md5, as assay's own is; None where it travels in a
        package."""
        return None if self.brings_code else self.code

    @property
    def teaches(self) -> bool:
        """Whether it has lessons for a base that is built from scratch."""
        return True

    @property
    def most_turns(self) -> int | None:
        """Completions an episode may take, None where only playing tells."""
        return None

    @property
    def needs(self) -> Sequence[str]:
        """Installed packages that grade, each with its version."""
        return ()

    @property
    def blocklist_file(self) -> str | None:
        """File of blocked terms inside the data, None where there is none."""
        return None

    def build(
        self,
        generation: GenerationSettings,
        *,
        shaping: bool,
        blocklist: str = "",
        where: str = "blocklist",
        root: str | None = None,
        runner: Any = None,
    ) -> Any:
        """Return the task, which keeps `Task` of `assay/rollout/tasks/protocol.py`.

        Args:
            generation: Says which surface the policy speaks.
            shaping: Whether shaping rewards count; only training may say yes.
            blocklist: Text of the file that the settings name; a task opens no file.
            where: What to call that file in messages.
            root: Project that a task's own folder of code is in; None: none of that code is run, so that
                texts can be judged but nothing played.
            runner: Answers in the place of that code.
        """
        raise NotImplementedError

    @classmethod
    def make_data(cls) -> dict[str, str]:
        """Return the data that come with it: the text of each file by its name. Equal code gives equal
        text."""
        raise NotImplementedError


def folder_of_tasks() -> ModuleType:
    """Return the folder `tasks/` as a package: of a checkout, or where an installation put it."""
    if PACKAGE not in sys.modules:
        found, package = beside(FOLDER), ModuleType(PACKAGE)
        package.__path__ = [] if found is None else [str(found)]
        sys.modules[PACKAGE] = package
    return sys.modules[PACKAGE]


def task_names() -> tuple[str, ...]:
    """Return the names of all tasks, sorted: `own`, and the folders of `tasks/` with settings of their
    own."""
    folders = map(Path, folder_of_tasks().__path__)
    found = [path.parent.name for folder in folders for path in folder.glob("*/settings.py")]
    return tuple(sorted([OWN, *found]))


def tasks_with_data() -> tuple[str, ...]:
    """Return the names of the tasks with which data come."""
    return tuple(name for name in task_names() if settings_class(name).ships_data)


def shipped_data(task: str) -> dict[str, str]:
    """Return the data that come with a task: the text of each file by its name.

    Raises:
        ConfigError: No data come with such a task.
    """
    known = tasks_with_data()
    if task not in known:
        raise ConfigError(" or ".join(known), found=repr(task), where="--task", fix=f"--task {known[-1]}")
    return settings_class(task).make_data()


def task_of_own_records() -> str:
    """Return the name of the task to which users bring records of their own."""
    kinds = {name: settings_class(name) for name in task_names()}
    return next(name for name, kind in kinds.items() if kind.reads_own_records and not kind.brings_code)


def settings_class(name: str) -> type[TaskSettings]:
    """Return the settings of a task: the one class of its kind in its module."""
    home = "assay.rollout.tasks.own" if name == OWN else f"{folder_of_tasks().__name__}.{name}"
    module = importlib.import_module(f"{home}.settings")
    (found,) = {
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, TaskSettings) and value is not TaskSettings
    }
    return found


def every_task() -> Any:
    """Return the union of all tasks' settings, told apart by their names."""
    kinds = tuple(map(settings_class, task_names()))
    return Annotated[Union[kinds], Field(discriminator="name")] if len(kinds) > 1 else kinds[0]  # noqa: UP007
