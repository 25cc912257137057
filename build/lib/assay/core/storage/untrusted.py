"""Files that somebody else wrote: regular ones only, inside given folders, never more bytes than allowed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from assay.core.errors import DataError, RecordError

_PIECE = 1 << 20


def inside(path: Path, roots: Sequence[Path], *, where: str, fix: str) -> Path:
    """Return the path without `..`, known to lie in one of the folders, also after following links. Nothing
    is read.

    Args:
        path: An absolute path.
        roots: The folders.
        where: Who named the path, for messages.
        fix: What to do if it lies elsewhere.

    Raises:
        DataError: The path, or what a link on it points to, lies elsewhere.
    """
    plain = Path(os.path.normpath(path))
    # By its text first, so that a path that plainly leaves is not even looked at.
    if not any(plain.is_relative_to(os.path.normpath(root)) for root in roots):
        raise DataError(
            "a file inside the project or beside the data", found="one outside", where=where, fix=fix
        )
    try:
        real = Path(os.path.realpath(plain))
        real_roots = [os.path.realpath(root) for root in roots]
    except (OSError, ValueError) as error:
        raise DataError("a path", found=str(error), where=where, fix=fix) from None
    if not any(real.is_relative_to(root) for root in real_roots):
        raise DataError(
            "a file inside the project or beside the data", found="a link that leaves", where=where, fix=fix
        )
    return plain


@contextmanager
def open_regular(path: Path, *, max_bytes: int, fix: str) -> Iterator[BinaryIO]:
    """Open a regular file for reading; a pipe or device is refused instead of waited for.

    Raises:
        DataError: No such file, not a regular one, not readable, or larger than allowed.
    """
    try:
        found = os.stat(path)
        if stat.S_ISREG(found.st_mode):
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            found = os.fstat(handle)
        else:
            handle = -1
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(
            "a readable file", found=str(reason), where=ascii(str(path)).strip("'"), fix=fix
        ) from None
    if handle < 0:
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe, socket or device"
        raise DataError("a regular file", found=kind, where=str(path), fix=fix)
    with os.fdopen(handle, "rb") as stream:
        if found.st_size > max_bytes:
            raise DataError(
                f"at most {max_bytes:,} bytes", found=f"{found.st_size:,}", where=str(path), fix=fix
            )
        yield stream


def read_capped(path: Path, *, max_bytes: int, fix: str) -> bytes:
    """Return the bytes of a regular file of limited size.

    Raises:
        DataError: As `open_regular`.
    """
    with open_regular(path, max_bytes=max_bytes, fix=fix) as stream:
        # Not max_bytes at once: a reader sets aside what it is asked for, which may be more than there is
        # memory.
        content = stream.read(os.fstat(stream.fileno()).st_size + 1)
        while len(content) <= max_bytes and (more := stream.read(_PIECE)):
            content += more
    if len(content) > max_bytes:
        raise DataError(f"at most {max_bytes:,} bytes", found="a file that grows", where=str(path), fix=fix)
    return content


def sha256_capped(path: Path, *, max_bytes: int, fix: str) -> str:
    """Return the hexadecimal sha256 of a regular file of limited size, read in pieces.

    Raises:
        DataError: As `open_regular`.
    """
    with open_regular(path, max_bytes=max_bytes, fix=fix) as stream:
        digest = hashlib.sha256()
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


class Lines:
    r"""The lines of a file, read one at a time without their \n; `sha256` is that of the bytes read so
    far."""

    def __init__(self, stream: BinaryIO, *, max_line: int) -> None:
        """Read from an open file; of a line longer than `max_line` bytes nothing is kept."""
        self._stream, self._max_line, self._digest = stream, max_line, hashlib.sha256()

    def __iter__(self) -> Iterator[bytes | None]:
        """Yield each line, None for one that is too long."""
        while line := self._stream.readline(self._max_line + 1):
            self._digest.update(line)
            if line.endswith(b"\n"):
                yield line[:-1]
            elif len(line) <= self._max_line:
                yield line
            else:
                while piece := self._stream.readline(_PIECE):
                    self._digest.update(piece)
                    if piece.endswith(b"\n"):
                        break
                yield None

    @property
    def sha256(self) -> str:
        """The hexadecimal sha256 of all bytes that were read."""
        return self._digest.hexdigest()


def listing(folder: Path) -> dict[str, bool]:
    """Return everything below a folder that is not a folder itself, by relative POSIX name: whether it is a
    plain file.

    Links are named and not followed.

    Raises:
        DataError: There is no such folder.
    """
    names: dict[str, bool] = {}
    todo = [""]
    while todo:
        below = todo.pop()
        try:
            entries = list(os.scandir(folder / below))
        except OSError as error:
            found = error.strerror or str(error)
            raise DataError(
                "a readable folder", found=found, where=str(folder / below), fix="see that it exists"
            ) from None
        for entry in entries:
            name = f"{below}/{entry.name}" if below else entry.name
            if entry.is_dir(follow_symlinks=False):
                todo.append(name)
            else:
                names[name] = entry.is_file(follow_symlinks=False)
    return dict(sorted(names.items()))


_PIECE = 1 << 20
# As .dvcignore has it.
LEFT_BEHIND = (
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".ipynb_checkpoints",
    ".DS_Store",
)


def sha256_contents(path: Path) -> str | None:
    """Return the sha256 of a file, or of the names and contents of a folder's files; None if there is no such
    path.

    Links are followed, so that what is linked from a cache is the same as a copy of it.

    Raises:
        RecordError: A file cannot be read.
    """
    if path.is_file():
        return _sha256_file(path)
    if not path.is_dir():
        return None
    files = {file.relative_to(path).as_posix(): file for file in path.rglob("*") if file.is_file()}
    digest = hashlib.sha256()
    for name in sorted(files):
        if not name.endswith(".pyc") and not set(LEFT_BEHIND) & set(name.split("/")):
            digest.update(f"{name}\0{_sha256_file(files[name])}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _sha256_file(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while piece := stream.read(_PIECE):
                digest.update(piece)
    except OSError as error:
        found = error.strerror or str(error)
        raise RecordError(
            "a readable file", found=found, where=str(path), fix="make it readable, or remove it"
        ) from None
    return digest.hexdigest()
