"""Check an assay package with Python 3.9 or newer and nothing else: python3 verify.py assay-package.tar

Also of a .tar.gz, and of an unpacked folder (without an argument: the folder this file lies in). It says
whether the files are those that SHA256SUMS lists, and no others; nothing is unpacked or run, and whether the
numbers in them are right is what `assay verify` answers. A verify.py that came inside an archive can be
trusted as far as that archive: take it from the project, or compare the identity of the package, which is the
sha256 of its SHA256SUMS, with the published one (--sha256) and use `sha256sum -c SHA256SUMS`.
"""

# ruff: noqa: UP045 (Python 3.9 has no X | None)
import sys

if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]  # its own folder: a json.py that came with a package must not be run

import argparse
import hashlib
import os
import pathlib
import re
import stat
import tarfile
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple, Optional, Union, cast

ROOT, SUMS, PROVENANCE, OLD_LIST = "assay-package", "SHA256SUMS", "provenance.json", "manifest.json"
FORMAT = "assay-package/7"
OTHER_FORMAT = "Check it with the version that wrote it"
AGAIN = "get the package again from where it was published"
PIECE, BLOCK = 1 << 20, tarfile.BLOCKSIZE
GZIP = b"\x1f\x8b\x08\0"  # how one begins that has neither name nor comment, nor anything else to read
MOST_FILES, MOST_BYTES, LONGEST_LIST, SHOWN = 20_000, 8 << 30, 16_000_000, 5  # SHOWN: names in a check
Path = Union[str, "os.PathLike[str]"]
Members = Iterator[tuple[str, int, BinaryIO]]  # name, size in bytes, and where the content is read from


class NotAPackage(Exception):
    """What may not be read as a package: says where, what was expected and found there, and what to do."""

    def __init__(self, where: str, expected: str, found: str, fix: str = AGAIN) -> None:
        super().__init__(f"{where}: expected {expected}, found {found}. Fix: {fix}")


class FileCheck(NamedTuple):
    """One check: its name, whether it passed (None: there was nothing to compare with), and what was seen."""

    name: str
    ok: Optional[bool]
    text: str


class Result(NamedTuple):
    """All checks, the identity of the package (sha256 of its SHA256SUMS), and the sha256 of each file."""

    findings: list[FileCheck]
    sha256: Optional[str]
    files: dict[str, str]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(finding.ok is not False for finding in self.findings)


def shown(text: str) -> str:
    """Return a text, cut to 200 signs, with every sign escaped that is not plainly visible."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text[:200])


def header(name: str, size: int) -> Optional[bytes]:
    """Return the 512 bytes of ustar before a file: no owner, mode 644, time 0; None if one does not fit."""
    entry = tarfile.TarInfo(name)
    entry.size = size
    try:
        return entry.tobuf(tarfile.USTAR_FORMAT, "utf-8", "surrogateescape")
    except ValueError:
        return None


def objection(name: str) -> str:
    """Return why a path may not be a member's name, or nothing: it has to be plain, relative and visible."""
    if not name.isprintable() or "\\" in name or ":" in name:
        return "control or invisible characters, or a backslash or colon, in the name"
    if not all(part and part[0] != "." for part in name.split("/")):
        return "an absolute, climbing or hidden name, or one with an empty part"
    return "" if header(f"{ROOT}/{name}", 0) else "a path too long for a tar (255 bytes)"


def check(
    path: Path, *, sha256: Optional[str] = None, allow: Sequence[str] = (), most: int = MOST_BYTES
) -> Result:
    """Check a .tar, a .tar.gz or an unpacked folder; nothing is written.

    `sha256` is the published identity, `allow` names what is left out directly in a folder, such as
    .gitattributes, and `most` is how many bytes are read. Raises OSError.
    """
    place, lists = os.fspath(path), dict[str, bytes]()
    try:
        found = _read_folder(place, allow) if os.path.isdir(place) else _read_archive(place)
        files, total = _measure(found, lists, most)
    except (NotAPackage, RecursionError) as error:  # the latter by a folder deeper than any package
        return Result([FileCheck("form", False, str(error))], None, {})
    left_out = sorted(name.rstrip("/") for name in allow if os.path.lexists(os.path.join(place, name)))
    but = f"; left out as allowed: {', '.join(map(shown, left_out))}" if left_out else ""
    form = FileCheck("form", True, f"{len(files)} regular files, {total} bytes{but}")
    if SUMS not in files:
        return Result([form, FileCheck(SUMS, False, f"there is no {SUMS}, so this is no package")], None, {})
    pages = lists.get(PROVENANCE, b"") + lists.get(OLD_LIST, b"")
    told = re.findall(rb'"format":"(assay-package/[0-9]{1,6})"', pages)
    formats = " and ".join(sorted({each.decode() for each in told})) or "none"
    other = "" if formats == FORMAT else f", and this reads {FORMAT}. {OTHER_FORMAT}"
    same = None if sha256 is None else files.get(SUMS) == sha256.lower()
    as_given = {None: "; none was given to compare it with", True: ", as given", False: f", not {sha256}"}
    digest = f"the sha256 of the package, that of its {SUMS}, is {files.get(SUMS)}{as_given[same]}"
    checks = [form, FileCheck("format", not other, f"says {formats}{other}")]
    checks += [FileCheck("digest", same, digest), _check_sums(files, lists)]
    return Result(checks, files.get(SUMS), files)


