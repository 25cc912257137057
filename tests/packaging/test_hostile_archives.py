"""Archives made to do harm: refused in bounded time and memory, with nothing written outside and nothing left
inside."""

from __future__ import annotations

import gzip
import io
import os
import random
import resource
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay.core.storage import archive
from assay.package import manifest, verify

ROOT = "assay-package"
MB = 1 << 20
SECONDS = 60  # a bound for a slow machine; each of these takes well below a second


def member(name: str, content: bytes = b"", **fields: object) -> bytes:
    """Return one member of an old-fashioned or hostile kind, as the library writes it."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    for field, value in fields.items():
        setattr(entry, field, value)
    return (
        entry.tobuf(tarfile.USTAR_FORMAT, "utf-8", "surrogateescape") + content + bytes(-len(content) % 512)
    )


def tar_of(*members: bytes) -> bytes:
    body = b"".join(members)
    return body + bytes(1024 + -(len(body) + 1024) % archive.RECORD)


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
    sealed = manifest.sealed({"a": b"1", "b/c": b"22" * 300, "verify.py": b"pass\n"})
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


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "zip slip": (lambda: inside("../../outside"), "climbs"),
    "zip slip in the middle": (lambda: inside("a/../../../outside"), "climbs"),
    "beside the folder": (lambda: tar_of(member("outside", b"x")), "another place"),
    "above the folder": (lambda: tar_of(member("../outside", b"x")), "another place"),
    "absolute": (lambda: tar_of(member("/tmp/outside", b"x")), "another place"),
    "absolute inside": (lambda: inside("/outside"), "absolute"),
    "a drive": (lambda: tar_of(member("C:\\outside", b"x")), "another place"),
    "a drive inside": (lambda: inside("C:outside"), "other systems"),
    "backslash": (lambda: inside("..\\..\\outside"), "backslash"),
    "a stream of a file": (lambda: inside("a:b"), "other systems"),
    "symbolic link": (
        lambda: inside("a", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        "a symbolic link",
    ),
    "symbolic link to a folder": (
        lambda: tar_of(
            member(f"{ROOT}/a", type=tarfile.SYMTYPE, linkname=".."), member(f"{ROOT}/a/outside", b"x")
        ),
        "a symbolic link",
    ),
    "hard link": (lambda: inside("a", b"", type=tarfile.LNKTYPE, linkname="/etc/passwd"), "a hard link"),
    "character device": (
        lambda: inside("a", b"", type=tarfile.CHRTYPE, devmajor=1, devminor=5),
        "a character device",
    ),
    "block device": (lambda: inside("a", b"", type=tarfile.BLKTYPE, devmajor=8), "a block device"),
    "named pipe": (lambda: inside("a", b"", type=tarfile.FIFOTYPE), "a named pipe"),
    "a folder as a member": (lambda: inside("a", b"", type=tarfile.DIRTYPE), "a folder"),
    "contiguous": (lambda: inside("a", type=tarfile.CONTTYPE), "a contiguous file"),
    "old type": (lambda: inside("a", type=tarfile.AREGTYPE), "an old-style file"),
    "unknown type": (lambda: inside("a", type=b"\x1b"), r"type \x1b"),
    "twice": (lambda: pair("a", "a"), "the same name twice"),
    "out of order": (lambda: pair("b", "a"), "ascending order"),
    "case": (lambda: pair("A", "a"), "case or normalisation"),
    "case of a folder": (lambda: pair("A/x", "a/y"), "case or normalisation"),
    "normalisation": (lambda: pair("e\u0301", "é"), "case or normalisation"),
    "file and folder": (lambda: pair("a", "a/b"), "at once"),
    "a git folder": (lambda: inside(".git/hooks/post-checkout"), ".git"),
    "escape codes": (lambda: inside("\x1b[2J"), "control"),
    "reversed text": (lambda: inside("a\u202egpj.exe"), "invisible"),
    "no text": (lambda: inside("\udcff"), "invisible"),
    "a device of Windows": (lambda: inside("a/NUL.txt"), "other systems"),
    "very deep": (lambda: inside("d/" * 60 + "a"), "16 parts"),
    "executable": (lambda: inside("a", mode=0o755), "differs in: mode"),
    "set user": (lambda: inside("a", mode=0o4755), "differs in: mode"),
    "an owner": (lambda: inside("a", uname="root", uid=1000), "differs in: owner, checksum, owner name"),
    "a time": (lambda: inside("a", mtime=1), "differs in: time"),
    "a link name on a file": (lambda: inside("a", linkname="b"), "differs in: checksum, link target"),
    "pax header": (lambda: by_library(tarfile.PAX_FORMAT, f"{ROOT}/" + "é" * 200), "a pax header"),
    "pax header with a huge size": (
        lambda: by_library(tarfile.PAX_FORMAT, f"{ROOT}/a", pax_headers={"size": "9" * 20}),
        "a pax header",
    ),
    "global pax header": (lambda: tar_of(member("g", b"9 path=x\n", type=b"g")), "a global pax header"),
    "GNU long name": (
        lambda: by_library(tarfile.GNU_FORMAT, f"{ROOT}/" + "d/" * 20_000 + "a"),
        "a GNU long name",
    ),
    "GNU long name of 8 GB": (
        lambda: archive.header("././@LongLink", 8**11 - 1).replace(b"0" + bytes(100), b"L" + bytes(100)),
        "GNU long",
    ),
    "GNU header": (lambda: by_library(tarfile.GNU_FORMAT, f"{ROOT}/a"), "differs in: "),
    "sparse": (lambda: inside("a", b"", type=b"S"), "a sparse file"),
    "size in base 256": (
        lambda: inside("a").replace(
            b"00000000001\0" + b"0" * 11, b"\x80" + bytes(7) + b"\x02\x54\x0b\xe4" + b"0" * 11
        ),
        "differs in: size",
    ),
    "a file of 10 GB": (lambda: archive.header(f"{ROOT}/a", 8**11 - 1), "at most 4294967296 bytes"),
    "empty": (lambda: b"", "found nothing"),
    "zeros": (lambda: bytes(10_240), "an empty archive"),
    "no tar": (lambda: b"hello world" * 1000, "no header of a tar"),
    "a zip": (lambda: b"PK\3\4" + bytes(600), "a zip file"),
    "gzip of gzip": (
        lambda: gzip.compress(gzip.compress(random.Random(1).randbytes(2000))),
        "a gzip inside a gzip",
    ),
    "gzip broken off": (lambda: gzip.compress(good())[:-9], "breaks off"),
    "gzip without its sum": (lambda: gzip.compress(good())[:-8] + b"12345678", "incorrect data check"),
    "gzip damaged": (lambda: b"\x1f\x8b\x08\0" + b"\xff" * 99, "a sound gzip"),
    "two gzips": (lambda: gzip.compress(good()) + gzip.compress(b""), "more bytes behind"),
    "something behind a gzip": (lambda: gzip.compress(good()) + b"\0", "more bytes behind"),
    "a gzip that hides a comment": (
        lambda: b"\x1f\x8b\x08\x10" + gzip.compress(good())[4:10] + b"hidden\0" + gzip.compress(good())[10:],
        "other fields in its head",
    ),
    "something behind the end": (lambda: good() + b"x", "nothing behind"),
    "a record behind the end": (lambda: good() + bytes(10_240), "nothing behind"),
    "a second archive behind": (lambda: good() + good(), "nothing behind"),
    "something in the end": (lambda: good()[:-1] + b"x", "nothing behind"),
    "something in the padding": (lambda: good().replace(b"1" + bytes(511), b"1x" + bytes(510)), "last block"),
    "one block of zeros short": (lambda: good()[:-512], "nothing behind"),
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
    assert finding.ok is False and words in finding.text
    assert verify.main([str(path)]) == 1
    assert "\x1b" not in capsys.readouterr().out
    with pytest.raises(verify.Refused):
        verify.unpack(path, tmp_path / "room/target")
    assert tree(tmp_path) == before and not Path("/tmp/outside").exists()


def test_the_archive_all_of_this_was_made_from_is_good(tmp_path: Path) -> None:
    for name, content in (("a.tar", good()), ("a.tar.gz", gzip.compress(good()))):
        (tmp_path / name).write_bytes(content)
        assert verify.check(tmp_path / name).ok
    verify.unpack(tmp_path / "a.tar.gz", tmp_path / "target")


def test_what_is_no_file_at_all_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.tar")
    (tmp_path / "folder").mkdir()
    for path, word in (
        (tmp_path / "pipe.tar", "something else"),
        (Path("/dev/zero"), "something else"),
        (tmp_path / "folder", "empty"),
    ):
        result = verify.check(path)
        assert not result.ok and word in result.findings[0].text
    with pytest.raises(verify.Refused, match="found a folder"):
        verify.unpack(tmp_path / "folder", tmp_path / "target")


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
    assert tried > 4500 and verify.check(tmp_path / "a.tar").ok


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
        for changed in {content[:cut], tar_of(content[:cut]), gzip.compress(content[:cut])} - {content}:
            (tmp_path / "a.tar").write_bytes(changed)
            assert not verify.check(tmp_path / "a.tar").ok, cut
            with pytest.raises(verify.Refused):
                verify.unpack(tmp_path / "a.tar", tmp_path / "target")
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


def test_a_gzip_bomb_is_refused_by_its_ratio_in_bounded_memory(tmp_path: Path) -> None:
    with (tmp_path / "bomb.tar.gz").open("wb") as stream:
        stream.writelines(zeros(300 * MB, archive.header(f"{ROOT}/a", 300 * MB)))
    assert (tmp_path / "bomb.tar.gz").stat().st_size < MB
    said, memory = measured(tmp_path / "bomb.tar.gz")
    assert "as of a bomb" in said and memory < 24 * MB
    with pytest.raises(verify.Refused, match="bomb"):
        verify.unpack(tmp_path / "bomb.tar.gz", tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_bomb_is_refused_by_what_its_headers_declare_before_that_is_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse.tar").open("wb") as stream:  # 7 GB that take no place on the disk
        stream.write(archive.header(f"{ROOT}/a", 7 << 30))
        stream.truncate(7 << 30)
    assert "a file of at most 4294967296 bytes" in measured(tmp_path / "sparse.tar")[0]
    (tmp_path / "a.tar").write_bytes(tar_of(*(member(f"{ROOT}/{n}", bytes(3 * MB)) for n in range(3))))
    finding = verify.check(tmp_path / "a.tar", limits=verify.LIMITS._replace(total=8 * MB)).findings[0]
    assert "member 3" in finding.text and f"at most {8 * MB} bytes altogether" in finding.text
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/a").symlink_to(tmp_path / "sparse.tar")
    os.link(tmp_path / "sparse.tar", tmp_path / "folder/b")
    assert "a file of at most" in measured(tmp_path / "folder")[0]


def test_zeros_without_end_behind_the_end_are_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a.tar").open("wb") as stream:
        stream.write(good())
        stream.truncate(10 << 30)
    said, memory = measured(tmp_path / "a.tar")
    assert "nothing behind" in said and memory < 24 * MB
    with (tmp_path / "zeros.tar").open("wb") as stream:
        stream.truncate(10 << 30)
    assert "an empty archive" in measured(tmp_path / "zeros.tar")[0]


def test_too_many_members_are_refused_in_bounded_memory(tmp_path: Path) -> None:
    with (tmp_path / "many.tar").open("wb") as stream:
        stream.writelines(archive.header(f"{ROOT}/{n:08}", 0) for n in range(25_000))
        stream.write(bytes(1024))
    said, memory = measured(tmp_path / "many.tar")
    assert "at most 20000 files" in said and memory < 64 * MB
    few = verify.LIMITS._replace(members=10)
    assert "member 11" in verify.check(tmp_path / "many.tar", limits=few).findings[0].text


@pytest.mark.parametrize(
    ("count", "kind", "found"), [(11, "files", "11"), (21, "files", "far more"), (21, "folders", "far more")]
)
def test_too_many_files_in_a_folder_are_refused(tmp_path: Path, count: int, kind: str, found: str) -> None:
    for number in range(count):
        path = tmp_path / f"folder/{number}"
        (path if kind == "folders" else path.parent).mkdir(parents=True, exist_ok=True)
        path.exists() or path.touch()
    result = verify.check(tmp_path / "folder", limits=verify.LIMITS._replace(members=10))
    assert not result.ok and f"at most 10 files, found {found}" in result.findings[0].text


def test_something_behind_a_gzip_is_seen_also_where_a_read_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = gzip.compress(good())
    monkeypatch.setattr(verify, "PIECE", 16 * len(packed))  # so that the first read ends with the gzip
    for behind in (b"", b"x"):
        (tmp_path / "a.tar.gz").write_bytes(packed + behind)
        assert verify.check(tmp_path / "a.tar.gz").ok is (not behind)


def test_nothing_is_written_over_or_through_what_lies_there(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"untouched")
    (tmp_path / "target").mkdir()
    (tmp_path / "target/link").symlink_to(tmp_path / "outside")
    (tmp_path / "target/dangling").symlink_to(tmp_path / "new")
    (tmp_path / "target/file").write_bytes(b"untouched")
    before = tree(tmp_path)
    for name in ("link", "dangling", "file"):
        with pytest.raises(FileExistsError), verify._written(str(tmp_path / "target"), name):
            pass
    assert tree(tmp_path) == before


def test_lists_made_to_keep_the_checker_busy_do_not(tmp_path: Path) -> None:
    pages = {"manifest.json": b'"a":{"sha256":"' * 1_000_000, "SHA256SUMS": (b"0" * 64 + b"  \n") * 200_000}
    for page, content in pages.items():
        (tmp_path / "a.tar").write_bytes(tar_of(member(f"{ROOT}/{page}", content)))
        said, memory = measured(tmp_path / "a.tar")
        assert f"FAIL {page}" in said and memory < 96 * MB
