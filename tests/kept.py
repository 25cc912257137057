"""What is made once for all processes of a test session, and copied by who wants one to change."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

# Where; None outside of a test session of this tree, in which everything is made anew. Set by conftest.py.
FOLDER: Path | None = None


def kept(name: str, make: Callable[[Path], object]) -> Path | None:
    """Return the folder of this name, which nobody may write in; the first who asks makes it, others wait."""
    if FOLDER is None:
        return None
    whole = FOLDER / name
    with FileLock(FOLDER / f"{name}.lock"):
        if not whole.exists():
            begun = FOLDER / f"{name} (begun)"
            shutil.rmtree(begun, ignore_errors=True)  # of one that failed
            make(begun)
            begun.rename(whole)
    return whole
