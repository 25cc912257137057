"""An archive is a function of names and contents, is written whole or not at all, and takes no name that
means two things."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.core.errors import PackageError
from assay.stages.packing import archive

MEMBERS: dict[str, bytes | Path] = {
    "b": b"2",
    "a/c": b"1" * 512,
    "a/é": b"",
    "z" * 90 + "/" + "y" * 99: b"long",
}


def test_equal_names_and_contents_are_equal_bytes_whatever_their_order_source_and_clock(
    tmp_path: Path,
) -> None:
    archive.write_tar(tmp_path / "1.tar", MEMBERS, root="r")
    sources: dict[str, bytes | Path] = {}
    for number, (name, content) in enumerate(reversed(MEMBERS.items())):
        assert isinstance(content, bytes)
        source = tmp_path / f"source{number}"
        source.write_bytes(content)
        os.chmod(source, 0o755)
        os.utime(source, (number, number))
        sources[name] = source
    archive.write_tar(tmp_path / "elsewhere/2.tar", sources, root="r")
    assert (tmp_path / "1.tar").read_bytes() == (tmp_path / "elsewhere/2.tar").read_bytes()


def test_other_readers_find_sorted_plain_files_without_owner_or_clock(tmp_path: Path) -> None:
    archive.write_tar(tmp_path / "a.tar", MEMBERS, root="r")
    with tarfile.open(tmp_path / "a.tar") as read:
        members = read.getmembers()
        assert [member.name for member in members] == [f"r/{name}" for name in sorted(MEMBERS)]
        for member in members:
            assert (
                member.uid,
                member.gid,
                member.uname,
                member.gname,
                member.mtime,
                member.mode,
                member.type,
            ) == (0, 0, "", "", 0, 0o644, tarfile.REGTYPE)
            stream = read.extractfile(member)
            assert stream is not None and stream.read() == MEMBERS[member.name[2:]]
    assert (tmp_path / "a.tar").stat().st_size % tarfile.RECORDSIZE == 0


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("", "empty part"),
        ("/etc/passwd", "absolute"),
        ("../a", "climbing"),
        ("a/../../b", "climbing"),
        ("a//b", "empty part"),
        ("./a", "climbing or hidden"),
        ("a/", "empty part"),
        ("-", "other systems"),
        ("a\\b", "backslash"),
        ("C:\\a", "backslash"),
        ("C:a", "colon"),
        ("a\nb", "control"),
        ("a\0", "control"),
        ("a\u202eb", "invisible"),
        ("a\udc80", "invisible"),
        (".git/config", "hidden"),
        ("a/.gitattributes", "hidden"),
        ("models/base/.modeling.py", "hidden"),
        ("a /b", "other systems"),
        ("nul.txt", "other systems"),
        ("a/COM1", "other systems"),
        ("a?", "other systems"),
        ("x" * 101, "too long"),
        ("a/" * 16 + "b", "16 parts"),
    ],
)
def test_a_name_that_means_something_else_somewhere_is_refused(tmp_path: Path, name: str, word: str) -> None:
    with pytest.raises(PackageError, match=word):
        archive.write_tar(tmp_path / "a.tar", {"ok": b"", name: b""}, root="r")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("names", "word"),
    [
        (("A", "a"), "case"),
        (("é", "e\u0301"), "normalisation"),
        (("straße", "STRASSE"), "case"),
        (("a/b", "A/c"), "case"),
        (("a", "a/b"), "at once"),
        (("A/b", "a"), "at once"),
        (("e\u0301/x", "é/y"), "normalisation"),
    ],
)
def test_names_that_are_one_for_some_system_are_refused(
    tmp_path: Path, names: tuple[str, str], word: str
) -> None:
    for order in (names, names[::-1]):
        with pytest.raises(PackageError, match=word):
            archive.write_tar(tmp_path / "a.tar", dict.fromkeys(order, b""), root="r")


def test_names_that_only_look_alike_may_lie_together(tmp_path: Path) -> None:
    names = ["a", "a-b/c", "a.b", "ab/c", "aux1", "b/a", "b/a.x", "b/ab", "con-1", "gitignore", "я"]
    archive.write_tar(tmp_path / "a.tar", dict.fromkeys(names, b""), root="r")


def test_a_source_that_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"1")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, word in [
        ("link", "a link"),
        ("folder", "a folder"),
        ("pipe", "no regular file"),
        ("missing", "nothing"),
    ]:
        with pytest.raises(PackageError, match=f"found {word}"):
            archive.write_tar(tmp_path / "a.tar", {"a": tmp_path / name}, root="r")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link", "pipe", "real"]


@pytest.mark.parametrize("change", ["grows", "shrinks", "is written again"])
def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    source, real = tmp_path / "source", archive.header
    source.write_bytes(b"x" * 2000)
    changes: dict[str, Callable[[], object]] = {
        "grows": lambda: source.write_bytes(b"x" * 2001),
        "shrinks": lambda: os.truncate(source, 1999),
        "is written again": lambda: (source.write_bytes(b"y" * 2000), os.utime(source, (1, 1))),
    }

    def header(name: str, size: int) -> bytes:
        if size:  # so between the look at its size and the first read
            changes[change]()
        return real(name, size)

    monkeypatch.setattr(archive, "header", header)
    (tmp_path / "a.tar").write_bytes(b"old")
    with pytest.raises(PackageError, match="changed while it was read"):
        archive.write_tar(tmp_path / "a.tar", {"a": source}, root="r")
    assert (tmp_path / "a.tar").read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "source"]


def test_a_file_too_large_for_a_tar_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as stream:
        stream.truncate(8**11)
    with pytest.raises(PackageError, match="below 8 GiB"):
        archive.write_tar(tmp_path / "a.tar", {"a": tmp_path / "huge"}, root="r")


def test_a_disk_that_fills_up_leaves_the_old_archives_whole_and_no_litter(tmp_path: Path) -> None:
    small: dict[str, bytes | Path] = {"a": b"1"}
    archive.write_tar(tmp_path / "a.tar", small, root="r")
    archive.write_gz(tmp_path / "a.tar.gz", tmp_path / "a.tar")
    (tmp_path / "noise").write_bytes(b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(8000)))
    archive.write_tar(tmp_path / "noise.tar", {"noise": tmp_path / "noise"}, root="r")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    code = (
        "import resource, sys; from pathlib import Path; from assay.stages.packing import archive\n"
        "here = Path(sys.argv[1]); resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)); failed = 0\n"
        "for write in (lambda: archive.write_tar(here / 'a.tar', {'noise': here / 'noise'}, root='r'),\n"
        "              lambda: archive.write_gz(here / 'a.tar.gz', here / 'noise.tar')):\n"
        "    try: write()\n"
        "    except OSError as error: failed += str(here / 'a.tar') in str(error)\n"
        "sys.exit(failed)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == 2
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_archive_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, there = os.fsync, []

    def fsync(handle: int) -> None:
        there.append((tmp_path / "a.tar").exists())
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    archive.write_tar(tmp_path / "a.tar", MEMBERS, root="r")
    assert there == [False, True]  # the file, and the folder after the renaming


def test_large_files_never_lie_in_memory(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as stream:
        stream.truncate(64 << 20)
    tracemalloc.start()
    try:
        archive.write_tar(tmp_path / "a.tar", {"adapter": tmp_path / "large"}, root="r")
        archive.write_gz(tmp_path / "a.tar.gz", tmp_path / "a.tar")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_a_gzip_has_neither_clock_nor_name_and_gives_back_the_tar(tmp_path: Path) -> None:
    archive.write_tar(tmp_path / "a.tar", MEMBERS, root="r")
    archive.write_gz(tmp_path / "1.gz", tmp_path / "a.tar")
    archive.write_gz(tmp_path / "2.gz", tmp_path / "a.tar")
    packed = (tmp_path / "1.gz").read_bytes()
    assert packed == (tmp_path / "2.gz").read_bytes()
    assert packed[:8] == b"\x1f\x8b\x08\0" + bytes(4)
    assert gzip.decompress(packed) == (tmp_path / "a.tar").read_bytes()


@pytest.mark.skipif(not shutil.which("tar"), reason="no tar here")
@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
def test_plain_tar_unpacks_it_without_a_word(tmp_path: Path, name: str) -> None:
    archive.write_tar(tmp_path / "a.tar", MEMBERS, root="r")
    archive.write_gz(tmp_path / "a.tar.gz", tmp_path / "a.tar")
    done = subprocess.run(["tar", "xf", name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {name: (tmp_path / "r" / name).read_bytes() for name in MEMBERS} == MEMBERS


def test_the_list_covers_everything_but_itself_whatever_the_order(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"22")
    sealed = archive.sealed({"b": tmp_path / "b", "a/é": b"1"})
    assert sealed == archive.sealed({"a/é": b"1", "b": tmp_path / "b"})
    assert sealed["b"] == tmp_path / "b" and isinstance(sealed["SHA256SUMS"], bytes)
    found = dict(reversed(line.split("  ", 1)) for line in sealed["SHA256SUMS"].decode().splitlines())
    assert found == {"a/é": hashlib.sha256(b"1").hexdigest(), "b": hashlib.sha256(b"22").hexdigest()}
    identity = archive.write_tar(tmp_path / "a.tar", sealed)
    assert identity == hashlib.sha256(sealed["SHA256SUMS"]).hexdigest()


def test_no_file_may_take_the_place_of_the_list_and_no_link_is_measured(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="no SHA256SUMS among the files"):
        archive.sealed({"SHA256SUMS": b""})
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(PackageError, match="found a link"):
        archive.sealed({"a": tmp_path / "link"})
