"""Look at any tasks file before it is used: read it as the pipeline would, show what is odd, and say if it is
usable."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from assay.checks.own_data.advice import find_fitting, this_machine
from assay.checks.own_data.importing import has_schema, import_command, name_import
from assay.checks.own_data.tables import name_container
from assay.core.config.composition import Selection, compose, parse_selected, selected
from assay.core.config.settings import Params, PretrainedBase
from assay.core.console import say, say_table
from assay.core.counting import counted
from assay.core.errors import DataError, PolicyError
from assay.core.storage.json import write_json
from assay.pipeline.inputs import blocklist_of, task_with
from assay.pipeline.project import Project
from assay.rollout.audit.audit import Audited, audit, ceiling_said, refuse_unusable, require_records
from assay.rollout.dataset.audit_records import Audit, AuditFinding, Kind
from assay.rollout.dataset.clusters import find_chain, sizes_of, united
from assay.rollout.dataset.schema_files import SchemaFiles
from assay.rollout.dataset.source import SHOWN, load
from assay.rollout.policy.base.pretrained import how_to_download
from assay.rollout.tables.columns import list_names

RECORD = "audit.json"
MOSTLY, LOOKED_AT = 0.5, 20  # share of records that cannot be read, and records, by which a form is told


def selection_for(root: Path, task: str) -> Selection:
    """Return what is selected, with another task preset."""
    now = selected(root)
    return Selection(now.grpo, task, now.seed)


def project_for(root: Path, task: str) -> Project:
    """Return the project as it is with another task preset.

    Raises:
        ConfigError: There is no such preset, or it is broken.
    """
    selection = selection_for(root, task)
    values = compose(root, selection).values
    try:
        # Whether these data suit the chosen base is no matter of looking at them, so settings are not checked
        # together.
        return Project(root, Params.model_validate(values))
    except ValidationError:
        return Project(root, parse_selected(root, selection, values))


def run(
    project: Project, tasks: Path, out: Path, read_by: str = "its own settings", root: Path | None = None
) -> Audited:
    """Audit a tasks file: write audit.json, show it, and return what remains.

    Args:
        project: Its settings say how to read the file.
        tasks: The file.
        out: Folder for audit.json.
        read_by: The presets that the settings come from.
        root: Folder that schema paths start from, besides the project; None: the file's own.

    Raises:
        DataError: The file cannot be used; audit.json is written all the same, unless it cannot even be read.
    """
    task = task_with(project.root, project.params, blocklist_of(project.root, project.params))
    if name_container(tasks) is not None:
        _refuse_form(tasks, ())
    schemas = SchemaFiles(root or tasks.parent, project.root)
    source = load(tasks, schemas, where=str(tasks), fix="name a JSONL file: one JSON object a line, UTF-8")
    audited = audit(task, {tasks.stem: source}, project.params.dataset.audit)
    write_json(out / RECORD, audited.report)
    unreadable = audited.report.kinds["unreadable"].count
    if unreadable > MOSTLY * audited.report.n_records:
        rows = [entry.row for entry in source.entries]
        _refuse_form(tasks, rows[:LOOKED_AT])
        if rows and not (project.params.task.brings_code or has_schema(rows)):
            _refuse_without_schema(tasks, rows[0])
    _show(audited.report, tasks, schemas, read_by)
    _show_clusters(project, audited, tasks.stem)
    passed_over = 0 < audited.report.kinds["no_gold"].count == audited.report.n_records
    if (
        passed_over
        and (how := name_import(tasks, [entry.record for entry in source.entries[:1]])) is not None
    ):
        say(f"no record has a gold, but it is {how[0]}. Fix: {how[1]}")
    say(f"every finding: {out / RECORD}")
    refuse_unusable(audited.report, str(tasks), told=True)
    require_records(audited.report, [tasks.stem], str(tasks.parent))
    return audited


def count_tokens(project: Project, tasks: Path, audited: Audited, base: str) -> None:
    """Count the prompts in the tokens of a base, whose weights need not be there, and say how long the
    longest is.

    Raises:
        PolicyError: There is no such base here, or its tokenizer cannot be read.
        DataError: Prompts are too long for the task's limit or the base.
    """
    from assay.checks.doctor.preflight import read_ahead, refuse_long_prompts
    from assay.rollout.dataset.suite import choose
    from assay.rollout.policy.engine.context import positions_of

    task = task_with(project.root, project.params, blocklist_of(project.root, project.params))
    told = PretrainedBase(
        kind="pretrained", model=base, revision=None, dtype="float32", quantization=None, template={}
    )
    params = project.params.model_copy(update={"base": told})
    policy = read_ahead(params, task, project.root)
    if policy is None:
        found, fix = "none here", f"{how_to_download(base, None)}   (or name a folder)"
        raise PolicyError("config.json and tokenizer of a base", found=found, where=f"--base {base}", fix=fix)
    items = [member.item for member in audited.kept[tasks.stem]]
    plays = choose(items, len(items), split="train", draws=1, seed=0).plays()
    positions, room = positions_of(policy.model.config), params.task.max_new_tokens["json"]
    bounds: dict[str, Any] = {"positions": positions, "room": room, "retries": params.health.retries}
    longest = refuse_long_prompts(task, policy.dialogue, {tasks.stem: plays}, **bounds)[tasks.stem]
    limit = f"task.max_prompt_tokens: {task.max_prompt_tokens}" if task.max_prompt_tokens else "no limit"
    say(f"prompts of up to {counted(longest, 'tokens')} of {base} ({limit}; {positions} positions)")


def advise(project: Project, task: str, tasks: Path) -> None:
    """Say which presets run here with data of one's own, and what makes one; of shipped data nothing."""
    shipped = tasks.resolve().is_relative_to(project.data("").resolve())
    if shipped or not project.params.task.reads_own_records:
        return
    own = project.params.task.brings_code
    found, lines = find_fitting(project.root, this_machine(), scratch=own)
    for line in lines:
        say(line)
    which = (
        "for this machine" if found else "for the processor of this machine, since none runs here as it is"
    )
    command = f"./run assay task audit {shlex.quote(str(tasks))} --fix-splits"
    command += f" --task {task} --data {project.params.dataset.root} --force" if own else ""
    say(f"next: {command}   (writes the splits, and a preset {which})")


