"""One plain tar whose bytes depend on nothing but the files in it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import PurePosixPath

from assay.errors import PackageError


def tar_bytes(members: Mapping[str, bytes], *, root: str) -> bytes:
    """Return an uncompressed tar of regular files: sorted names, fixed owner, mode and time.

    Args:
        members: Relative POSIX path → content.
        root: Folder that all members lie in.

    Raises:
        PackageError: A name is absolute, climbs, or collides with another but for case.

    >>> tar_bytes({"a": b"1"}, root="r") == tar_bytes({"a": b"1"}, root="r")
    True
    """
    folded: dict[str, str] = {}
    for name in members:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or not name:
            raise PackageError("a plain relative name", found=repr(name), where="the package", fix="rename the file")
        if folded.setdefault(name.lower(), name) != name:
            raise PackageError("names that differ in more than case", found=repr(name), where="the package", fix="rename")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(members):
            entry = tarfile.TarInfo(f"{root}/{name}")
            entry.size, entry.mode, entry.mtime = len(members[name]), 0o644, 0
            archive.addfile(entry, io.BytesIO(members[name]))
    return buffer.getvalue()
