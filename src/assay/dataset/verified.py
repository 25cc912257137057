"""Files against the digests they had when they were fingerprinted, each time they are read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from assay.core.errors import DataError
from assay.core.storage.files import sha256_bytes
from assay.core.storage.untrusted import sha256_capped
from assay.dataset.reading import MAX_FILE_BYTES
from assay.dataset.schema_files import SchemaFiles, read_schema
from assay.dataset.source import DataRow, load


def require(expected: str | None, found: str, where: str, fix: str) -> None:
    """Refuse bytes that are not the fingerprinted ones.

    Raises:
        DataError: Names the file.
    """
    if expected != found:
        known = (
            "no file of the fingerprint"
            if expected is None
            else f"the fingerprinted bytes ({expected[:16]}…)"
        )
        raise DataError(known, found=f"{found[:16]}…", where=where, fix=fix)


def verify(folder: Path, expected: Mapping[str, str], *, shown: str, fix: str) -> None:
    """Refuse files that are not byte for byte what they were.

    Args:
        folder: What the names are relative to.
        expected: sha256 by name.
        shown: Put before the names in messages.
        fix: What to do then.

    Raises:
        DataError: Names the first file that is missing or changed.
    """
    for name, value in expected.items():
        require(value, sha256_capped(folder / name, max_bytes=MAX_FILE_BYTES, fix=fix), f"{shown}{name}", fix)


def reader(folder: Path, expected: Mapping[str, str], fix: str) -> Callable[[Path], bytes]:
    """Return a reader of schema files that refuses other bytes than the expected ones, named relative to the
    folder."""

    def read(path: Path) -> bytes:
        content = read_schema(path)
        label = SchemaFiles(folder, folder).label(path)
        require(expected.get(label), sha256_bytes(content), label, fix)
        return content

    return read


def entries(
    path: Path, sha256: str, schemas: SchemaFiles, *, where: str, fix: str, skip: Collection[int] = ()
) -> list[DataRow]:
    """Return the rows of a data file that has passed the audit, without those it left out.

    Args:
        path: The file.
        sha256: What its bytes must be.
        schemas: Finds schema files.
        where: The file's name, for messages.
        fix: What to do if it is another file.
        skip: Numbers of the lines that were left out.

    Raises:
        DataError: Other bytes, or a line that could be read once and now cannot.
    """
    source = load(path, schemas, where=where, fix=fix, skip=skip)
    require(sha256, source.reading.file_sha256, where, fix)
    if source.refused:
        first = source.refused[0]
        raise DataError("a record", found=first.reason, where=f"{where}, line {first.number}", fix=fix)
    return source.entries
