"""Bytes on disk, whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from assay.core.errors import RecordError

# What we write aside is named by what it will be and by the process that writes it: .<name>.<pid>-<8
# random>.part
ASIDE = ".part"
TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
_ASIDE = re.compile(r"\..+\.(\d{1,10})-[a-z0-9_]{8}\.part")
LONGEST_WRITE_SECONDS = 3600.0  # no write of ours takes so long, whoever has the number of its process by now


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically: a reader, or a crash, sees the old bytes or the new ones, never a part.

    Raises:
        RecordError: The folder cannot be written.
    """
    with written_whole(path) as stream:
        stream.write(content)


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """Give a stream to write to; the file is called `path` once the block has ended without an error.

    Raises:
        RecordError: The folder cannot be written.
        OSError: The disk is full; names `path`, whose old bytes are as they were.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=aside(path), suffix=ASIDE)
    except OSError as error:
        fix = "make the folder writable; nothing was changed"
        raise RecordError(
            "a folder to write in", found=str(error.strerror), where=str(path.parent), fix=fix
        ) from None
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        # What a block reads meanwhile keeps its own name.
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, temporary):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    sync_folder(path.parent)


def aside(path: Path) -> str:
    """Return how the temporary name begins under which something is written before it is called `path`; ASIDE
    ends it."""
    return f".{path.name}.{os.getpid()}-"


def sweep(*folders: Path) -> list[str]:
    """Remove what writers that were killed have left in these folders (not below them), and return the names.

    Only what has a temporary name of ours is touched, and only if the process that named it is gone, or an
    hour is.
    """
    removed = []
    for left in sorted(path for folder in folders if folder.is_dir() for path in folder.iterdir()):
        found = _ASIDE.fullmatch(left.name)
        if found is None or (_lives(int(found.group(1))) and not _is_old(left)):
            continue
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)
        removed.append(left.name)
    return removed


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.lstat().st_mtime > LONGEST_WRITE_SECONDS
    except FileNotFoundError:
        return False


def sync_folder(path: Path) -> None:
    """Make a rename in a folder last through a loss of power."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_text(path: Path, content: str) -> None:
    """Write UTF-8 text atomically, line ends as given."""
    write_bytes(path, content.encode())


def read_bytes(path: Path, *, fix: str) -> bytes:
    """Return a file's bytes.

    Raises:
        RecordError: The file is missing or unreadable; `fix` says what to do.
    """
    try:
        if path.exists() and not path.is_file():
            # A pipe would keep the reader waiting for ever.
            raise RecordError("a regular file", found="something else", where=str(path), fix=fix)
        return path.read_bytes()
    except OSError as error:
        raise RecordError(
            "a readable file", found=error.strerror or str(error), where=str(path), fix=fix
        ) from None


def read_text(path: Path, *, fix: str) -> str:
    """Return a file's UTF-8 text.

    Raises:
        RecordError: The file is missing, unreadable or not UTF-8.
    """
    try:
        return read_bytes(path, fix=fix).decode("utf-8")
    except UnicodeDecodeError as error:
        where = f"{path}, byte {error.start}"
        raise RecordError("UTF-8 text", found=error.reason, where=where, fix=fix) from None


def real(path: Path) -> Path:
    """Return a path absolute and without links; of a loop of links, which leads nowhere, as far as it leads.

    `Path.resolve` raises at such a loop, and only in some versions of Python.
    """
    return Path(os.path.realpath(path))


def remove(path: Path) -> None:
    """Remove a file; one that is not there is no matter."""
    path.unlink(missing_ok=True)


def sha256_bytes(content: bytes) -> str:
    """Return the hexadecimal sha256 of bytes.

    >>> sha256_bytes(b"")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(content).hexdigest()


def write_folder(
    path: Path, files: Mapping[str, bytes], *, check: Callable[[Path], None], replace: bool = True
) -> bool:
    """Write a folder under another name, check it there, then give it its name; a crash leaves it whole or
    not there. Return whether it is the one that is there now.

    Args:
        path: The folder.
        files: Relative POSIX name → content.
        check: Called with the folder under its temporary name; what it raises stops everything.
        replace: Whether one that is there already is replaced; if not, it stays unless it is empty, also one
            that another process puts there meanwhile.

    Raises:
        RecordError: The folder above cannot be written.
    """
    fix = "make the folder writable; nothing was changed"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=aside(path), suffix=ASIDE))
    except OSError as error:
        raise RecordError(
            "a folder to write in", found=str(error.strerror), where=str(path.parent), fix=fix
        ) from None
    try:
        fresh = temporary / "new"
        fresh.mkdir()
        for name, content in files.items():
            write_bytes(fresh / name, content)
        check(fresh)
        if replace and path.exists():
            os.rename(path, temporary / "old")
        try:
            os.rename(fresh, path)
        except OSError as error:
            if replace or error.errno not in TAKEN:
                raise
            return False
        sync_folder(path.parent)
        return True
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
