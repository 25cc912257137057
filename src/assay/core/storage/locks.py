"""One process at a time: locks that the kernel lets go of when their holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assay.core.errors import RecordError, RunningAlready


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Hold the lock of a file while the block runs; the file is there only as long as somebody holds it, or
    was killed.

    Raises:
        RunningAlready: Another process holds it; never waited for.
        RecordError: The folder cannot be written, or its file system has no locks.
    """
    handle = _acquired(path)
    try:
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        yield
    finally:
        # While still held: nobody can lock the file between these lines, and who opened it before looks
        # again.
        path.unlink(missing_ok=True)
        # A forked child has the same lock: let go of it for all, not only close our own copy.
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _acquired(path: Path) -> int:
    """Return the handle of the locked file that has this name now, not of one that its last holder has just
    removed."""
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            found, fix = error.strerror or str(error), "make the folder writable; nothing was changed"
            raise RecordError("a folder to write in", found=found, where=str(path.parent), fix=fix) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        except BlockingIOError:
            holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
            os.close(handle)
            raise RunningAlready(
                "no other process on this run",
                found=f"process {holder or '?'}",
                where=str(path),
                fix="wait until it ends, or end it (kill PID): what it has finished is kept",
            ) from None
        except FileNotFoundError:
            pass  # removed between the two looks
        except OSError as error:
            os.close(handle)
            found, fix = error.strerror or str(error), "keep .scratch/ on a file system with locks"
            raise RecordError("a file that can be locked", found=found, where=str(path), fix=fix) from None
        os.close(handle)
