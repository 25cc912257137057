"""Tasks files that somebody names: opened with their task's settings, audited, made a suite. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from assay.checks.own_data.audit import project_for
from assay.checks.own_data.importing import name_import
from assay.core.config.tasks import Wrapping, task_of_own_records
from assay.core.console import complain
from assay.core.counting import counted
from assay.core.errors import ConfigError, DataError
from assay.core.records import Split
from assay.core.storage.files import real
from assay.core.storage.json import digest
from assay.pipeline.note_openings import note_opening
from assay.pipeline.project import Project
from assay.rollout.audit.audit import audit, refuse_unusable
from assay.rollout.dataset.schema_files import SchemaFiles
from assay.rollout.dataset.source import DataRow, load
from assay.rollout.dataset.suite import Suite, choose
from assay.rollout.dataset.wording import content_of
from assay.rollout.tables.columns import OPTION, Columns, Meaning, look_up
from assay.rollout.tasks.protocol import Item, Task
from assay.rollout.tasks.wrappings import EVERY

SPLITS: tuple[Split, ...] = ("train", "validation", "heldout")


def open_project(
    root: Path,
    task: str | None,
    surface: str | None = None,
    blocklist: Path | None = None,
    cut: str | None = None,
) -> Project:
    """Return the project with the settings of a task; of params.yaml if none is named.

    Raises:
        ConfigError: No such preset, or settings that cannot be.
    """
    params = (Project.open(root) if task is None else project_for(root, task)).params
    changes: dict[str, Any] = {}
    if surface is not None:
        if surface not in params.task.max_new_tokens:
            expected = " or ".join(params.task.max_new_tokens)
            fix = "choose one that the policy speaks"
            raise ConfigError(expected, found=repr(surface), where="--surface", fix=fix)
        changes["generation"] = params.generation.model_copy(update={"surface": surface})
    if blocklist is not None:
        if "blocklist" not in type(params.task).model_fields:
            fix = f"leave it out, or --task {task_of_own_records()}"
            raise ConfigError("a task with a blocklist", found=params.task.name, where="--blocklist", fix=fix)
        changes["task"] = params.task.model_copy(update={"blocklist": str(blocklist)})
    if cut is not None:
        task_now = changes.get("task", params.task)
        changes["task"] = task_now.model_copy(update={"cut": read_cut(cut)})
    return Project(root, params.model_copy(update=changes))


def read_cut(text: str) -> list[Wrapping]:
    """Return wrappings that somebody names, in their order; `none` is nothing.

    >>> read_cut("think, fence"), read_cut("none")
    (['think', 'fence'], [])

    Raises:
        ConfigError: There is no such wrapping.
    """
    names = [] if text.strip() == "none" else [name.strip() for name in text.split(",")]
    if odd := [name for name in names if name not in EVERY]:
        expected = f"none, or some of {', '.join(EVERY)}"
        raise ConfigError(expected, found=repr(odd[0]), where="--cut", fix="--cut think,fence")
    return [name for each in names for name in EVERY if name == each]


def items_of(
    project: Project, task: Task, path: Path, columns: Columns | None = None
) -> tuple[list[Item], str]:
    """Return the items of a tasks file, odd records treated as the settings say, and the file's sha256.

    Args:
        project: Whose settings say what is odd.
        task: Reads the records.
        path: The file.
        columns: Which field of a record is the id (item), the prompt and what is right (reference), where
            they have other names; None: they have none.

    Raises:
        DataError: The file cannot be read, holds what dataset.audit refuses, or nothing, or a field that was
            named is not there.
    """
    where, lines = str(path), "--tasks FILE: a JSONL file, one record a line"
    if (how := name_import(path, ())) is not None:
        raise DataError("a tasks file: a JSON object a line", found=how[0], where=where, fix=how[1])
    source = load(path, SchemaFiles(path.parent, project.root), where=where, fix=lines)
    if columns is not None and columns.named:
        source.entries[:] = [
            _renamed(each, columns, f"{path}, line {each.line}", _field_of_right(project))
            for each in source.entries
        ]
    audited = audit(task, {"tasks": source}, project.params.dataset.audit)
    unreadable, n = audited.report.kinds["unreadable"], audited.report.n_records
    if n and unreadable.count == n:
        first = unreadable.first[0]
        found = f"none in {counted(n, 'lines')} (first: line {first.line}: {first.detail})"
        how = name_import(path, [entry.record for entry in source.entries[:1]])
        fix = how[1] if how else "--task NAME, the preset of configs/task/ that reads this file"
        raise DataError(f"records of task {task.name}", found=found, where=where, fix=fix)
    refuse_unusable(audited.report, where)
    if dropped := len(audited.dropped["tasks"]):
        why = f"(dataset.audit); ./run assay task audit {path} says why"
        complain(f"{path}: {counted(dropped, 'records')} left out {why}")
    kept = audited.kept["tasks"]
    if not kept:
        raise DataError("records", found="none", where=where, fix=lines)
    return [each.item for each in kept], source.reading.file_sha256


def _field_of_right(project: Project) -> str:
    """Return the field in which the records of a task have what is right."""
    success = getattr(project.params.task, "success", None)
    return getattr(success, "column", None) or ("gold" if success is None else "answer")


def _renamed(entry: DataRow, columns: Columns, where: str, right: str) -> DataRow:
    """Return a record with the fields that were named under the names that its task reads."""
    fields: dict[Meaning, str] = {"item": "id", "prompt": "prompt", "reference": right}
    if odd := columns.named.keys() - fields:
        expected, fix = ", ".join(fields), f"{OPTION} item=task_id,prompt=question,reference=solution"
        raise ConfigError(expected, found=", ".join(sorted(odd)), where=OPTION, fix=fix)
    names = {fields[meaning]: columns.find(meaning, entry.row, where) for meaning in columns.named}
    taken = set(names.values())

    def rename(row: Mapping[str, Any]) -> dict[str, Any]:
        rest = {name: value for name, value in row.items() if name not in taken}
        return rest | {field: look_up(row, str(name)) for field, name in names.items()}

    record = rename(entry.record)
    return replace(entry, row=rename(entry.row), record=record, body=digest(record))


def suite_from(
    project: Project,
    items: Sequence[Item],
    tasks: Path,
    n: int | None,
    seed: int | None,
    draws: int,
    rules: str,
) -> Suite:
    """Return n items of a tasks file, or all, as a suite. A split of the project keeps its name, so its plays
    are those of the stages.

    Raises:
        ConfigError: More items are asked for than there are.
    """
    if (n := n or len(items)) > len(items):
        expected, fix = f"at most the {len(items)} items of {tasks}", f"--items {len(items)}, or leave it out"
        raise ConfigError(expected, found=str(n), where="--items", fix=fix)
    own = {real(project.data(f"{split}.jsonl")): split for split in SPLITS}
    return choose(
        items,
        n,
        split=own.get(real(tasks), "tasks"),
        draws=draws,
        seed=project.params.evaluation.seed if seed is None else seed,
        rules=rules,
        similarity=project.params.dataset.near_duplicates,
    )


def note_asked(project: Project, suite: Suite, policy_digest: str, base: str) -> None:
    """Write down an opening of the records that a suite asks, from whatever file: they may be held out, here
    or in other data."""
    path, held = project.data("heldout.jsonl"), set[str]()
    if path.is_file():
        schemas = SchemaFiles(project.data(""), project.root)
        file = load(path, schemas, where=str(path), fix="restore the data")
        held = {content_of(entry.row) for entry in file.entries}
    if asked := held & set(suite.contents):
        records = f"{counted(len(asked), 'held-out records')} of {project.params.dataset.root}"
        complain(f"{records} are opened; it is noted as such")
    note_opening(
        project.root,
        project.params,
        "evaluate",
        suite,
        policy_digest,
        base=base,
        split="heldout" if asked else suite.split,
    )