def _show_clusters(project: Project, audited: Audited, split: str) -> None:
    """Say how much of a file is independent work, where that is less than its records."""
    similarity = project.params.dataset.near_duplicates
    items = united([each.item for each in audited.kept[split]], similarity)
    sizes = sizes_of(items)
    if len(sizes) < sum(sizes):
        say(
            f"{counted(sum(sizes), 'records')} are {counted(len(sizes), 'clusters')}: near-duplicates, and"
            f" records of one family, count once (the largest holds {sizes[0]})"
        )
        if chain := find_chain(items, similarity):
            say(str(chain))


def _show(checked: Audit, tasks: Path, schemas: SchemaFiles, read_by: str) -> None:
    rows = [row for name, kind in checked.kinds.items() for row in _rows(name, kind)]
    if rows:
        say_table(("kind", "count", "action", "records", "line", "id", "detail"), rows)
    for folder, places in schemas.missing.items():
        near = (os.path.relpath(p) if p.is_relative_to(Path.cwd()) else str(p) for p in places)
        looked = f"no folder {folder}; looked for it at {' and '.join(near)}"
        home = _home_of(folder, tasks)
        fix = "copy it to one of these places" if home is None else f"--root {shlex.quote(str(home))}"
        say(f"schema files: {looked}. Fix: {fix}")
    for split, ceiling in checked.ceilings.items():
        say(ceiling_said(ceiling, split))
    counts = {"refused": checked.refused[tasks.stem], "left out": checked.dropped[tasks.stem]}
    told = [f"{checked.usable[tasks.stem]} usable", *(f"{n} {what}" for what, n in counts.items() if n)]
    odd = "" if rows else "; nothing odd"
    say(f"{tasks}: {counted(checked.n_records, 'records')}: {', '.join(told)}{odd} (read by {read_by})")


def _home_of(folder: str, tasks: Path) -> Path | None:
    """Return the folder above a tasks file in which a folder of schemas lies; None if it lies in none. It is
    only named: what lies up there is nobody's to read unasked."""
    above = [tasks.parent, *tasks.absolute().parent.parents]
    return next((home for home in above[1:] if (home / folder).is_dir()), None)


def _refuse_form(tasks: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a file in a form that has to be imported, and name the command.

    Raises:
        DataError: It is in such a form.
    """
    if (how := name_import(tasks, rows)) is not None:
        found, fix = how
        raise DataError("a tasks file: a JSON object a line", found=found, where=str(tasks), fix=fix)


def _refuse_without_schema(tasks: Path, row: Mapping[str, Any]) -> None:
    """Refuse records that no schema judges, and name both ways on.

    Raises:
        DataError: Always.
    """
    quoted = shlex.quote(str(tasks))
    raise DataError(
        "records with schema, schema_path or functions",
        found=f"none with any, but with {list_names(row)}",
        where=str(tasks),
        fix=f"{import_command(tasks)} --schema SCHEMA.json   (one for all of them)\n"
        "  or, for a reward of your own: ./run assay task new mine;"
        f" ./run assay task audit {quoted} --task mine",
    )


def _rows(name: str, kind: Kind) -> list[tuple[str, ...]]:
    """Return the rows of a kind: what many records have alike is told once, with their number and first."""
    alike: dict[str, list[AuditFinding]] = {}
    for finding in kind.first:
        alike.setdefault(finding.detail, []).append(finding)
    rows: list[tuple[str, ...]] = []
    for detail, found in list(alike.items())[:SHOWN]:
        head = ("", "", "") if rows else (name, str(kind.count), kind.action)
        line = "" if found[0].line is None else str(found[0].line)
        rows.append((*head, str(len(found)), line, found[0].id or "", detail))
    if len(alike) > SHOWN:
        rest = kind.count - sum(len(found) for found in list(alike.values())[:SHOWN])
        rows.append(("", "", "", str(rest), "", "", f"… more of them: all in {RECORD}"))
    return rows
