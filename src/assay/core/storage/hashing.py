"""What a file or a folder holds, as one digest: names and bytes, nothing of clocks, owners or what Python
leaves behind."""

from __future__ import annotations

import hashlib
from pathlib import Path

from assay.core.errors import RecordError

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
