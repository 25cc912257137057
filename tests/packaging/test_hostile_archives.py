"""Archives made to do harm: refused in bounded time and memory, with nothing written outside and nothing left
inside."""

from __future__ import annotations

import gzip
import io
import os
import random
import re
import resource
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from assay.core.errors import PackageError
from assay.stages.packing import archive, verify

ROOT = "assay-package"
MB = 1 << 20
SECONDS = 60  # a bound for a slow machine; each of these takes well below a second


def member(name: str, content: bytes = b"", *, size_only: int = 0, **fields: object) -> bytes:
    """Return one member of an old-fashioned or hostile kind, as the library writes it."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    for field, value in fields.items():
        setattr(entry, field, value)
    if size_only:
        entry.size = size_only
    return (
        entry.tobuf(tarfile.USTAR_FORMAT, "utf-8", "surrogateescape") + content + bytes(-len(content) % 512)
    )


def header(name: str, size: int) -> bytes:
    """Return the header of a file whose content is elsewhere, or nowhere."""
    return member(name, size_only=size)


def tar_of(*members: bytes) -> bytes:
    body = b"".join(members)
    return body + bytes(1024 + -(len(body) + 1024) % tarfile.RECORDSIZE)


def by_library(form: int, name: str, content: bytes = b"x", **fields: object) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as written:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        for field, value in fields.items():
            setattr(entry, field, value)
        written.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def good() -> bytes:
    said = b'{"format":"assay-package/7"}'
    sealed = archive.sealed({"a": b"1", "b/c": b"22" * 300, "provenance.json": said})
    parts = []
    for name in sorted(sealed):
        content = sealed[name]
        assert isinstance(content, bytes)
        parts.append(member(f"{ROOT}/{name}", content))
    return tar_of(*parts)


def inside(name: str, content: bytes = b"x", **fields: object) -> bytes:
    return tar_of(member(f"{ROOT}/{name}", content, **fields))


def pair(first: str, second: str) -> bytes:
    return tar_of(member(f"{ROOT}/{first}", b"1"), member(f"{ROOT}/{second}", b"2"))


LINK = {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}
CLIMBS, PLACE, SIGN = "climbing", "in assay-package", "control or invisible"
KIND, HEAD = "regular files", "headers as assay writes them"
NO_TAR, BEHIND = "a sound tar, or a gzip of one", "nothing behind"
WORDS = "one without name and comment"
zipped = partial(gzip.compress, mtime=0)


def commented(content: bytes, flag: int) -> bytes:
    """Return a gzip whose header has a text: a name by flag 8, a comment by 16."""
    packed = zipped(content)
    return (
        packed[:3] + bytes([flag]) + packed[4:10] + b"verified by an independent laboratory\0" + packed[10:]
    )


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "zip slip": (lambda: inside("../../outside"), CLIMBS),
    "zip slip in the middle": (lambda: inside("a/../../../outside"), CLIMBS),
    "beside the folder": (lambda: tar_of(member("outside", b"x")), PLACE),
    "above the folder": (lambda: tar_of(member("../outside", b"x")), PLACE),
    "absolute": (lambda: tar_of(member("/tmp/outside", b"x")), PLACE),
    "absolute inside": (lambda: inside("/outside"), "absolute"),
    "a drive": (lambda: tar_of(member("C:\\outside", b"x")), PLACE),
    "a drive inside": (lambda: inside("C:outside"), "colon"),
    "backslash": (lambda: inside("..\\..\\outside"), "backslash"),
    "a stream of a file": (lambda: inside("a:b"), "colon"),
    "symbolic link": (lambda: inside("a", b"", **LINK), KIND),
    "symbolic link to a folder": (
        lambda: tar_of(
            member(f"{ROOT}/a", type=tarfile.SYMTYPE, linkname=".."), member(f"{ROOT}/a/outside", b"x")
        ),
        KIND,
    ),
    "hard link": (lambda: inside("a", b"", type=tarfile.LNKTYPE, linkname="/etc/passwd"), KIND),
    "character device": (lambda: inside("a", b"", type=tarfile.CHRTYPE, devmajor=1, devminor=5), KIND),
    "block device": (lambda: inside("a", b"", type=tarfile.BLKTYPE, devmajor=8), KIND),
    "named pipe": (lambda: inside("a", b"", type=tarfile.FIFOTYPE), KIND),
    "a folder as a member": (lambda: inside("a", b"", type=tarfile.DIRTYPE), KIND),
    "contiguous": (lambda: inside("a", type=tarfile.CONTTYPE), KIND),
    "old type": (lambda: inside("a", type=tarfile.AREGTYPE), KIND),
    "unknown type": (lambda: inside("a", type=b"\x1b"), r"type b'\x1b'"),
    "twice": (lambda: pair("a", "a"), "in order"),
    "out of order": (lambda: pair("b", "a"), "in order"),
    "case": (lambda: pair("A", "a"), "but for case"),
    "normalisation": (lambda: pair("e\u0301", "é"), "but for case"),
    "file and folder": (lambda: pair("a", "a/b"), "as a folder too"),
    "file and folder but for case": (lambda: pair("A", "a/b"), "as a folder too"),
    "a git folder": (lambda: inside(".git/hooks/post-checkout"), "hidden"),
    "escape codes": (lambda: inside("\x1b[2J"), SIGN),
    "reversed text": (lambda: inside("a\u202egpj.exe"), SIGN),
    "no text": (lambda: inside("\udcff"), SIGN),
    "executable": (lambda: inside("a", mode=0o755), HEAD),
    "set user": (lambda: inside("a", mode=0o4755), HEAD),
    "an owner": (lambda: inside("a", uname="root", uid=1000), HEAD),
    "a time": (lambda: inside("a", mtime=1), HEAD),
    "a link name on a file": (lambda: inside("a", linkname="b"), HEAD),
    "pax header": (lambda: by_library(tarfile.PAX_FORMAT, f"{ROOT}/" + "é" * 200), HEAD),
    "pax header with a huge size": (
        lambda: by_library(tarfile.PAX_FORMAT, f"{ROOT}/a", pax_headers={"size": "9" * 20}),
        HEAD,
    ),
    "global pax header": (lambda: tar_of(member("g", b"9 path=x\n", type=b"g")), HEAD),
    "GNU long name": (lambda: by_library(tarfile.GNU_FORMAT, f"{ROOT}/" + "d/" * 20_000 + "a"), HEAD),
    "GNU long name of 8 GB": (lambda: member("././@LongLink", size_only=8**11 - 1, type=b"L"), HEAD),
    "GNU header": (lambda: by_library(tarfile.GNU_FORMAT, f"{ROOT}/a"), HEAD),
    "sparse": (lambda: inside("a", b"", type=b"S"), KIND),
    "size in base 256": (
        lambda: inside("a").replace(
            b"00000000001\0" + b"0" * 11, b"\x80" + bytes(7) + b"\x02\x54\x0b\xe4" + b"0" * 11
        ),
        NO_TAR,
    ),
    "a file of 8 GB": (lambda: header(f"{ROOT}/a", 8**11 - 1) * 2, "sound tar|an end after|8589934592 bytes"),
    "empty": (lambda: b"", "empty header"),
    "zeros": (lambda: bytes(10_240), NO_TAR),
    "no tar": (lambda: b"hello world" * 1000, NO_TAR),
    "a zip": (lambda: b"PK\3\4" + bytes(600), NO_TAR),
    "gzip of gzip": (lambda: zipped(zipped(random.Random(1).randbytes(2000))), NO_TAR),
    "gzip broken off": (lambda: zipped(good())[:-9], NO_TAR),
    "gzip without its sum": (lambda: zipped(good())[:-8] + b"12345678", NO_TAR),
    "gzip damaged": (lambda: b"\x1f\x8b\x08\0" + b"\xff" * 99, NO_TAR),
    "a second gzip behind": (lambda: zipped(good()) + zipped(b"x"), BEHIND),
    "something behind a gzip": (lambda: zipped(good()) + b"x", BEHIND),
    "zeros behind a gzip": (lambda: zipped(good()) + bytes(8), BEHIND),
    "an empty gzip behind": (lambda: zipped(good()) + zipped(b""), BEHIND),
    "a gzip with a comment": (lambda: commented(good(), 16), WORDS),
    "a gzip with a name": (lambda: commented(good(), 8), WORDS),
    "something behind the end": (lambda: good() + b"x", BEHIND),
    "a record behind the end": (lambda: good() + bytes(10_240), BEHIND),
    "a second archive behind": (lambda: good() + good(), BEHIND),
    "something in the end": (lambda: good()[:-1] + b"x", BEHIND),
    "something in the padding": (lambda: good().replace(b"1" + bytes(511), b"1x" + bytes(510)), "last block"),
    "one block of zeros short": (lambda: good()[:-512], BEHIND),
}


def tree(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("case", HOSTILE)
def test_it_is_refused_for_what_it_is_and_leaves_no_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    build, words = HOSTILE[case]
    path = tmp_path / "room/hostile.tar"
    path.parent.mkdir()
    path.write_bytes(build())
    (tmp_path / "outside").write_bytes(b"untouched")
    before = tree(tmp_path)
    (finding,) = verify.check(path).findings
    assert finding.ok is False and re.search(words if "|" in words else re.escape(words), finding.text)
    assert verify.main([str(path)]) == 1
    assert "\x1b" not in capsys.readouterr().out
    with pytest.raises(PackageError):
        archive.unpack(path, tmp_path / "room/target")
    assert tree(tmp_path) == before and not Path("/tmp/outside").exists()


def test_the_archive_all_of_this_was_made_from_is_good(tmp_path: Path) -> None:
    for name, content in (("a.tar", good()), ("a.tar.gz", zipped(good()))):
        (tmp_path / name).write_bytes(content)
        assert verify.check(tmp_path / name).ok
    archive.unpack(tmp_path / "a.tar.gz", tmp_path / "target")


def test_what_is_no_file_at_all_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.tar")
    (tmp_path / "folder").mkdir()
    for path, word in (
        (tmp_path / "pipe.tar", "something else"),
        (Path("/dev/zero"), "something else"),
        (tmp_path / "folder", "0 regular files"),
    ):
        result = verify.check(path)
        assert not result.ok and word in result.findings[0].text
    with pytest.raises(PackageError, match="found a folder"):
        archive.unpack(tmp_path / "folder", tmp_path / "target")


def headers_of(content: bytes) -> Iterator[int]:
    with tarfile.open(fileobj=io.BytesIO(content)) as read:
        yield from (entry.offset for entry in read.getmembers())


def test_every_changed_byte_of_every_header_is_refused_also_with_its_checksum_made_good(
    tmp_path: Path,
) -> None:
    content, pick = good(), random.Random(2)
    (tmp_path / "a.tar").write_bytes(content)
    tried = 0
    for start in headers_of(content):
        for place in range(start, start + 512):
            block = bytearray(content[start : start + 512])
            block[place - start] ^= 1 << pick.randrange(8)
            sealed = bytearray(block)
            sealed[148:156] = b" " * 8
            sealed[148:156] = b"%06o\0 " % sum(sealed)
            for changed in {bytes(block), bytes(sealed)} - {content[start : start + 512]}:
                with (tmp_path / "a.tar").open("r+b") as stream:
                    stream.seek(start)
                    stream.write(changed)
                assert not verify.check(tmp_path / "a.tar").ok, (place - start, changed)
                tried += 1
        with (tmp_path / "a.tar").open("r+b") as stream:
            stream.seek(start)
            stream.write(content[start : start + 512])
    assert tried > 4000 and verify.check(tmp_path / "a.tar").ok


def test_an_archive_cut_anywhere_is_refused_also_with_an_end_put_to_it(tmp_path: Path) -> None:
    content = good()
    starts = set(headers_of(content))
    cuts = {
        *starts,
        *(start + 1 for start in starts),
        *(start + 511 for start in starts),
        *range(0, len(content), 512),
    }
    for cut in sorted(cuts):
        for changed in {content[:cut], tar_of(content[:cut]), zipped(content[:cut])} - {content}:
            (tmp_path / "a.tar").write_bytes(changed)
            assert not verify.check(tmp_path / "a.tar").ok, cut
            with pytest.raises(PackageError):
                archive.unpack(tmp_path / "a.tar", tmp_path / "target")
            assert not (tmp_path / "target").exists()


def measured(path: Path, *options: str) -> tuple[str, int]:
    """Check an archive in a process of its own; return what it says and by how many bytes its memory grew at
    most."""
    code = (
        "import resource, sys; sys.path.insert(0, sys.argv.pop(1)); import verify\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; rc = verify.main(sys.argv[1:])\n"
        "sys.stderr.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)); sys.exit(rc)"
    )

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # and not a byte written

    command = [
        sys.executable,
        "-I",
        "-S",
        "-B",
        "-c",
        code,
        str(Path(verify.__file__).parent),
        str(path),
        *options,
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, preexec_fn=bounded, timeout=SECONDS
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout, int(done.stderr) * 1024


def zeros(size: int, head: bytes) -> Iterator[bytes]:
    """Yield a gzip of `head` and so many zeros, never holding them."""
    press = zlib.compressobj(9, zlib.DEFLATED, 31)
    yield press.compress(head)
    for _ in range(size // MB):
        yield press.compress(bytes(MB))
    yield press.flush()


def test_a_gzip_bomb_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    for name, head in (("a", header(f"{ROOT}/a", 300 * MB)), ("b", header(f"{ROOT}/a", 0))):
        with (tmp_path / f"{name}.tar.gz").open("wb") as stream:
            stream.writelines(zeros(300 * MB, head))
        assert (tmp_path / f"{name}.tar.gz").stat().st_size < MB
    said, memory = measured(tmp_path / "a.tar.gz", "--max-total", str(100 * MB))
    assert f"{100 * MB} bytes, found more" in said and memory < 24 * MB
    said, memory = measured(tmp_path / "b.tar.gz")
    assert "nothing behind" in said and memory < 24 * MB


def test_a_bomb_is_refused_by_what_its_headers_declare_before_that_is_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse.tar").open("wb") as stream:  # 8 GB that take no place on the disk
        for part, size in (("a", 1024), ("b", 8**11 - 512)):
            stream.write(header(f"{ROOT}/{part}", size))
            stream.seek(size, 1)
        stream.truncate()
    assert f"b: expected at most 20000 files, {8 << 30} bytes" in measured(tmp_path / "sparse.tar")[0]
    (tmp_path / "folder").mkdir()
    for part in ("a", "b"):
        os.link(tmp_path / "sparse.tar", tmp_path / f"folder/{part}")
    assert f"{8 << 30} bytes, found more" in measured(tmp_path / "folder")[0]


def test_zeros_without_end_behind_the_end_are_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a.tar").open("wb") as stream:
        stream.write(good())
        stream.truncate(10 << 30)
    said, memory = measured(tmp_path / "a.tar")
    assert "nothing behind" in said and memory < 24 * MB
    with (tmp_path / "zeros.tar").open("wb") as stream:
        stream.truncate(10 << 30)
    assert "end of file header" in measured(tmp_path / "zeros.tar")[0]


def test_too_many_members_are_refused_in_bounded_memory(tmp_path: Path) -> None:
    with (tmp_path / "many.tar").open("wb") as stream:
        stream.writelines(header(f"{ROOT}/{n:08}", 0) for n in range(25_000))
        stream.write(bytes(1024))
    said, memory = measured(tmp_path / "many.tar")
    assert "at most 20000 files" in said and memory < 64 * MB


@pytest.mark.parametrize(("count", "kind"), [(11, "files"), (21, "files"), (21, "folders")])
def test_too_many_files_in_a_folder_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, kind: str
) -> None:
    monkeypatch.setattr(verify, "MOST_FILES", 10)
    for number in range(count):
        path = tmp_path / f"folder/{number}"
        (path if kind == "folders" else path.parent).mkdir(parents=True, exist_ok=True)
        path.exists() or path.touch()
    result = verify.check(tmp_path / "folder")
    assert not result.ok and "at most 10 files" in result.findings[0].text


def test_lists_made_to_keep_the_checker_busy_do_not(tmp_path: Path) -> None:
    for page in ("provenance.json", "SHA256SUMS"):
        content = b'"format":"assay-package/' * 600_000 + (b"0" * 64 + b"  \n") * 20_000
        (tmp_path / "a.tar").write_bytes(tar_of(member(f"{ROOT}/{page}", content)))
        said, memory = measured(tmp_path / "a.tar")
        assert "FAIL SHA256SUMS" in said and memory < 96 * MB
