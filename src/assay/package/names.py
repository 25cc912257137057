"""Which files of a run go into its package, and what they are called there: names are those of the
project."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from assay.core.errors import PackageError

# What is made for the package; everything else lies in the project already, so an unpacked package is a
# project.
MANIFEST, SUMS, CARD, PROVENANCE, PARITY, VERIFIER, LOCK = (
    "manifest.json",
    "SHA256SUMS",
    "README.md",
    "provenance.json",
    "parity.json",
    "verify.py",
    "dvc.lock",
)
NAME = "assay-package"
# Where a pretrained base lies on this machine; base.json has its revision and digest, and that is what
# travels.
POINTER = "pointer.json"
# What Python and the desktop leave beside files; .dvcignore keeps the same from every digest of a folder.
_LITTER = frozenset(
    {"__pycache__", ".DS_Store", ".ipynb_checkpoints", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
)


def files_of(root: Path, entries: Iterable[str], *, fix: str) -> Iterator[tuple[str, Path]]:
    """Yield the name and path of every file that the entries name, folders with all they hold.

    Args:
        root: Folder of the run.
        entries: Relative POSIX paths of files and folders.
        fix: What to type where one is missing.

    Raises:
        PackageError: An entry is missing, or a link.
    """
    for entry in entries:
        top = root / entry
        if top.is_symlink() or not top.exists():
            found = "a link" if top.is_symlink() else "nothing"
            raise PackageError("a file or folder of the run", found=found, where=entry, fix=fix)
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            name = path.relative_to(root)
            if path.name == POINTER or path.suffix == ".pyc" or _LITTER & set(name.parts):
                continue
            if path.is_symlink():
                raise PackageError(
                    "files, no links", found="a link", where=name.as_posix(), fix="put the file in its place"
                )
            if path.is_file():
                yield name.as_posix(), path
