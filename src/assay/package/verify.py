"""Check an assay package with Python 3.9 or newer and nothing else: python3 verify.py assay-package.tar

Also of a .tar.gz, and of an unpacked folder (without an argument: the folder this file lies in). It says
whether every file is there, is what the package's own lists say, and nothing else is there; nothing is
unpacked or run. Whether the numbers in the files are right is another question, which `assay verify` answers.

A verify.py that came inside an archive can be trusted as far as that archive. Take it from the project
instead, or compare the archive's sha256 with the published one (--sha256) and use `sha256sum -c SHA256SUMS`.
"""

# ruff: noqa: UP045 (Python 3.9 has no X | None)

import sys

if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[
        0
    ]  # this file's folder: a json.py that came with a package must not run in place of the library's

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import struct
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, NamedTuple, NoReturn, Optional, Union

ROOT, MANIFEST, SUMS, VERIFIER = "assay-package", "manifest.json", "SHA256SUMS", "verify.py"
VERIFIER_SOURCE = "src/assay/package/verify.py"
FORMAT = "assay-package/3"
OTHER_FORMAT = (
    "Check it with the version that wrote it: its source lies in the package under src/assay, and its"
    " provenance.json names the commit of the project to check out"
)
PIECE = 1 << 20
LONGEST_LIST = 16_000_000  # bytes of manifest.json or SHA256SUMS
SHOWN = 5  # names a finding lists before it only counts

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


class Limits(NamedTuple):
    """What a package may be at most, in bytes and files; whoever trusts a larger one raises it."""

    members: int = 20_000
    file: int = 4 << 30
    total: int = 8 << 30
    ratio: int = 200  # bytes out of a gzip for each byte in
    free: int = 64 << 20  # bytes out of a gzip before the ratio counts


LIMITS = Limits()


class Refused(Exception):
    """What is no package that may be read: what was expected, what was found, where, and what to do."""

    def __init__(self, expected: str, *, found: str, where: str, fix: str) -> None:
        """Keep the four; the message holds all of them, with nothing in it that could steer a terminal."""
        self.expected, self.found, self.where, self.fix = expected, found, where, fix
        super().__init__(f"{where}: expected {expected}, found {found}. Fix: {fix}")


class Entry(NamedTuple):
    """One file as it was found: sha256 and bytes."""

    sha256: str
    size: int


class Finding(NamedTuple):
    """One check: its name, whether it passed (None: there was nothing to compare with), and what was seen."""

    name: str
    ok: Optional[bool]
    text: str


class Result(NamedTuple):
    """All checks, the sha256 of the tar (of a folder: of the tar it would make), and the files by name."""

    findings: list[Finding]
    sha256: Optional[str]
    files: dict[str, Entry]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(finding.ok is not False for finding in self.findings)


Path = Union[str, "os.PathLike[str]"]
AGAIN = "get the package again from where it was published"


def shown(text: str, longest: int = 200) -> str:
    """Return a text with every sign escaped that is not plainly visible, cut to a length."""
    plain = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text[:longest])
    return plain if len(text) <= longest else plain + "..."


def check(
    path: Path, *, sha256: Optional[str] = None, allow: Sequence[str] = (), limits: Limits = LIMITS
) -> Result:
    """Check a .tar, a .tar.gz or an unpacked folder; nothing is written.

    Args:
        path: The package.
        sha256: The digest of the tar as it was published, if known; a file `<name>.tar.sha256` beside it
            counts as well.
        allow: Files and folders directly in an unpacked folder that are left out, such as .gitattributes.
        limits: Where to stop reading.

    Raises:
        OSError: The package cannot be read.
    """
    return _check(os.fspath(path), sha256, allow, limits, None)


