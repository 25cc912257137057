"""What is looked at: a task with its records, as a preset of configs/task/ sets it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.core.config.settings import Params
from assay.core.errors import AssayError, DataError
from assay.core.seeds import derive_seed
from assay.pipeline.inputs import blocklist_of, task_with
from assay.pipeline.project import Project
from assay.rollout.dataset.schema_files import SchemaFiles
from assay.rollout.dataset.source import load
from assay.rollout.tasks.own.task import OwnTask
from assay.rollout.tasks.protocol import Item, Task

MOST_RECORDS = 2048  # of a split: enough for shares, and read in seconds


@dataclass(frozen=True, slots=True)
class World:
    """One item, and the seed of its world."""

    item: Item
    seed: int


@dataclass(frozen=True, slots=True)
class Case:
    """A task and its records.

    Attributes:
        project: Root and settings.
        task: As it is evaluated.
        splits: Items by split: train, the one that validates, heldout.
        unread: Records that the task refuses, by split, with the first reason.
    """

    project: Project
    task: Task
    splits: Mapping[str, Sequence[Item]]
    unread: Mapping[str, str]

    @classmethod
    def of(cls, project: Project) -> Case:
        """Return the task of a project, in this process, with its records as they stand in its files.

        Raises:
            AssayError: Its code cannot be loaded, or no record of train can be read.
        """
        if (
            "isolation" in type(project.params.task).model_fields
        ):  # looked at from inside, in a process of ours
            inside = project.params.task.model_copy(update={"isolation": "inline"})
            project = Project(project.root, project.params.model_copy(update={"task": inside}))
        task = task_with(project.root, project.params, blocklist_of(project.root, project.params))
        splits: dict[str, list[Item]] = {}
        unread: dict[str, str] = {}
        for split in dict.fromkeys(("train", project.params.validation.suite, "heldout")):
            splits[split], refused = items_in(project, task, split)
            if refused:
                unread[split] = refused
            if not splits[split] and split == "train":
                where = f"{project.params.dataset.root}/{split}.jsonl"
                raise DataError(
                    "records that the task reads",
                    found=refused or "none",
                    where=where,
                    fix="see task and records",
                )
        return cls(project, task, splits, unread)

    @property
    def params(self) -> Params:
        """All settings."""
        return self.project.params

    @property
    def own(self) -> OwnTask | None:
        """The task as one that was brought along, None for a shipped one."""
        return self.task if isinstance(self.task, OwnTask) else None

    @property
    def max_turns(self) -> int:
        """Completions an episode may take."""
        return self.params.task.most_turns or 200

    def worlds(self, n: int, split: str = "train") -> list[World]:
        """Return up to n worlds, spread over the split."""
        items = self.splits[split]
        picked = [items[k * len(items) // min(n, len(items))] for k in range(min(n, len(items)))]
        return [World(item, derive_seed("envcheck", split, item.id)) for item in picked]

    def gold(self, item: Item) -> str | None:
        """Return a right completion that its record holds; None where there is none."""
        solution = getattr(self.task, "solution", None)
        found = None if solution is None else solution(item)
        return None if found is None else str(found)


def items_in(project: Project, task: Task, split: str) -> tuple[list[Item], str]:
    """Return the items of a data file, and how many records the task refuses, with the first reason; "" where
    it refuses none.

    Raises:
        DataError: There is no such file, or it cannot be read.
    """
    schemas = SchemaFiles(project.data(""), project.root)
    where = f"{project.params.dataset.root}/{split}.jsonl"
    fix = "make the records of this split"
    entries = load(project.data(f"{split}.jsonl"), schemas, where=where, fix=fix).entries
    items, refused = list[Item](), list[str]()
    for entry in entries[:MOST_RECORDS]:
        try:
            items.append(replace(task.item(entry.row), record=entry.digest, row=entry.record))
        except AssayError as error:
            refused.append(str(error).split("\n")[0])
    return items, f"{len(refused)} of {len(entries)}: {refused[0]}" if refused else ""


def folder_of(case: Case) -> Path:
    """Return where the task's own code lies."""
    return (case.project.root / str(getattr(case.params.task, "code", "src"))).resolve()
