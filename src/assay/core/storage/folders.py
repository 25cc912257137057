"""Whole folders of files on disk, complete or not there at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from assay.core.errors import RecordError
from assay.core.storage.files import ASIDE, aside, sync_folder, write_bytes


def write_folder(path: Path, files: Mapping[str, bytes], *, check: Callable[[Path], None]) -> None:
    """Write a folder under another name, check it there, then give it its name; a crash leaves it whole or
    not there.

    Args:
        path: The folder; one that is there already is replaced.
        files: Relative POSIX name → content.
        check: Called with the folder under its temporary name; what it raises stops everything.

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
        if path.exists():
            os.rename(path, temporary / "old")
        os.rename(fresh, path)
        sync_folder(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