def unpack(path: Path, folder: Path, *, sha256: Optional[str] = None, limits: Limits = LIMITS) -> Result:
    """Check an archive while writing its files into a folder that is new or empty; what fails a check leaves
    nothing there.

    Raises:
        Refused: The archive failed a check, or the folder is not empty.
        OSError: Something cannot be read or written; nothing is left there either.
    """
    target = os.fspath(folder)
    if os.path.isdir(path):
        raise Refused("an archive", found="a folder", where=shown(str(path)), fix="check it where it lies")
    made = not os.path.lexists(target)
    if made:
        os.mkdir(target, 0o700)
    if os.path.islink(target) or not os.path.isdir(target) or os.listdir(target):
        raise Refused(
            "a new or empty folder", found="something there", where=shown(target), fix="name another folder"
        )
    try:
        result = _check(os.fspath(path), sha256, (), limits, target)
        failed = [finding for finding in result.findings if finding.ok is False]
        if failed:
            found = "; ".join(f"{finding.name}: {finding.text}" for finding in failed)
            raise Refused("a package that passes every check", found=found, where=shown(str(path)), fix=AGAIN)
        return result
    except BaseException:
        for name in os.listdir(target):
            inside = os.path.join(target, name)
            if os.path.isdir(inside) and not os.path.islink(inside):
                shutil.rmtree(inside, ignore_errors=True)
            else:
                os.unlink(inside)
        if made:
            os.rmdir(target)
        raise


