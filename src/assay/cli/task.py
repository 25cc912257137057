"""Make a task of one's own, look whether it is fit to be trained on, and make or judge its data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.naming import takes
from assay.core.console import say


def new(
    name: Annotated[str, typer.Argument(help="Of its folder, preset and records: a-z, 0-9 and _.")],
) -> None:
    """Write the files of a task of your own, with a test and records, to run as they are and to change.

    Example: assay task new mine
    """
    from assay.cli.tools import new_task as tool

    tool.run(Path.cwd(), name)


def check(
    task: Annotated[
        str | None,
        typer.Argument(metavar="[TASK]", help="Preset of configs/task/; the chosen one if not given."),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=5.0, max=3600.0, metavar="N", help="Processor seconds that it may take.")
    ] = 55.0,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON of all findings; in .scratch/envcheck/ if not given."),
    ] = None,
) -> None:
    """Look at a task 29 ways before it is trained on; exit code 1 for a fault, 11 for looks left out.

    Example: assay task check mine
    """
    from assay.checks.envcheck import command as tool

    raise typer.Exit(tool.run(Path.cwd(), task, seconds, out))


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="ShareGPT, Alpaca, chat messages, verl, ….")],
    to: Annotated[Path, typer.Option(metavar="TASKS.jsonl", help="File to write.")],
    columns: Annotated[
        str | None,
        typer.Option(help="Where names are unknown: prompt=COLUMN,reference=COLUMN, or a YAML file of them."),
    ] = None,
    schema: Annotated[
        str | None, typer.Option(metavar="FILE", help="Schema for rows that have none, as their schema_path.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write data in other people's forms (JSONL, JSON, CSV, Parquet, gzip) as a tasks file.

    Example: assay task import rows.csv --to tasks.jsonl --columns prompt=question,reference=answer
    """
    from assay.checks.own_data import importing as tool

    tool.run(file, to, columns, schema, force=force)


import_.__name__ = "import"  # as it is called; Python keeps the word for itself


@dataclass(frozen=True)
class AuditOptions:
    """Options of `assay task audit`."""

    task: Annotated[
        str | None,
        typer.Option(
            help="Preset of configs/task/ that says how to read it; the one for own records if not given."
        ),
    ] = None
    out: Annotated[Path, typer.Option(help="Folder for audit.json.")] = Path()
    root: Annotated[
        Path | None, typer.Option(help="Folder that schema paths start from; the file's own if not given.")
    ] = None
    fix_splits: Annotated[
        bool, typer.Option("--fix-splits", help="Write splits by prompt group, and presets for them.")
    ] = False
    data: Annotated[
        Path | None, typer.Option(help="Folder for the splits; data/<name of the file> if not given.")
    ] = None
    fractions: Annotated[str, typer.Option(help="Shares of train, validation and heldout.")] = "0.8,0.1,0.1"
    seed: Annotated[int, typer.Option(help="Seed of the split.")] = 0
    whole_families: Annotated[
        bool, typer.Option("--whole-families", help="Keep the records of a family in one split.")
    ] = False
    force: Annotated[bool, typer.Option("--force", help="Overwrite data in the folder for the splits.")] = (
        False
    )
    base: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="Count prompts in the tokens of this base: a folder, or one of the hub."
        ),
    ] = None


@takes
def audit(
    tasks: Annotated[
        Path, typer.Argument(metavar="TASKS.jsonl", help="Your tasks file, one JSON object a line.")
    ],
    options: AuditOptions,
) -> None:
    """Report what is odd about your tasks file; with --fix-splits make a dataset of it.

    Example: assay task audit tasks.jsonl --fix-splits
    """
    from assay.checks.own_data import audit as tool
    from assay.checks.own_data import splits
    from assay.core.config.tasks import task_of_own_records

    task = options.task or task_of_own_records()
    project = tool.project_for(Path.cwd(), task)
    plan = None
    if options.fix_splits:
        chosen = (options.data, options.fractions, options.seed)
        plan = splits.plan(
            project, tasks, *chosen, force=options.force, whole_families=options.whole_families
        )
    audited = tool.run(
        project, tasks, options.out, tool.selection_for(project.root, task).presets, options.root
    )
    if options.base is not None:
        tool.count_tokens(project, tasks, audited, options.base)
    if plan is not None:
        splits.write(project, task, audited, plan)
    else:
        tool.advise(project, task, tasks)


def make_data(
    task: Annotated[str | None, typer.Option(help="Whose data; those of params.yaml if not given.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write; data/<task> if not given.")] = None,
) -> None:
    """Generate a task's shipped data and their SHA256SUMS; equal code gives equal bytes.

    Example: assay task make-data --task mine
    """
    from assay.core.config.tasks import shipped_data
    from assay.core.storage.files import sha256_bytes, write_text
    from assay.pipeline.project import Project
    from assay.rollout.dataset.verified import SUMS, sums_text

    task = task or Project.open(Path.cwd()).params.task.name
    files = shipped_data(task)
    folder = Path("data") / task if out is None else out
    for name, text in files.items():
        write_text(folder / name, text)
    write_text(folder / SUMS, sums_text({name: sha256_bytes(text.encode()) for name, text in files.items()}))
    say(f"wrote {len(files)} files to {folder}")
