"""One plain tar whose bytes depend on nothing but the names and contents of its files, written as a stream.

Headers are put together here and not by `tarfile`, whose bytes for one and the same file changed between
releases of Python (cpython issues 18819 and 45863), while the digest of the tar is the identity of what it
holds.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import stat
import struct
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from assay.core.errors import PackageError
from assay.core.storage.files import ASIDE, aside, sync_folder

PIECE = 1 << 20
GZIP_LEVEL = 6

# From here to the end mark: the same text in core/storage/archive.py and package/verify.py, which can import
# nothing.
BLOCK = 512
RECORD = 20 * BLOCK  # a tar is padded with zeros to a multiple of this
DEPTH = 16  # folders and file name together
# What some system reads as more than a part of a name: a drive, a stream, a wildcard, a device, a name cut
# short.
_SPECIAL = re.compile(
    r'[<>:"|?*\\]|(^|/)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|/|$)|[. ](/|$)', re.IGNORECASE
)
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def header(name: str, size: int) -> bytes:
    """Return the 512 bytes of ustar that precede a file: owner 0, mode 644, time 0; none if name or size do
    not fit."""
    raw = name.encode("utf-8", "surrogateescape")
    cuts = (
        [-1]
        if len(raw) <= 100
        else [n for n, sign in enumerate(raw) if sign == 0x2F and n <= 155 and len(raw) - n <= 101]
    )
    if not cuts or not 0 <= size < 8**11:
        return b""
    first, rest = raw[: max(0, cuts[0])], raw[cuts[0] + 1 :]
    numbers = b"%07o\0%07o\0%07o\0%011o\0%011o\0" % (0o644, 0, 0, size, 0)
    block = struct.pack(
        "100s48s8s1s100s8s80s155s12x", rest, numbers, b" " * 8, b"0", b"", b"ustar\x0000", b"", first
    )
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def objection(name: str) -> str:
    """Return why a relative path may not be a member's name, or nothing: it must mean the same one file on
    every system."""
    parts = name.split("/")
    if not name or name.startswith("/"):
        return "an absolute path" if name else "an empty name"
    if ".." in parts or "." in parts or "" in parts or name == "-":
        return "a path that climbs" if ".." in parts else "a path with an empty or meaningless part"
    if {unicodedata.category(sign) for sign in name} & _INVISIBLE:
        return "control or invisible characters in the name"
    if _SPECIAL.search(name):
        return "a backslash in the name" if "\\" in name else "a name that other systems read differently"
    if any(part.startswith(".") for part in parts):
        return "a hidden name, which people and tools (git, signing, digests of models) pass over"
    return f"a path of more than {DEPTH} parts" if len(parts) > DEPTH else ""


class Names:
    """The names of one archive so far: no two may be one for a system that ignores case or Unicode
    normalisation."""

    def __init__(self) -> None:
        """Begin with none."""
        self._paths: dict[
            str, str
        ] = {}  # folded path, a slash behind it if it is a folder → as it was spelled

    def add(self, name: str) -> str:
        """Take up a name; return why it may not be there, or nothing."""
        reason = objection(name)
        if reason:
            return reason
        ends = [n for n, sign in enumerate(name) if sign == "/"]
        for path in [name[: end + 1] for end in ends] + [name]:
            folded = unicodedata.normalize("NFD", unicodedata.normalize("NFD", path).casefold())
            other = folded[:-1] if folded.endswith("/") else folded + "/"
            if other in self._paths:
                return "a name that is a file and a folder at once"
            if folded in self._paths and (path == name or self._paths[folded] != path):
                same = self._paths[folded] == path
                return (
                    "the same name twice"
                    if same
                    else "a name that differs from another in case or normalisation only"
                )
            self._paths[folded] = path
        return ""


# The end of what is the same in both.


def write_tar(path: Path, members: Mapping[str, bytes | Path], *, root: str) -> str:
    """Write an uncompressed tar of regular files, whole or not at all, never holding a file in memory.

    Args:
        path: The archive; one that is there already is replaced once the new one is complete.
        members: Relative POSIX path → content, or the regular file that has it.
        root: Folder that all members lie in.

    Returns:
        The sha256 of the archive.

    Raises:
        PackageError: A name is not one that means the same file everywhere, or a source is no regular file,
            too large, or changes while it is read.
        OSError: The disk is full or a file unreadable; the old archive is as it was.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.tar"
    >>> write_tar(path, {"a": b"1"}, root="r") == hashlib.sha256(path.read_bytes()).hexdigest()
    True
    """
    check_names(members, root=root)
    digest, length = hashlib.sha256(), 0
    with _published(path) as stream:
        for name in sorted(members):
            for piece in _member(f"{root}/{name}", members[name]):
                digest.update(piece)
                stream.write(piece)
                length += len(piece)
        end = bytes(2 * BLOCK + -(length + 2 * BLOCK) % RECORD)
        digest.update(end)
        stream.write(end)
    return digest.hexdigest()


def write_gz(path: Path, tar: Path) -> None:
    """Write the gzip of a file, whole or not at all: no time, no name, one level. Other versions of zlib give
    other bytes.

    Raises:
        OSError: The tar cannot be read or the disk is full; an old archive is as it was.
    """
    with (
        tar.open("rb") as source,
        _published(path) as stream,
        gzip.GzipFile("", "wb", compresslevel=GZIP_LEVEL, fileobj=stream, mtime=0) as packed,
    ):
        while piece := source.read(PIECE):
            packed.write(piece)


def check_names(names: Mapping[str, object], *, root: str) -> None:
    """Refuse names that cannot lie together in an archive.

    Raises:
        PackageError: Names the first in order that cannot, and why.
    """
    taken = Names()
    for name in sorted(names):
        reason = taken.add(name) or (
            "" if header(f"{root}/{name}", 0) else "a path too long for a tar (255 bytes)"
        )
        if reason:
            fix = "rename the file: plain relative names, each unlike the others"
            expected = "a name that means the same file on every system"
            raise PackageError(expected, found=f"{name!a}: {reason}", where="the package", fix=fix)


def open_plain(path: Path) -> BinaryIO:
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
        raise PackageError(
            "a regular file", found="nothing", where=str(path), fix="run the stage that writes it"
        ) from None


def _member(name: str, content: bytes | Path) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield header(name, len(content)) + content + bytes(-len(content) % BLOCK)
        return
    with open_plain(content) as source:
        before = os.fstat(source.fileno())
        if not stat.S_ISREG(before.st_mode):
            raise PackageError(
                "a regular file", found="something else", where=str(content), fix="leave the files alone"
            )
        block = header(name, before.st_size)
        if not block:
            fix = "split the file, or package a smaller adapter"
            raise PackageError(
                "a file below 8 GiB", found=f"{before.st_size} bytes", where=str(content), fix=fix
            )
        yield block
        left = before.st_size
        while piece := source.read(PIECE):
            left -= len(piece)
            if left < 0:
                break
            yield piece
        after = os.fstat(source.fileno())
        if left or (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            found, fix = (
                "one that changed while it was read",
                "let whatever writes it finish, then package again",
            )
            raise PackageError("a file that stays as it is", found=found, where=str(content), fix=fix)
        yield bytes(-before.st_size % BLOCK)


@contextmanager
def _published(path: Path) -> Iterator[BinaryIO]:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=aside(path), suffix=ASIDE)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    sync_folder(path.parent)
