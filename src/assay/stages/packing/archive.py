"""The archive of a package: a plain tar whose bytes depend on names and contents alone, its lists, and back.

Headers are those of `tarfile` (ustar) with no owner and no clock. The identity of a package does not depend
on them: it is the sha256 of SHA256SUMS, which lists every other file.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import shutil
import stat
import tarfile
import tempfile
import unicodedata
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from assay.core.errors import PackageError
from assay.core.storage.files import ASIDE, aside, sha256_bytes, written_whole
from assay.rollout.dataset.verified import sums_text
from assay.stages.packing.layout import NAME, SUMS
from assay.stages.packing.verify import AGAIN, PIECE, Result, check, header, objection

GZIP_LEVEL = 6
DEPTH = 16  # folders and file name together
# What some system reads as more than a part of a name: a drive, a stream, a wildcard, a device, a cut end.
_SPECIAL = re.compile(
    r'[<>:"|?*\\]|(^|/)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|/|$)|[. ](/|$)', re.IGNORECASE
)


def sha256_of(content: bytes | Path) -> str:
    """Return the sha256 of a content, a file in pieces.

    Raises:
        PackageError: The file is missing, a link, or no regular file.
    """
    if isinstance(content, bytes):
        return sha256_bytes(content)
    with open_plain(content) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sealed(members: Mapping[str, bytes | Path]) -> dict[str, bytes | Path]:
    """Return the members together with SHA256SUMS over them.

    Args:
        members: Relative POSIX path → content, or the regular file that has it.

    Raises:
        PackageError: One is named like the list itself, or cannot be read.

    >>> sorted(sealed({"a.txt": b"1"}))
    ['SHA256SUMS', 'a.txt']
    """
    if SUMS in members:
        fix = "leave it out; it is written last, over everything else"
        raise PackageError(f"no {SUMS} among the files", found="one", where="the package", fix=fix)
    return {**members, SUMS: sums_text({name: sha256_of(members[name]) for name in members}).encode()}


def write_tar(path: Path, members: Mapping[str, bytes | Path], *, root: str = NAME) -> str:
    """Write an uncompressed tar of regular files, whole or not at all, never holding a file in memory.

    Args:
        path: The archive; one that is there already is replaced once the new one is complete.
        members: Relative POSIX path → content, or the regular file that has it.
        root: Folder that all members lie in.

    Returns:
        The identity of the package: the sha256 of SHA256SUMS, of nothing where there is none.

    Raises:
        PackageError: A name is not one that means the same file everywhere, or a source is no regular file,
            too large, or changes while it is read.
        RecordError: The folder cannot be written.
        OSError: The disk is full or a file unreadable; the old archive is as it was.
    """
    check_names(members, root=root)
    with (
        written_whole(path) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT, encoding="utf-8") as tar,
    ):
        for name in sorted(members):
            _add(tar, f"{root}/{name}", members[name])
    return sha256_of(members.get(SUMS, b""))


def write_gz(path: Path, tar: Path) -> None:
    """Write the gzip of a file, whole or not at all: no time, no name, one level. Other versions of zlib give
    other bytes.

    Raises:
        OSError: The tar cannot be read or the disk is full; an old archive is as it was.
    """
    with (
        tar.open("rb") as source,
        written_whole(path) as stream,
        gzip.GzipFile("", "wb", compresslevel=GZIP_LEVEL, fileobj=stream, mtime=0) as packed,
    ):
        shutil.copyfileobj(source, packed, PIECE)


def unpack(path: Path, folder: Path, *, sha256: str | None = None) -> Result:
    """Write the files of an archive that passes every check into a folder that is new or empty, all or none.

    Args:
        path: The archive.
        folder: To write.
        sha256: The identity it has to have, if known.

    Raises:
        PackageError: The archive failed a check, or the folder is not empty.
        OSError: Something cannot be read or written; nothing is left there either.
    """
    if path.is_dir():
        raise PackageError("an archive", found="a folder", where=str(path), fix="check it where it lies")
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        fix = "name another folder"
        raise PackageError("a new or empty folder", found="something there", where=str(folder), fix=fix)
    result = _passed(check(path, sha256=sha256), path)
    check_names(result.files, root=NAME)
    scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=aside(folder), suffix=ASIDE))
    try:
        with tarfile.open(path, encoding="utf-8", errors="surrogateescape") as tar:
            known = {f"{NAME}/{name}" for name in result.files}
            members = [each for each in tar if each.isreg() and each.name in known]
            # Python 3.11.2, which Debian 12 has, knows no filter; names and kinds have been looked at either
            # way.
            safer: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            tar.extractall(scratch, members, **safer)
        _passed(check(scratch / NAME, sha256=result.sha256), path)  # it may have been exchanged meanwhile
        os.replace(scratch / NAME, folder)
    except (tarfile.TarError, EOFError, zlib.error) as error:  # passed, so something else lies there by now
        found = f"another since it was checked ({' '.join(str(error).split())[:100]})"
        expected = "an archive that stays as it is"
        raise PackageError(expected, found=found, where=str(path), fix=AGAIN) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return result


def _passed(result: Result, path: Path) -> Result:
    failed = "; ".join(f"{each.name}: {each.text}" for each in result.findings if each.ok is False)
    if failed:
        raise PackageError("a package that passes every check", found=failed, where=str(path), fix=AGAIN)
    return result


def check_names(names: Iterable[str], *, root: str = NAME) -> None:
    """Refuse names that cannot lie together in an archive: each has to mean the same one file on every
    system.

    Raises:
        PackageError: Names the first in order that cannot, and why.
    """
    taken: dict[str, str] = {}  # folded path, a slash behind that of a folder → as it was spelled
    for name in sorted(names):
        if reason := _objection(name, root) or _clash(name, taken):
            fix = "rename the file: plain relative names, each unlike the others"
            expected = "a name that means the same file on every system"
            raise PackageError(expected, found=f"{name!a}: {reason}", where="the package", fix=fix)


def _objection(name: str, root: str) -> str:
    if reason := objection(name):
        return reason
    if _SPECIAL.search(name) or name == "-":
        return "a name that other systems read differently"
    if header(f"{root}/{name}", 0) is None:
        return "a path too long for a tar (255 bytes)"
    return f"a path of more than {DEPTH} parts" if name.count("/") >= DEPTH else ""


def _clash(name: str, taken: dict[str, str]) -> str:
    """Take up a name; return why it may not lie beside the others, or nothing."""
    for end in [n + 1 for n, sign in enumerate(name) if sign == "/"] + [len(name)]:
        path = name[:end]
        folded = unicodedata.normalize("NFD", unicodedata.normalize("NFD", path).casefold())
        if (folded[:-1] if folded.endswith("/") else folded + "/") in taken:
            return "a name that is a file and a folder at once"
        if taken.setdefault(folded, path) != path:
            return "a name that differs from another in case or normalisation only"
    return ""


def open_plain(path: Path) -> io.BufferedReader:
    """Open a regular file for reading; never a link, and never a pipe, which would keep the reader waiting.

    Raises:
        PackageError: There is no such file, or it is something else.
    """
    try:
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "no regular file"
            fix = (
                "put the file itself there (linked by DVC: dvc config cache.type copy; dvc checkout --relink)"
            )
            raise PackageError("a regular file", found=kind, where=str(path), fix=fix)
        return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except FileNotFoundError:
        fix = "run the stage that writes it"
        raise PackageError("a regular file", found="nothing", where=str(path), fix=fix) from None


def _add(tar: tarfile.TarFile, name: str, content: bytes | Path) -> None:
    entry = tarfile.TarInfo(name)
    if isinstance(content, bytes):
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
        return
    with open_plain(content) as source:
        before = os.fstat(source.fileno())
        entry.size = before.st_size
        if header(name, entry.size) is None:
            found, fix = f"{entry.size} bytes", "split the file, or package a smaller adapter"
            raise PackageError("a file below 8 GiB", found=found, where=str(content), fix=fix)
        try:
            tar.addfile(entry, source)
            short = False
        except OSError as error:
            short = error.errno is None  # what `tarfile` raises where a file ends too early
            if not short:
                raise
        after = os.fstat(source.fileno())
        if short or (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            found, fix = (
                "one that changed while it was read",
                "let whatever writes it finish, then package again",
            )
            raise PackageError("a file that stays as it is", found=found, where=str(content), fix=fix)
