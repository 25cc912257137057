"""JSON lines in a gzip: one member that says nothing but its content, so equal records are equal bytes on one
machine, and equal content on any."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from assay.core.errors import RecordError
from assay.core.storage.files import read_bytes, write_bytes
from assay.core.storage.json import dumps, parse_records

R = TypeVar("R", bound=BaseModel)
SUFFIX = ".gz"
MOST_BYTES = 1 << 30  # of what is unpacked
_LEVEL = 9
# Magic, deflate, no flags (name, comment and the like), no time; two bytes more are the packer's and free.
_PLAIN, _HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00", 10


def write_jsonl_gz(path: Path, values: Iterable[Any]) -> None:
    """Write one canonical JSON value a line, packed. Other versions of zlib give other bytes."""
    content = "".join(f"{dumps(value)}\n" for value in values).encode()
    write_bytes(path, gzip.compress(content, _LEVEL, mtime=0))


def unpacked(content: bytes, *, where: str, fix: str) -> bytes:
    """Return what a gzip holds.

    Raises:
        RecordError: It is none, says more than its content (a name, a comment, a second member), or is larger
            than MOST_BYTES.
    """
    found = None
    unpacker = zlib.decompressobj(wbits=31)
    try:
        plain = unpacker.decompress(content, MOST_BYTES)
    except zlib.error as error:
        plain, found = b"", str(error)
    if found is None and unpacker.unconsumed_tail:
        found = f"more than {MOST_BYTES} bytes"
    if found is None and not unpacker.eof:
        found = "one that is cut off"
    if found is None and (unpacker.unused_data or content[: len(_PLAIN)] != _PLAIN):
        found = "a header or an end with more in it"
    if found is not None:
        raise RecordError("a gzip of one file and nothing more", found=found, where=where, fix=fix)
    return plain


def read_records_gz(path: Path, kind: type[R], *, fix: str) -> list[R]:
    """Read one record a line; a damaged line fails with its number, it is never skipped.

    Raises:
        RecordError: The file is missing, no plain gzip, or a line is no such record.
    """
    plain = unpacked(read_bytes(path, fix=fix), where=str(path), fix=fix)
    try:
        text = plain.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(
            "UTF-8 text", found=f"{error.reason} at byte {error.start}", where=str(path), fix=fix
        ) from None
    return parse_records(text, kind, where=str(path), fix=fix)
