"""The code of a task that was brought along: not run, and what that leaves open; or a copy of the checker."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assay.core.errors import PackageError
from assay.core.installed import require
from assay.core.storage.untrusted import LEFT_BEHIND, sha256_contents
from assay.pipeline.project import Project
from assay.rollout.tasks.own.calls import Ask, Call, Failed, Reply
from assay.rollout.tasks.own.recorded import Recorded
from assay.rollout.tasks.own.settings import OwnTask
from assay.rollout.tasks.own.task import runner_of

if TYPE_CHECKING:
    from assay.core.config.tasks import TaskSettings
    from assay.package.verification.unpacked import Unpacked


class OwnCopy(Recorded):
    """Runs the checker's own copy of a task's folder, in the place of what was written down.

    Args:
        settings: Of the package.
        root: Folder in which that copy lies at task.code.
    """

    def __init__(self, settings: TaskSettings, root: Path) -> None:
        assert isinstance(settings, OwnTask), "only a task that was brought along has code of its own"
        super().__init__((), require(settings.requires) or None)
        self._runner = runner_of(settings, str(root))

    def tell(self, calls: Sequence[Call]) -> list[Reply | Failed]:
        """Return what each call leads to."""
        return self._runner.tell(calls)

    def say(self, asks: Sequence[Ask]) -> list[str | Failed]:
        """Return what each player says."""
        return self._runner.say(asks)

    def close(self) -> None:
        """End what runs."""
        self._runner.close()


def own_copy(root: Path, given: Path, work: Path) -> Path:
    """Copy a folder that somebody trusts to where it can be run, and return the root that it lies below.

    Args:
        root: The unpacked package.
        given: The folder.
        work: A folder that is not there yet.

    Raises:
        PackageError: The package brings no code along, or another.
    """
    settings = Project.open(root).params.task
    where = f"--task-code {given}"
    if not settings.brings_code:
        fix = "leave it out: the task is part of assay, and is graded again anyway"
        raise PackageError("a task that was brought along", found=settings.name, where=where, fix=fix)
    recorded, found = sha256_contents(root / settings.code), sha256_contents(given)
    if not given.is_dir() or recorded is None or found != recorded:
        told = "no folder" if not given.is_dir() else f"sha256 {str(found)[:16]}"
        fix = "name the folder that graded this run, unchanged; nothing else of anybody's is run"
        raise PackageError(
            f"{settings.code} with sha256 {str(recorded)[:16]}", found=told, where=where, fix=fix
        )
    shutil.copytree(given, work / settings.code, ignore=shutil.ignore_patterns("*.pyc", *LEFT_BEHIND))
    return work


def unseen_said(package: Unpacked) -> str:
    """Return what is left open where a task's own code is not run."""
    settings = package.project.params.task
    assert isinstance(settings, OwnTask), "only a task that was brought along has code of its own"
    digest = sha256_contents(package.root / settings.code) or "missing"
    said = f"not graded again: grader {settings.entry}, sha256 {digest} of {settings.code}"
    return f"{said}; players as told.jsonl has them. --task-code DIR runs your own copy of that folder"
