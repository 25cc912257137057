"""`assay task import FILE --to TASKS.jsonl`: data in other people's forms, as records that a task reads."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.checks.own_data.forms import NotConverted, convert, name_form
from assay.checks.own_data.tables import name_container, read_rows
from assay.core.console import say
from assay.core.counting import counted
from assay.core.errors import DataError
from assay.core.storage.files import write_text
from assay.core.storage.json import as_written
from assay.rollout.tables.columns import Columns

MOST_REASONS = 5
EDIT = "write a prompt into each row, and what is right as answer, or gold beside a schema or functions"


def run(file: Path, to: Path, columns: str | None, schema: str | None, *, force: bool) -> None:
    """Write the records of a file, say what was left out and why, and how to go on.

    Args:
        file: Of rows, in any form that is known.
        to: The tasks file to write.
        columns: Which columns hold prompt and reference, where they have no known names.
        schema: Path of the schema of rows that have none.
        force: Whether a file that is there is written over.

    Raises:
        DataError: No row can be read, or there is a file already.
    """
    if to.suffix != ".jsonl":
        fix = f"--to {shlex.quote(str(to.with_suffix('.jsonl')))}"
        raise DataError("a file named .jsonl", found=str(to), where="--to", fix=fix)
    if to.exists() and not force:
        fix = "another --to, or --force to write over it"
        raise DataError("a new file", found="one that is there", where=str(to), fix=fix)
    named, rows = Columns.read(columns), read_rows(file)
    records, lost, fix = list[dict[str, Any]](), dict[str, list[int]](), ""
    for number, row in enumerate(rows, start=1):
        try:
            records.append(convert(row, named, schema))
        except NotConverted as error:
            fix = fix or error.fix
            lost.setdefault(str(error), []).append(number)
    reasons = [
        f"{counted(len(numbers), 'rows')} left out, first {numbers[0]}: {why}"
        for why, numbers in lost.items()
    ]
    if not records:
        found = "; ".join(reasons[:MOST_REASONS]) or "none"
        raise DataError("rows with a prompt", found=found, where=str(file), fix=fix or EDIT)
    if has_schema(records):
        told = [record for record in records if has_schema([record])]
        if len(told) < len(records):
            n = counted(len(records) - len(told), "rows")
            reasons.append(f"{n} left out: no schema and no tools, beside rows that have them")
        records = told
    write_text(to, "".join(as_written(record) + "\n" for record in records))
    for reason in reasons[:MOST_REASONS]:
        say(reason)
    form = name_form(rows[0]) or name_container(file)
    say(f"wrote {to}: {counted(len(records), 'records')} of {file}{f', which is {form}' if form else ''}")
    _show_next(records, to)


def _show_next(records: Sequence[Mapping[str, Any]], to: Path) -> None:
    tasks = shlex.quote(str(to))
    if has_schema(records):
        say(f"next: ./run assay task audit {tasks}")
        return
    say("they have no schema, so what is right is for a task of your own to say. next:")
    say("  ./run assay task new mine   # or the task that you have")
    say(f"  ./run assay task audit {tasks} --task mine")


def has_schema(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether some rows bring a schema, so that they can be judged by it."""
    return any(row.get(name) is not None for row in rows for name in ("schema", "schema_path", "functions"))


def name_import(path: Path, rows: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
    """Return what a file is that has to be imported, and the command that does; None where it is no such
    file.

    Args:
        path: The file.
        rows: The first of its rows, if it is JSONL.
    """
    found = name_container(path) or next((form for row in rows if (form := name_form(row))), None)
    return None if found is None else (found, import_command(path))


def import_command(path: Path) -> str:
    """Return what to type to import a file."""
    to = path.with_name(f"{path.name.split('.')[0]}_records.jsonl")
    return f"./run assay task import {shlex.quote(str(path))} --to {shlex.quote(str(to))}"
