"""A JSONL file that only grows, one row a write: a kill can tear its last line, and never costs an earlier
one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from assay.core.errors import RecordError
from assay.core.storage.files import read_bytes, write_bytes
from assay.core.storage.json import MAX_LINE_CHARS, dumps, loads

_FIX = "take the file from a copy, or move it away: a new log is begun"
_MAX_LINE_BYTES = 4 * MAX_LINE_CHARS


class AppendLog:
    """A log open for writing, by one writer at a time.

    A row is on disk, as the system sees it, when `append` returns: it outlives this process. To outlive the
    machine's power it has to be appended with `durable=True`.
    """

    def __init__(self, path: Path, descriptor: int, torn_bytes: int) -> None:
        """Take over a descriptor opened with O_APPEND; `open` is the way to make one."""
        self.path, self.torn_bytes, self._descriptor = path, torn_bytes, descriptor

    @classmethod
    def open(cls, path: Path) -> AppendLog:
        """Open a log, a new one if there is none, and cut off what a kill left of its last line.

        What is cut off goes as a line of its own into `<name>.torn` beside the log; `torn_bytes` is how much
        it was.

        Raises:
            RecordError: A complete line is not strict JSON, or this is no file to write in; nothing was
                changed.
        """
        if not path.exists():
            write_bytes(path, b"")
        end = max((end for _, end in _complete(path, _FIX)), default=0)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            fix = "make the file writable; nothing was changed"
            raise RecordError(
                "a file to write in", found=str(error.strerror), where=str(path), fix=fix
            ) from None
        try:
            torn = os.fstat(descriptor).st_size - end
            if torn:
                _keep_beside(path, os.pread(descriptor, torn, end))
                os.ftruncate(descriptor, end)
                os.fsync(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor, torn)

    def append(self, value: Any, *, durable: bool = False) -> None:
        """Write one row; if this raises, the row is not there and neither is a part of it.

        Args:
            value: What JSON can hold, or a record.
            durable: Also wait until the disk has it.

        Raises:
            RecordError: The row could not be read back: too long, too deep, two keys of one name.
            ValueError: The value is no JSON.
            OSError: The disk is full or fails.
        """
        text = dumps(value)
        loads(text, where=f"a row for {self.path}", fix="a bug: append what JSON can hold")
        rest = memoryview(text.encode() + b"\n")
        before, size = os.fstat(self._descriptor).st_size, len(rest)
        try:
            while (
                rest
            ):  # once, but for a disk that fills up: then the second write says why the first was short
                rest = rest[os.write(self._descriptor, rest) :]
            if durable:
                os.fsync(self._descriptor)
        except BaseException as error:
            if os.fstat(self._descriptor).st_size == before + size - len(
                rest
            ):  # else someone else writes here too
                os.ftruncate(self._descriptor, before)
            if isinstance(error, OSError):
                raise OSError(error.errno, error.strerror, str(self.path)) from error
            raise

    def close(self) -> None:
        """Close the file; closing twice is no matter."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> AppendLog:
        """Return the log itself, to be closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()


def read_complete(path: Path, *, fix: str = _FIX) -> Iterator[Any]:
    """Yield the complete rows of a log, also while it is written: a last line without its end is not there
    yet.

    Raises:
        RecordError: The file is missing or unreadable, or a complete line is not strict JSON; says which.
    """
    return (value for value, _ in _complete(path, fix))


def _complete(path: Path, fix: str) -> Iterator[tuple[Any, int]]:
    r"""Yield each value that a \n ends, with the position after it."""
    if not path.is_file():
        read_bytes(path, fix=fix)  # says what is there instead
    end, number = 0, 0
    try:
        with path.open("rb") as stream:
            while line := stream.readline(_MAX_LINE_BYTES):
                number += 1
                where = f"{path}, line {number}"
                if not line.endswith(b"\n"):
                    if len(line) == _MAX_LINE_BYTES:
                        found = "a longer one"
                        raise RecordError(
                            f"a line of at most {_MAX_LINE_BYTES:,} bytes", found=found, where=where, fix=fix
                        )
                    return
                end += len(line)
                try:
                    text = line[:-1].decode()
                except UnicodeDecodeError as error:
                    place = f"{where}, byte {error.start}"
                    raise RecordError("UTF-8 text", found=error.reason, where=place, fix=fix) from None
                yield loads(text, where=where, fix=fix), end
    except OSError as error:
        raise RecordError(
            "a readable file", found=error.strerror or str(error), where=str(path), fix=fix
        ) from None


def _keep_beside(path: Path, torn: bytes) -> None:
    beside = path.with_name(f"{path.name}.torn")
    earlier = read_bytes(beside, fix=f"move {beside} away") if beside.exists() else b""
    write_bytes(beside, earlier + torn + b"\n")
