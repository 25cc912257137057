"""`assay episodes rescore`: stored completions under another reward, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from assay.core.console import say, say_table
from assay.core.counting import counted
from assay.core.errors import ConfigError, DataError
from assay.core.records import Record
from assay.core.storage.files import write_text
from assay.core.storage.json import digest, write_json
from assay.core.storage.tables import write_csv
from assay.evidence.escape import one_line
from assay.evidence.formatting import difference_text, interval_text, percent
from assay.pipeline.project import Project
from assay.tasks.catalogue import build
from assay.tasks.protocol import Task
from assay.tools.rescore import rewards
from assay.tools.rescore.comparing import Comparison, GroupChange, compare_rewards
from assay.tools.rescore.rewards import How, Replayed, Rewarded, Scored, ScoredFile, ScoredLog, read_scored
from assay.tools.tasks_file import open_project

NOTE = (
    "These completions were drawn under the old reward. What a training for the new one would draw, they do"
    " not tell."
)


@dataclass(frozen=True, slots=True)
class RescoreRequest:
    """What the command line says.

    One of `weights` (part=NUMBER,... or a YAML file) and `entry` (FILE:FUNCTION); `task` a preset; `tasks`
    the records of the episodes; `success` the column of another trainer's log; `out` the folder to write.
    """

    weights: str | None = None
    entry: str | None = None
    task: str | None = None
    tasks: Path | None = None
    success: str | None = None
    out: Path = Path("rescored")


class Rescored(Record):
    """What rescore.json holds."""

    kind: Literal["assay-rescore/1"] = "assay-rescore/1"
    files: tuple[ScoredFile, ...]
    how: How = Field(description="parts weighed: each stored part times a number; else asked again")
    weights: dict[str, float]
    entry: str | None
    task: str | None
    says: str = Field(description="whether the new reward agrees better with success, in words")
    comparison: Comparison
    notes: tuple[str, ...]


def run(root: Path, paths: Sequence[Path], asked: RescoreRequest) -> None:
    """Write rescore.json, rescore.md and groups.csv; say the table.

    Raises:
        AssayError: A file cannot be read, or what it holds does not tell what the other reward would pay.
    """
    if (asked.weights is None) == (asked.entry is None):
        given = "neither" if asked.weights is None else "both"
        fix = "--weights part=0.5,other=1"
        where = "assay episodes rescore"
        raise ConfigError("one of --weights and --entry", found=given, where=where, fix=fix)
    if asked.out.exists() and not asked.out.is_dir():
        fix = "--out with another name"
        raise ConfigError("a folder to write in", found="a file", where=f"--out {asked.out}", fix=fix)
    weights = {} if asked.weights is None else rewards.read_weights(asked.weights)
    logs = [read_scored(path, asked.success) for path in paths]
    project = _project(root, logs, asked)
    how, after = _rewarded(project, logs, weights, asked)
    rows = [row for log in logs for row in log.rows]
    if len(logs) > 1:  # two trainings may have the same steps of the same items
        of = [path for path, log in zip(paths, logs, strict=True) for _ in log.rows]
        rows = [replace(row, group=f"{path}: {row.group}") for path, row in zip(of, rows, strict=True)]
    found, changes = compare_rewards(rows, after, digest([row.group for row in rows]))
    if found is None:
        fix = "name a log with several completions of an item at a step, or episodes with several draws"
        raise DataError("groups of two completions or more", found="none", where=str(paths[0]), fix=fix)
    told = Rescored(
        files=tuple(log.file for log in logs),
        how=how,
        weights=weights,
        entry=asked.entry,
        task=None if project is None else project.params.task.name,
        says=_verdict(found),
        comparison=found,
        notes=(*(note for log in logs for note in log.notes), *_paid_for_success(rows), NOTE),
    )
    table = _table(found)
    write_json(asked.out / "rescore.json", told)
    write_text(asked.out / "rescore.md", _markdown(told, table))
    columns = list(GroupChange.model_fields)
    write_csv(asked.out / "groups.csv", [each.model_dump() for each in changes], columns)
    say_table(("what", "before", "after or change", "n"), table)
    say(told.says)
    for note in told.notes:
        say(f"note: {note}")
    say(f"wrote rescore.json, rescore.md and groups.csv to {asked.out}")


def _project(root: Path, logs: Sequence[ScoredLog], asked: RescoreRequest) -> Project | None:
    """Return the settings of the task that rewarded episodes; None for logs of another trainer, and for
    episodes outside of a project.

    Raises:
        ConfigError: A function needs episodes of assay, or their parts are another task's.
    """
    own = [log for log in logs if log.file.kind != "log of another trainer"]
    if len(own) < len(logs):
        if asked.entry is not None or asked.task is not None:
            where, fix = "--entry" if asked.entry else "--task", "--weights part=0.5 weighs the parts it has"
            raise ConfigError("episodes of assay", found="a log of another trainer", where=where, fix=fix)
        return None
    if asked.task is None and not (root / "params.yaml").is_file():
        return None
    project = open_project(root, asked.task)
    parts, known = (
        {name for log in own for row in log.rows for name in row.parts},
        set(_task_of(project).parts),
    )
    if known != parts:
        fix = "--task NAME, the preset of configs/task/ that rewarded them"
        found = f"{', '.join(sorted(parts))}; task {project.params.task.name} has {', '.join(sorted(known))}"
        raise ConfigError("episodes of the task", found=f"the reward parts {found}", where="--task", fix=fix)
    return project


def _task_of(project: Project) -> Task:
    """Return the task without its own code, which names and kinds of parts do not need."""
    return build(project.params.task, project.params.generation, shaping=False)


def _rewarded(
    project: Project | None, logs: Sequence[ScoredLog], weights: dict[str, float], asked: RescoreRequest
) -> tuple[How, list[Rewarded]]:
    how: How = "parts weighed"
    if asked.entry is not None or rewards.has_weights(project):
        if project is None:
            fix = "call it where params.yaml is, or name --task"
            raise ConfigError("the task's settings", found="none here", where="--entry", fix=fix)
        other = (
            rewards.with_weights(project, weights)
            if asked.entry is None
            else rewards.with_entry(project, asked.entry)
        )
        how = "weights of the task" if asked.entry is None else "another function"
        after = []
        for log in logs:
            validated = log.file.kind == "validations"
            after += Replayed(project, log.rows, validated=validated, tasks=asked.tasks).under(other)
        return how, after
    rows: list[Scored] = [row for log in logs for row in log.rows]
    return how, rewards.weighed(rows, weights, None if project is None else _task_of(project))


def _paid_for_success(rows: Sequence[Scored]) -> list[str]:
    """Return a sentence on each part that is paid where something succeeded, and nowhere else."""
    if any(row.success is None for row in rows) or len({row.success for row in rows}) < 2:
        return []
    names = sorted({name for row in rows for name in row.parts})
    told = [
        name for name in names if all((row.parts.get(name, 0.0) > 0) == bool(row.success) for row in rows)
    ]
    return [
        f"Part {name} is paid for success and nothing else: to weigh it more agrees better by itself."
        for name in told
    ]


def _verdict(found: Comparison) -> str:
    if not found.pairs:
        return "Agreement with success is not known: no group holds a success and a failure."
    gain = found.auc_gain
    if gain.value == 0.0 and gain.low is None:
        return "The new reward agrees with success as the old one does."
    pairs = f"over {counted(found.pairs, 'pairs')} of a success and a failure in one group"
    said = f"{difference_text(gain, rate=True)} points {pairs}"
    if gain.low is None or gain.high is None or gain.low <= 0.0 <= gain.high:
        return f"It is not shown that the new reward agrees with success better or worse: {said}."
    return f"The new reward agrees {'better' if gain.low > 0 else 'worse'} with success: {said}."


def _table(found: Comparison) -> list[tuple[str, str, str, str]]:
    rows = []
    for what, name, n in (
        ("groups whose order changes, %", "order_changed", found.groups),
        ("of which a pair changes places, %", "order_reversed", found.groups),
        ("advantages that change sign, %", "flips", found.members),
        ("advantages that become 0, %", "lost", found.members),
        ("advantages that were 0, %", "gained", found.members),
    ):
        each = getattr(found, name)
        rows.append((what, "", interval_text(each.share, rate=True), f"{each.count} of {n}"))
    silent = [interval_text(each.share, rate=True) for each in (found.silent_before, found.silent_after)]
    counts = f"{found.silent_before.count}, then {found.silent_after.count} of {found.groups}"
    rows.append(("groups that all earn the same, %", silent[0], silent[1], counts))
    aucs = [interval_text(each, rate=True) for each in (found.auc_before, found.auc_after)]
    rows.append(("agreement with success (AUC), %", aucs[0], aucs[1], f"{found.pairs} pairs"))
    for name in sorted({*found.spread_before, *found.spread_after}):
        shares = [_share(of.get(name)) for of in (found.spread_before, found.spread_after)]
        rows.append((f"part {name} of the spread, %", shares[0], shares[1], f"{found.groups} groups"))
    return rows


def _share(value: float | None) -> str:
    return "" if value is None else percent(value)


def _markdown(told: Rescored, table: Sequence[Sequence[str]]) -> str:
    of = ", ".join(one_line(each.name) for each in told.files)
    by = one_line(told.entry or ", ".join(f"{name}={value:g}" for name, value in told.weights.items()))
    lines = [f"# {of} under another reward", "", f"{told.how}: {by}. {told.says}", ""]
    lines += ["| what | before | after or change | n |", "| --- | --- | --- | --- |"]
    lines += [f"| {' | '.join(one_line(cell) for cell in row)} |" for row in table]
    lines += ["", *(f"* {one_line(note)}" for note in told.notes)]
    return "\n".join(lines) + "\n"