def _check_sums(files: dict[str, str], lists: dict[str, bytes]) -> FileCheck:
    if not lists[SUMS]:
        return FileCheck(SUMS, False, f"{SUMS} is empty, or longer than any of a package")
    others = files.keys() - {SUMS}
    right = "".join(f"{files[name]}  {name}\n" for name in sorted(others))
    if lists[SUMS] == right.encode("utf-8", "surrogateescape"):
        return FileCheck(SUMS, True, f"lists exactly the {len(others)} other files, each as it is")
    lines = re.findall(r"(?m)^([0-9a-f]{64})  ([^\n]+)$", lists[SUMS].decode("utf-8", "surrogateescape"))
    listed = {name: digest for digest, name in lines}
    faults = [f"listed and not there: {shown(name)}" for name in listed if name not in others]
    faults += [f"there and not listed: {shown(name)}" for name in sorted(others - listed.keys())]
    changed = sorted(name for name in others & listed.keys() if listed[name] != files[name])
    faults += [
        f"changed: {shown(name)} (listed {listed[name]:.12}, is {files[name]:.12})" for name in changed
    ]
    faults = faults or ["the right files in another form: order, a line twice, or something more in it"]
    more = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
    return FileCheck(SUMS, False, "; ".join(faults[:SHOWN]) + more)


def _open(path: str) -> BinaryIO:
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    stream = os.fdopen(os.open(path, flags), "rb")
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise NotAPackage(shown(path), "a regular file", "something else")
    return stream


def _measure(members: Members, lists: dict[str, bytes], most: int) -> tuple[dict[str, str], int]:
    """Return the sha256 of each file and the bytes of all; keep the lists among them."""
    files, folded, total = dict[str, str](), dict[str, str](), 0
    for name, size, stream in members:
        total += size
        key = unicodedata.normalize("NFD", name.casefold())
        taken = any(key[:n] in folded for n, sign in enumerate(f"{key}/") if sign == "/")
        if reason := objection(name) or ("one name twice, but for case, or as a folder too" if taken else ""):
            raise NotAPackage(shown(name), "a name that means the same file on every system", reason)
        if total > most or len(files) == MOST_FILES:
            fix = "raise --max-total if you trust where it comes from"
            raise NotAPackage(shown(name), f"at most {MOST_FILES} files, {most} bytes", "more", fix)
        digest, left, kept = hashlib.sha256(), size, []
        while left:
            piece = stream.read(min(left, PIECE))
            if not piece:
                raise NotAPackage(shown(name), f"{size} bytes", f"an end after {size - left}")
            digest.update(piece)
            left -= len(piece)
            if name in (SUMS, PROVENANCE, OLD_LIST) and size <= LONGEST_LIST:
                kept.append(piece)
        files[name], lists[name], folded[key] = digest.hexdigest(), b"".join(kept), name
    return files, total


