"""One process at a time: locks that the kernel lets go of when their holder ends, however it ends."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from assay.core.errors import RecordError, RunningAlready

# For another try where the last holder removes the file between our opening and our locking it.
PATIENCE_S, AGAIN_S = 0.1, 0.01
WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Hold the lock of a file while the block runs; the file is there, with the id of the process that holds
    it, only as long as somebody does, or was killed.

    Raises:
        RunningAlready: Another process holds it; it is not waited for.
        RecordError: The folder cannot be written, or its file system has no locks.
    """
    lock = FileLock(path, timeout=PATIENCE_S, poll_interval=AGAIN_S, fallback_to_soft=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        holder = ""
        with suppress(OSError):  # it may end, and remove the file, right now
            holder = path.read_text(errors="replace").strip()
        raise RunningAlready(
            "no other process on this run",
            found=f"process {holder or '?'}",
            where=str(path),
            fix="wait until it ends, or end it (kill PID): what it has finished is kept",
        ) from None
    except OSError as error:
        found = error.strerror or str(error)
        if error.errno in WITHOUT_LOCKS:
            fix = "keep .scratch/ on a file system with locks"
            raise RecordError("a file that can be locked", found=found, where=str(path), fix=fix) from None
        fix = "make the folder writable; nothing was changed"
        raise RecordError("a folder to write in", found=found, where=str(path.parent), fix=fix) from None
    try:
        path.write_text(f"{os.getpid()}\n")
        yield
    finally:
        path.unlink(missing_ok=True)  # while still held: who opened it before looks again
        lock.release()
