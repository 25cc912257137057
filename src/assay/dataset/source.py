"""One data file ready for a task: its rows with their schemas in them, whatever file the schemas came
from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.errors import AssayError, DataError
from assay.core.storage.json import digest
from assay.dataset.reading import Line, LinesRead, RefusedLine, read_tasks
from assay.dataset.schema_files import Closure, SchemaFiles
from assay.tasks.protocol import Item

# What a row's schema_path is replaced by; no raw row may bring these itself.
RESERVED = ("schema_resources", "schema_uri")


@dataclass(frozen=True, slots=True)
class DataRow:
    """One row that a task can read, and where it stands."""

    line: int
    row: Mapping[str, Any]  # with its schema in it
    record: Mapping[str, Any]  # as it stood in its file, without schema_path
    body: str  # digest of `record`
    closure: Closure | None

    @property
    def digest(self) -> str:
        """What the record is: its canonical row, with the content of its schema files in place of their
        paths."""
        return self.body if self.closure is None else digest([self.body, self.closure.digest])

    @property
    def id(self) -> str | None:
        """The id the row has, None where it has none of its own."""
        found = self.record.get("id")
        return str(found) if isinstance(found, str | int) else None

    def moved(self, folder: str) -> dict[str, Any]:
        """Return the row as it stood in its file, its schema files having moved to a folder with the layout
        they have."""
        if self.closure is None:
            return dict(self.record)
        return {**self.record, "schema_path": f"{folder}/{self.closure.files[0].name}"}


@dataclass(frozen=True, slots=True)
class KeptRecord:
    """A record that remains after the audit, and what the task makes of it."""

    entry: DataRow
    item: Item


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file: its rows, the lines that hold none, and what is odd about it as a file."""

    entries: list[DataRow]
    refused: list[RefusedLine]
    reading: LinesRead


def load(path: Path, schemas: SchemaFiles, *, where: str, fix: str, skip: Collection[int] = ()) -> DataFile:
    """Read a data file and the schema files its rows name.

    Args:
        path: The file.
        schemas: Finds schema files.
        where: The file's name, for messages.
        fix: What to do if it cannot be read.
        skip: Numbers of lines to pass over.

    Raises:
        DataError: The file cannot be read at all; a single bad line is among `refused` instead.
    """
    reading = read_tasks(path, where=where, fix=fix, skip=skip)
    entries, refused = [], list(reading.refused)
    for line in reading.lines:
        try:
            entries.append(resolved(line, schemas))
        except AssayError as error:
            refused.append(RefusedLine(line.number, reason(error)))
    # The rows live on in the entries; a second list of them would only hold memory.
    reading.lines = []
    return DataFile(entries, sorted(refused, key=lambda line: line.number), reading)


def resolved(line: Line, schemas: SchemaFiles) -> DataRow:
    """Return a row with `schema`, `schema_resources` and `schema_uri` in place of its schema_path.

    Raises:
        DataError: The schema cannot be had, or the row uses a reserved name.
    """
    row = line.row
    for name in RESERVED:
        if name in row:
            raise DataError(
                "no field of that name",
                found=f"{name}, which is reserved",
                where="the record",
                fix="rename it",
            )
    path = row.get("schema_path")
    if path is None:
        record = (
            {name: value for name, value in row.items() if name != "schema_path"}
            if "schema_path" in row
            else row
        )
        return DataRow(line.number, record, record, line.body, None)
    record = {name: value for name, value in row.items() if name != "schema_path"}
    if not isinstance(path, str):
        raise DataError(
            "a path as text", found=type(path).__name__, where="schema_path", fix="correct the record"
        )
    if record.get("schema") is not None:
        raise DataError(
            "schema_path or schema", found="both", where="the record", fix="leave one of them out"
        )
    closure = schemas.closure(path)
    row = record | {
        "schema": closure.document,
        "schema_resources": closure.resources,
        "schema_uri": closure.uri,
    }
    return DataRow(line.number, row, record, line.body, closure)


def reason(error: AssayError) -> str:
    """Return an error as the one line that the audit shows."""
    return f"{error.where}: expected {error.expected}, found {error.found}"