class _Unzipped:
    """What a gzip holds, which has one part and nothing behind it."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw, self._packed = raw, zlib.decompressobj(31)

    def read(self, size: int) -> bytes:
        """Return the next bytes, fewer at the end alone. Raises EOFError, zlib.error and NotAPackage."""
        found, missing = list[bytes](), size
        while missing and not self._packed.eof:
            piece = self._packed.unconsumed_tail or self._raw.read(PIECE)
            if not piece:
                raise EOFError("the gzip ends early")
            found.append(self._packed.decompress(piece, missing))
            missing -= len(found[-1])
        if self._packed.eof and (self._packed.unused_data or self._raw.read(1)):
            raise NotAPackage("the gzip's end", "nothing behind it", "something")
        return b"".join(found)


def _read_archive(path: str) -> Members:
    """Yield each member of a tar, or of its gzip: plain files in order, each with the one right header."""
    with _open(path) as raw:
        start = raw.read(len(GZIP))
        raw.seek(0)
        if start[:2] == GZIP[:2] and start != GZIP:
            raise NotAPackage("the gzip", "one without name and comment, as gzip -n writes", "another")
        stream = cast(BinaryIO, _Unzipped(raw)) if start == GZIP else raw
        before, length = "", 0
        try:
            while (block := stream.read(BLOCK)) != bytes(BLOCK) or not before:
                entry = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
                folder, _, name = entry.name.partition("/")
                if block != header(entry.name, entry.size) or folder != ROOT or entry.name <= before:
                    expected = f"regular files in {ROOT}, in order, with headers as assay writes them"
                    raise NotAPackage(shown(entry.name), expected, f"type {entry.type!a} behind {before!a}")
                yield name, entry.size, stream
                padding, before = -entry.size % BLOCK, entry.name
                if stream.read(padding) != bytes(padding):
                    raise NotAPackage(shown(name), "zeros to the end of its last block", "something else")
                length += BLOCK + entry.size + padding
            rest = BLOCK + -(length + 2 * BLOCK) % tarfile.RECORDSIZE
            if stream.read(rest + 1) != bytes(rest):
                raise NotAPackage("the archive's end", "zeros, and nothing behind", "something else")
        except (tarfile.HeaderError, EOFError, zlib.error) as error:
            raise NotAPackage("the archive", "a sound tar, or a gzip of one", shown(str(error))) from None


def _read_folder(folder: str, allow: Sequence[str]) -> Members:
    """Yield each file of an unpacked package; no link is followed, and nothing but files may be there."""
    top, names, faults = pathlib.Path(folder), list[str](), list[str]()
    allowed = {name.rstrip("/") for name in allow}
    for number, path in enumerate(top.rglob("*")):
        if number == 2 * MOST_FILES:
            raise NotAPackage("the folder", f"at most {MOST_FILES} files", "far more")
        name, mode = path.relative_to(top).as_posix(), path.lstat().st_mode
        if name.split("/")[0] in allowed:
            continue
        if stat.S_ISREG(mode):
            names.append(name)
        elif not stat.S_ISDIR(mode) or not any(path.iterdir()):
            kind = "an empty folder" if stat.S_ISDIR(mode) else "a link, a pipe or something stranger"
            faults.append(f"{shown(name)} ({kind})")
    faults += [f"{shown(name)} ({why})" for name in names if (why := objection(name))]
    if faults:
        fix = "remove them, or leave out what a hub or tool put there: --allow NAME"
        raise NotAPackage("the folder", "a package's files alone", "; ".join(sorted(faults)[:SHOWN]), fix)
    for name in sorted(names):
        with _open(os.path.join(folder, name)) as stream:
            yield name, os.fstat(stream.fileno()).st_size, stream
            if stream.read(1):
                raise NotAPackage(shown(name), "a file that stays as it is", "one that grows")


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Write one line a check; return 0 if none failed, 1 if one did; 2 is for a call that makes no sense."""
    parser = argparse.ArgumentParser("verify.py", description="Check the files of an assay package.")
    parser.add_argument("package", nargs="?", help="tar, gzip or folder; without: where verify.py lies")
    parser.add_argument("--sha256", metavar="HEX", help="of the package's SHA256SUMS, as it was published")
    parser.add_argument("--allow", metavar="NAME", action="append", default=[], help="leave out of a folder")
    parser.add_argument("--max-total", metavar="BYTES", type=int, default=MOST_BYTES, help="of all files")
    given = parser.parse_args(argv)
    path = given.package or os.path.dirname(os.path.abspath(__file__))
    if not re.fullmatch("([0-9a-fA-F]{64})?", given.sha256 or "") or not os.path.exists(path):
        parser.error(f"--sha256 takes 64 hexadecimal digits, and {shown(path)} has to be there")
    try:
        result = check(path, sha256=given.sha256, allow=given.allow, most=given.max_total)
    except OSError as error:
        result = Result([FileCheck("form", False, shown(str(error)))], None, {})
    words = {True: "ok  ", False: "FAIL", None: "--  "}
    lines = [f"{words[each.ok]} {each.name}: {each.text}\n" for each in result.findings]
    lines += ["the files are what the package lists\n" if result.ok else "NOT to be trusted: see FAIL\n"]
    encoding = sys.stdout.encoding or "ascii"
    sys.stdout.write("".join(lines).encode(encoding, "backslashreplace").decode(encoding))
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main())