def _check(
    path: str, sha256: Optional[str], allow: Sequence[str], limits: Limits, target: Optional[str]
) -> Result:
    pages: dict[str, bytes] = {}
    try:
        if os.path.isdir(path):
            files, digest, form = _read_folder(path, allow, limits, pages)
        else:
            files, digest, form = _read_archive(path, limits, pages, target)
    except Refused as refusal:
        return Result([Finding("form", False, str(refusal))], None, {})
    sums = "".join(f"{files[name].sha256}  {name}\n" for name in sorted(files) if name != SUMS)
    listed = {name: entry._asdict() for name, entry in files.items() if name not in (MANIFEST, SUMS)}
    manifest = (
        json.dumps(
            {"format": FORMAT, "files": listed}, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        + "\n"
    )
    findings = [
        form,
        _digest_finding(path, digest, sha256),
        _list_finding(SUMS, sums, rb"(?m)^(?P<sha>[0-9a-f]{64})  (?P<name>[^\n]{1,512})$", files, pages),
        _list_finding(
            MANIFEST,
            manifest,
            rb'"(?P<name>[^"\\]{1,512})":\{"sha256":"(?P<sha>[0-9a-f]{64})","size":(?P<size>[0-9]{1,20})\}',
            files,
            pages,
        ),
        _verifier_finding(files),
    ]
    return Result(findings, digest, files)


def _digest_finding(path: str, digest: str, sha256: Optional[str]) -> Finding:
    told = {} if sha256 is None else {"as given": sha256.lower()}
    name = os.path.basename(path)
    name = name[:-3] if name.endswith(".gz") else name
    beside = os.path.join(os.path.dirname(path), name + ".sha256")
    if not os.path.isdir(path) and os.path.lexists(beside):
        try:
            with _open(beside) as stream:
                found = re.fullmatch(rb"([0-9a-f]{64}) [ *]([^\n]+)\n?", stream.read(1024))
        except Refused as refusal:
            return Finding("digest", False, str(refusal))
        if found is None or found.group(2) != os.fsencode(name):
            return Finding(
                "digest", False, f"{shown(name)}.sha256 beside it is not '<sha256>  {shown(name)}'"
            )
        told[f"in {shown(name)}.sha256"] = found.group(1).decode()
    wrong = [f"{value} {source}" for source, value in told.items() if value != digest]
    if wrong:
        return Finding(
            "digest", False, f"the tar's sha256 is {digest}, not {shown(', nor '.join(wrong), 400)}"
        )
    if not told:
        return Finding("digest", None, f"the tar's sha256 is {digest}; none was given to compare it with")
    return Finding("digest", True, f"the tar's sha256 is {digest}, {' and '.join(told)}")


def _list_finding(
    page: str, expected: str, pattern: bytes, files: dict[str, Entry], pages: dict[str, bytes]
) -> Finding:
    """Compare a list with what it has to be, byte for byte; only if it is not, read in it what is wrong."""
    if page not in files:
        return Finding(page, False, f"there is no {page}")
    raw = expected.encode("utf-8", "surrogateescape")
    left_out = {SUMS} if page == SUMS else {SUMS, MANIFEST}
    if files[page].sha256 == hashlib.sha256(raw).hexdigest():
        return Finding(
            page, True, f"lists exactly the {len(set(files) - left_out)} other files, each as it is"
        )
    if page not in pages:
        return Finding(page, False, f"{files[page].size} bytes, longer than any list of a package")
    other = re.search(rb'"format":"(assay-package/[0-9]{1,6})"', pages[page])
    if other is not None and other.group(1).decode() != FORMAT:
        return Finding(
            page, False, f"says {other.group(1).decode()}, and this reads {FORMAT}. {OTHER_FORMAT}"
        )
    faults: list[str] = []
    listed = set()
    for found in re.finditer(pattern, pages[page]):
        name, sha = found["name"].decode("utf-8", "surrogateescape"), found["sha"].decode()
        size = int(found["size"]) if "size" in found.groupdict() else None
        if name in listed:
            faults.append(f"listed twice: {shown(name)}")
        elif name not in files or name in left_out:
            faults.append(
                f"listed and not there: {shown(name)}" if name not in files else f"has no place in it: {name}"
            )
        elif files[name].sha256 != sha or size not in (None, files[name].size):
            listed_as, is_now = _brief(sha, size), _brief(files[name].sha256, files[name].size)
            faults.append(f"changed: {shown(name)} (listed as {listed_as}; is {is_now})")
        listed.add(name)
    faults += [f"there and not listed: {shown(name)}" for name in sorted(set(files) - left_out - listed)]
    if not faults:
        faults = [
            f"lists the right files, but not in the form {FORMAT} has: order, spaces, or something more in it"
        ]
    return Finding(page, False, _some(faults))


def _verifier_finding(files: dict[str, Entry]) -> Finding:
    if VERIFIER not in files:
        return Finding(VERIFIER, False, f"there is no {VERIFIER}")
    inside = files[VERIFIER]
    if files.get(VERIFIER_SOURCE, inside).sha256 != inside.sha256:
        return Finding(VERIFIER, False, f"is not the same as {VERIFIER_SOURCE}")
    try:
        with _open(__file__) as stream:
            running = hashlib.sha256(stream.read()).hexdigest()
    except (NameError, OSError, Refused):
        return Finding(VERIFIER, None, "this checker cannot read itself, so it was not compared")
    if running != inside.sha256:
        text = f"the one inside ({_brief(*inside)}) is not the one that is running; do not run the one inside"
        return Finding(VERIFIER, None, text)
    return Finding(VERIFIER, True, "the one inside is the one that is running")


def _brief(sha256: str, size: Optional[int]) -> str:
    return f"sha256 {sha256[:12]}..." + ("" if size is None else f", {size} bytes")


def _some(faults: Sequence[str]) -> str:
    more = len(faults) - SHOWN
    return "; ".join(faults[:SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _open(path: str, more: int = 0) -> BinaryIO:
    """Open a regular file, never waiting for a pipe; `more` are flags for os.open."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | more
    stream = os.fdopen(os.open(path, flags), "rb", PIECE)
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise Refused("a regular file", found="something else", where=shown(path), fix=AGAIN)
    return stream


class _Tape:
    """The bytes of a tar one after the other, taken out of the gzip if it is one; never more than a piece in
    memory."""

    def __init__(self, stream: BinaryIO, limits: Limits) -> None:
        self.digest, self.offset, self._limits, self._stream = hashlib.sha256(), 0, limits, stream
        start = stream.read(10)
        stream.seek(0)
        self._zip = zlib.decompressobj(31) if start[:2] == b"\x1f\x8b" else None
        if self._zip and start[3:4] != b"\0":
            self._refuse(
                "a gzip of a tar and nothing else", "a file name, comment or other fields in its head"
            )
        self._waiting, self._in, self._out = b"", 0, 0
        self._piece, self._used = b"", 0

    def take(self, most: int) -> bytes:
        """Return the next bytes, as many as were asked for if there are as many; none at the end."""
        parts = []
        while most > 0:
            if self._used == len(self._piece):
                self._piece, self._used = self._next(), 0
                if not self._piece:
                    break
            part = self._piece[self._used : self._used + most]
            self._used += len(part)
            most -= len(part)
            parts.append(part)
        taken = b"".join(parts)
        self.offset += len(taken)
        self.digest.update(taken)
        return taken

    def _refuse(self, expected: str, found: str) -> NoReturn:
        raise Refused(expected, found=found, where="the archive", fix=AGAIN)

    def _next(self) -> bytes:
        if self._zip is None:
            return self._stream.read(PIECE)
        while not self._zip.eof:
            if not self._waiting:
                self._waiting = self._stream.read(PIECE >> 4)
                self._in += len(self._waiting)
                if not self._waiting:
                    self._refuse("a whole gzip", "one that breaks off")
            try:
                piece = self._zip.decompress(self._waiting, PIECE)
            except zlib.error as error:
                self._refuse("a sound gzip", shown(str(error)))
            self._waiting = self._zip.unconsumed_tail
            self._out += len(piece)
            if self._out > max(self._limits.free, self._limits.ratio * (self._in - len(self._waiting))):
                self._refuse(
                    f"at most {self._limits.ratio} bytes out of a gzip for one in", "more, as of a bomb"
                )
            if piece:
                return piece
        if self._zip.unused_data or self._stream.read(1):
            self._refuse("one gzip and nothing behind it", "more bytes behind its end")
        return b""


_Read = tuple[dict[str, Entry], str, Finding]
_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a character device",
    b"4": "a block device",
    b"5": "a folder",
    b"6": "a named pipe",
    b"7": "a contiguous file",
    b"\0": "an old-style file",
    b"x": "a pax header",
    b"X": "a pax header",
    b"g": "a global pax header",
    b"L": "a GNU long name",
    b"K": "a GNU long link",
    b"S": "a sparse file",
    b"D": "a GNU folder list",
    b"M": "a part of a volume",
    b"V": "a volume label",
}
_FIELDS = {
    "name": 0,
    "mode": 100,
    "owner": 108,
    "group": 116,
    "size": 124,
    "time": 136,
    "checksum": 148,
    "type": 156,
    "link target": 157,
    "magic": 257,
    "version": 263,
    "owner name": 265,
    "group name": 297,
    "device numbers": 329,
    "prefix": 345,
    "padding": 500,
}
_STARTS = {
    b"\x1f\x8b": "a gzip inside a gzip",
    b"PK": "a zip file",
    b"BZ": "a bzip2 file",
    b"\xfd7": "an xz file",
    b"(\xb5": "a zstd file",
}


def _read_archive(path: str, limits: Limits, pages: dict[str, bytes], target: Optional[str]) -> _Read:
    files: dict[str, Entry] = {}
    with _open(path) as stream:
        tape = _Tape(stream, limits)
        for name, length in _members(tape, limits):
            with _written(target, name) as write:
                files[name] = _measured(name, length, tape.take, pages, write)
            if tape.take(-length % BLOCK) != bytes(-length % BLOCK):
                raise Refused(
                    "zeros to the end of a file's last block",
                    found="something else",
                    where=shown(name),
                    fix=AGAIN,
                )
        rest = BLOCK + -(tape.offset + BLOCK) % RECORD
        if tape.take(rest + 1) != bytes(rest):
            expected, found = (
                "zeros to the end of the last record, and nothing behind",
                "something else, or less",
            )
            raise Refused(expected, found=found, where="the archive's end", fix=AGAIN)
    text = "every header, the order and the padding as assay writes them"
    return files, tape.digest.hexdigest(), _form(files, text)


def _form(files: dict[str, Entry], text: str) -> Finding:
    return Finding(
        "form",
        True,
        f"{len(files)} regular files, {sum(entry.size for entry in files.values())} bytes; {text}",
    )


def _members(tape: _Tape, limits: Limits) -> Iterator[tuple[str, int]]:
    """Yield name and size of each member up to the first block of zeros; nothing is read on before its header
    is approved."""
    names, before, number, total = Names(), "", 0, 0
    while True:
        block = tape.take(BLOCK)
        number += 1
        if block == bytes(BLOCK) and before:
            return
        name, size = _approved(block, f"member {number}")
        where = f"member {number}, {shown(name)}"
        if number > limits.members:
            raise Refused(f"at most {limits.members} files", found="more", where=where, fix=AGAIN)
        if not name.startswith(ROOT + "/"):
            raise Refused(f"everything in the folder {ROOT}", found="another place", where=where, fix=AGAIN)
        inside = name[len(ROOT) + 1 :]
        if name <= before:
            found = "the same name twice" if name == before else f"one behind {shown(before)}"
            raise Refused("names in ascending order", found=found, where=where, fix=AGAIN)
        reason = names.add(inside)
        if reason:
            raise Refused(
                "a name that means the same file on every system", found=reason, where=where, fix=AGAIN
            )
        total += _allowed(size, total, limits, where)
        before = name
        yield inside, size


def _approved(block: bytes, where: str) -> tuple[str, int]:
    """Return name and size of a header that is, to the byte, the one assay writes for them."""
    if len(block) < BLOCK:
        found = "nothing" if not block else "an end in the middle of a block"
        raise Refused("a member's header, or the end mark", found=found, where=where, fix=AGAIN)
    first, last, kind = block[345:500].split(b"\0")[0], block[:100].split(b"\0")[0], block[156:157]
    raw = first + b"/" + last if first else last
    name = raw.decode("utf-8", "surrogateescape")
    number = re.fullmatch(rb"([0-7]{11})\0", block[124:136])
    size = int(number.group(1), 8) if number else 0
    approved = header(name, size)
    if block == approved:
        return name, size
    if block[257:262] != b"ustar":
        found = _STARTS.get(block[:2], "no header of a tar" if block.strip(b"\0") else "an empty archive")
    elif kind != b"0":
        found = _KINDS.get(kind, f"type {shown(kind.decode('latin-1'))}")
    else:
        places = [place for place in range(BLOCK) if block[place : place + 1] != approved[place : place + 1]]
        differ = {
            next(field for field, start in reversed(_FIELDS.items()) if start <= place): 1 for place in places
        }
        found = f"one that differs in: {', '.join(differ)}"
    raise Refused(
        "a regular file, with the header that assay writes",
        found=found,
        where=f"{where}, {shown(name)}",
        fix=AGAIN,
    )


def _allowed(size: int, total: int, limits: Limits, where: str) -> int:
    if size > limits.file:
        fix = "raise --max-file if you trust where it comes from"
        raise Refused(f"a file of at most {limits.file} bytes", found=f"{size} bytes", where=where, fix=fix)
    if total + size > limits.total:
        fix = "raise --max-total if you trust where it comes from"
        raise Refused(
            f"at most {limits.total} bytes altogether", found=f"{total + size} bytes", where=where, fix=fix
        )
    return size


def _measured(
    name: str,
    size: int,
    take: Callable[[int], bytes],
    pages: dict[str, bytes],
    write: Callable[[bytes], object],
) -> Entry:
    digest, left, kept = hashlib.sha256(), size, []
    while left:
        piece = take(min(left, PIECE))
        if not piece:
            raise Refused(f"{size} bytes", found=f"an end after {size - left}", where=shown(name), fix=AGAIN)
        digest.update(piece)
        write(piece)
        if name in (MANIFEST, SUMS) and size <= LONGEST_LIST:
            kept.append(piece)
        left -= len(piece)
    if size <= LONGEST_LIST and name in (MANIFEST, SUMS):
        pages[name] = b"".join(kept)
    return Entry(digest.hexdigest(), size)


@contextlib.contextmanager
def _written(target: Optional[str], name: str) -> Iterator[Callable[[bytes], object]]:
    if target is None:
        yield len
        return
    path = os.path.join(target, *name.split("/"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, 0o644), "wb") as stream:
        yield stream.write


def _read_folder(folder: str, allow: Sequence[str], limits: Limits, pages: dict[str, bytes]) -> _Read:
    """Measure an unpacked package, and the tar it would make, without opening anything but regular files."""
    found, faults, left_out = _listed(folder, allow, limits)
    files: dict[str, Entry] = {}
    digest, names, total, length = hashlib.sha256(), Names(), 0, 0
    for name in sorted(found):
        reason = names.add(name) or ("" if header(f"{ROOT}/{name}", 0) else "a path too long for a tar")
        if reason:
            faults.append(f"{shown(name)} ({reason})")
            continue
        with _open(os.path.join(folder, *name.split("/")), getattr(os, "O_NOFOLLOW", 0)) as stream:
            size = os.fstat(stream.fileno()).st_size
            total += _allowed(size, total, limits, shown(name))
            digest.update(header(f"{ROOT}/{name}", size))
            files[name] = _measured(name, size, stream.read, pages, digest.update)
            if stream.read(1):
                fix = "let its writer finish"
                raise Refused(
                    "a file that stays as it is", found="one that grows", where=shown(name), fix=fix
                )
        digest.update(bytes(-size % BLOCK))
        length += BLOCK + size + -size % BLOCK
    digest.update(bytes(2 * BLOCK + -(length + 2 * BLOCK) % RECORD))
    text = "nothing but folders and regular files" + (
        f"; left out as allowed: {', '.join(left_out)}" if left_out else ""
    )
    if faults:
        fix = "remove them, or leave out what a hub or tool put there: --allow NAME"
        return (
            files,
            digest.hexdigest(),
            Finding("form", False, f"no part of a package: {_some(sorted(faults))}. Fix: {fix}"),
        )
    return files, digest.hexdigest(), _form(files, text)


def _listed(folder: str, allow: Sequence[str], limits: Limits) -> tuple[list[str], list[str], list[str]]:
    files: list[str] = []
    faults: list[str] = []
    left_out: list[str] = []
    waiting, seen = [""], 0
    while waiting:
        inside = waiting.pop()
        empty = True
        with os.scandir(os.path.join(folder, inside)) as entries:
            for entry in entries:
                empty, seen, name = False, seen + 1, inside + entry.name
                mode = entry.stat(follow_symlinks=False).st_mode
                if seen > 2 * limits.members:
                    fix = "look whether this is the right folder"
                    raise Refused(
                        f"at most {limits.members} files", found="far more", where=shown(folder), fix=fix
                    )
                if name in allow:
                    left_out.append(shown(name))
                elif stat.S_ISREG(mode):
                    files.append(name)
                elif stat.S_ISDIR(mode) and name.count("/") + 1 < DEPTH:
                    waiting.append(name + "/")
                else:
                    kind = _KINDS[b"5"] + " too deep" if stat.S_ISDIR(mode) else _kind(mode)
                    faults.append(f"{shown(name)} ({kind})")
        if empty:
            faults.append(f"{shown(inside) or 'the folder'} (empty)")
    if len(files) > limits.members:
        raise Refused(
            f"at most {limits.members} files", found=str(len(files)), where=shown(folder), fix=AGAIN
        )
    return files, faults, sorted(left_out)


def _kind(mode: int) -> str:
    kinds = [(stat.S_ISLNK, b"2"), (stat.S_ISFIFO, b"6"), (stat.S_ISCHR, b"3"), (stat.S_ISBLK, b"4")]
    return next((_KINDS[key] for is_kind, key in kinds if is_kind(mode)), "a socket or something stranger")


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Write one line a check; return 0 if none failed, 1 if one did; 2 is for a call that makes no sense."""
    parser = argparse.ArgumentParser(
        prog="verify.py", description="Check an assay package: its files against its own lists."
    )
    parser.add_argument(
        "package", nargs="?", help=".tar, .tar.gz or unpacked folder; without: the folder of verify.py"
    )
    parser.add_argument("--sha256", metavar="HEX", help="of the tar, as it was published")
    parser.add_argument(
        "--allow", metavar="NAME", action="append", default=[], help="leave this out of an unpacked folder"
    )
    parser.add_argument(
        "--max-file", metavar="BYTES", type=int, default=LIMITS.file, help="of one file (default 4 GiB)"
    )
    parser.add_argument(
        "--max-total", metavar="BYTES", type=int, default=LIMITS.total, help="of all files (default 8 GiB)"
    )
    given = parser.parse_args(argv)
    path = given.package or os.path.dirname(os.path.abspath(__file__))
    if given.sha256 is not None and not re.fullmatch("[0-9a-fA-F]{64}", given.sha256):
        parser.error("--sha256 takes 64 hexadecimal digits")
    if not os.path.exists(path):
        parser.error(f"there is no {shown(path)}")
    try:
        limits = LIMITS._replace(file=given.max_file, total=given.max_total)
        result = check(
            path, sha256=given.sha256, allow=[name.rstrip("/") for name in given.allow], limits=limits
        )
    except OSError as error:
        result = Result([Finding("form", False, f"{shown(str(error.filename))}: {error.strerror}")], None, {})
    words = {True: "ok  ", False: "FAIL", None: "--  "}
    lines = [f"{words[finding.ok]} {finding.name}: {finding.text}" for finding in result.findings]
    lines.append("the files are what the package lists" if result.ok else "NOT to be trusted: see FAIL above")
    for line in lines:
        encoding = sys.stdout.encoding or "ascii"
        sys.stdout.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main())
