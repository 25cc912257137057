"""The checker of files: of a tar, a gzip and a folder, with the standard library alone; each thing that is
off is named."""

from __future__ import annotations

import ast
import gzip
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.core.errors import PackageError
from assay.stages.packing import archive, layout, provenance, verify
from assay.stages.packing.layout import NAME
from tests import house

VERIFIER = Path(verify.__file__)
FILES: dict[str, bytes | Path] = {
    "verify.py": VERIFIER,
    "provenance.json": b'{"format":"assay-package/7"}\n',
    "data/a/é.jsonl": b'{"a": 1}\n',
    "claim.json": b"{}\n",
    "empty": b"",
}
Edit = Callable[[dict[str, bytes]], object]


@pytest.fixture
def tar(tmp_path: Path) -> Path:
    path = tmp_path / "assay-package.tar"
    archive.write_tar(path, archive.sealed(FILES))
    archive.write_gz(tmp_path / "assay-package.tar.gz", path)
    return path


def outcomes(result: verify.Result) -> dict[str, bool | None]:
    return {finding.name: finding.ok for finding in result.findings}


def text_of(result: verify.Result, name: str) -> str:
    return next(finding.text for finding in result.findings if finding.name == name)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_package_passes_every_check(tar: Path, suffix: str) -> None:
    sums = archive.sealed(FILES)["SHA256SUMS"]
    assert isinstance(sums, bytes)
    identity = hashlib.sha256(sums).hexdigest()
    result = verify.check(f"{tar}{suffix}", sha256=identity.upper())
    assert result.ok and set(outcomes(result).values()) == {True}
    assert result.sha256 == identity
    assert set(result.files) == {*FILES, "SHA256SUMS"}


def test_an_unpacked_package_passes_and_has_the_identity_of_its_tar(tar: Path, tmp_path: Path) -> None:
    packed = archive.unpack(tar, tmp_path / "unpacked")
    found = verify.check(tmp_path / "unpacked", sha256=packed.sha256)
    assert found.ok and set(outcomes(found).values()) == {True}
    assert (found.sha256, found.files) == (packed.sha256, packed.files)
    for name, content in FILES.items():
        expected = content if isinstance(content, bytes) else content.read_bytes()
        assert (tmp_path / "unpacked" / name).read_bytes() == expected


def test_a_digest_counts_if_it_was_given(tar: Path) -> None:
    result = verify.check(tar)
    assert result.ok and outcomes(result)["digest"] is None
    assert str(result.sha256) in text_of(result, "digest")
    assert outcomes(verify.check(tar, sha256="0" * 64))["digest"] is False


def edited(change: Edit) -> dict[str, bytes | Path]:
    sealed = archive.sealed(FILES)
    plain = {
        name: content if isinstance(content, bytes) else content.read_bytes()
        for name, content in sealed.items()
    }
    change(plain)
    return dict(plain)


def swap(name: str, old: bytes, new: bytes) -> Edit:
    def change(files: dict[str, bytes]) -> None:
        assert old in files[name]
        files[name] = files[name].replace(old, new, 1)

    return change


OLD = b'{"files":{},"format":"assay-package/3"}\n'
EDITS: dict[str, tuple[Edit, str, str]] = {
    "a changed file": (lambda f: f.update({"claim.json": b"{ }\n"}), "SHA256SUMS", "changed: claim.json"),
    "a missing file": (lambda f: f.pop("empty"), "SHA256SUMS", "listed and not there: empty"),
    "one file more": (lambda f: f.update({"more": b""}), "SHA256SUMS", "there and not listed: more"),
    "a renamed file": (
        lambda f: f.update({"full": f.pop("empty")}),
        "SHA256SUMS",
        "there: empty; there and not listed: full",
    ),
    "no sums": (lambda f: f.pop("SHA256SUMS"), "SHA256SUMS", "there is no SHA256SUMS"),
    "no provenance": (lambda f: f.pop("provenance.json"), "format", "says none"),
    "another format": (
        swap("provenance.json", b"package/7", b"package/8"),
        "format",
        "says assay-package/8, and this reads assay-package/7",
    ),
    "the format before this one": (
        lambda f: f.update({"manifest.json": OLD, "provenance.json": b"{}"}),
        "format",
        "says assay-package/3, and this reads assay-package/7. Check it with the version that wrote it",
    ),
    "two formats": (lambda f: f.update({"manifest.json": OLD}), "format", "package/3 and assay-package/7"),
    "a line twice": (
        lambda f: f.update({"SHA256SUMS": f["SHA256SUMS"] + f["SHA256SUMS"][-76:]}),
        "SHA256SUMS",
        "twice",
    ),
    "lines in another order": (
        lambda f: f.update({"SHA256SUMS": b"\n".join(f["SHA256SUMS"].splitlines()[::-1]) + b"\n"}),
        "SHA256SUMS",
        "order",
    ),
    "a line of another kind": (
        lambda f: f.update({"SHA256SUMS": b"# trust me\n" + f["SHA256SUMS"]}),
        "SHA256SUMS",
        "something more",
    ),
    "sums that list themselves": (
        lambda f: f.update({"SHA256SUMS": b"0" * 64 + b"  SHA256SUMS\n" + f["SHA256SUMS"]}),
        "SHA256SUMS",
        "not there: SHA256SUMS",
    ),
    "bytes that are no text": (
        lambda f: f.update({"SHA256SUMS": b"\xff\0" * 99}),
        "SHA256SUMS",
        "there and not listed",
    ),
    "a list longer than any": (
        lambda f: f.update({"SHA256SUMS": b" " * 16_000_001}),
        "SHA256SUMS",
        "longer than any",
    ),
}


@pytest.mark.parametrize("case", EDITS)
def test_what_was_changed_without_its_lists_is_named(tmp_path: Path, case: str) -> None:
    change, where, words = EDITS[case]
    archive.write_tar(tmp_path / "a.tar", edited(change), root=NAME)
    result = verify.check(tmp_path / "a.tar")
    failed = [finding for finding in result.findings if finding.ok is False]
    assert "None" not in "".join(finding.text for finding in result.findings)
    assert outcomes(result)["form"] and where in [finding.name for finding in failed]
    with pytest.raises(PackageError, match=words):
        archive.unpack(tmp_path / "a.tar", tmp_path / "unpacked")
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar"]


def test_many_faults_are_counted_not_all_listed(tmp_path: Path) -> None:
    more = {f"more{n:03}": b"" for n in range(100)}
    archive.write_tar(tmp_path / "a.tar", edited(lambda files: files.update(more)), root=NAME)
    assert text_of(verify.check(tmp_path / "a.tar"), "SHA256SUMS").endswith("more004; and 95 more")


def test_any_changed_byte_is_refused(tar: Path, tmp_path: Path) -> None:
    content, pick = tar.read_bytes(), random.Random(1)
    for place in pick.sample(range(len(content)), 300):
        (tmp_path / "b.tar").write_bytes(
            content[:place] + bytes([content[place] ^ 1 << pick.randrange(8)]) + content[place + 1 :]
        )
        assert not verify.check(tmp_path / "b.tar").ok, place


def spoil(folder: Path, what: str) -> None:
    file = folder / "claim.json"
    if what == "a file more":
        (folder / "data/more").write_bytes(b"")
    elif what == "a symbolic link":
        file.rename(folder.parent / "claim.json")
        file.symlink_to(folder.parent / "claim.json")
    elif what == "a linked folder":
        (folder / "data").rename(folder.parent / "data")
        (folder / "data").symlink_to(folder.parent / "data")
    elif what == "a named pipe":
        file.unlink()
        os.mkfifo(file)
    elif what == "an empty folder":
        (folder / "nothing").mkdir()
    elif what == "a name with a bell":
        (folder / "\x1b[2Jx\n\u202e").write_bytes(b"")
    elif what == "a hub's file":
        (folder / ".gitattributes").write_bytes(b"")
    elif what == "another case":
        (folder / "CLAIM.json").write_bytes(b"{}\n")
    elif what == "a deep folder":
        (folder / ("d/" * 30)).mkdir(parents=True)
    else:
        os.rename(os.fsencode(file), os.fsencode(folder) + b"/\xff")


@pytest.mark.parametrize(
    ("what", "where", "words"),
    [
        ("a file more", "SHA256SUMS", "not listed: data/more"),
        ("a symbolic link", "form", "claim.json (a link, a pipe"),
        ("a linked folder", "form", "data (a link, a pipe"),
        ("a named pipe", "form", "claim.json (a link, a pipe"),
        ("an empty folder", "form", "nothing (an empty folder)"),
        ("a name with a bell", "form", r"\x1b[2Jx\n\u202e"),
        ("a hub's file", "form", "--allow NAME"),
        ("another case", "form", "but for case"),
        ("a deep folder", "form", "(an empty folder)"),
        ("bytes that are no text", "form", "invisible"),
    ],
)
def test_a_folder_with_anything_else_in_it_fails(
    tar: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str, where: str, words: str
) -> None:
    archive.unpack(tar, tmp_path / "unpacked")
    spoil(tmp_path / "unpacked", what)
    result = verify.check(tmp_path / "unpacked")
    assert outcomes(result)[where] is False and words in text_of(result, where)
    assert verify.main([str(tmp_path / "unpacked")]) == 1
    assert not set(capsys.readouterr().out) & {"\x1b", "\u202e", "\udcff"}


def test_what_a_hub_put_there_can_be_left_out_by_name_and_is_said(tar: Path, tmp_path: Path) -> None:
    archive.unpack(tar, tmp_path / "unpacked")
    (tmp_path / "unpacked/.gitattributes").write_bytes(b"")
    (tmp_path / "unpacked/.cache").symlink_to("/")
    result = verify.check(tmp_path / "unpacked", allow=[".gitattributes", ".cache"])
    assert result.ok and "left out as allowed: .cache, .gitattributes" in text_of(result, "form")
    assert not verify.check(tmp_path / "unpacked", allow=[".gitattributes", ".cache", "claim.json"]).ok


@pytest.mark.parametrize(
    "there", ["a file", "a folder with something", "a link to a folder", "a dangling link"]
)
def test_nothing_is_unpacked_into_a_place_that_is_taken(tar: Path, tmp_path: Path, there: str) -> None:
    target, other = tmp_path / "target", tmp_path / "other"
    other.mkdir()
    if there == "a file":
        target.write_bytes(b"mine")
    elif there == "a folder with something":
        target.mkdir()
        (target / "mine").write_bytes(b"")
    else:
        target.symlink_to(other if there == "a link to a folder" else "missing")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(PackageError, match="new or empty folder"):
        archive.unpack(tar, target)
    assert sorted(tmp_path.rglob("*")) == before and not list(other.iterdir())


def test_a_folder_that_was_empty_is_empty_again_after_a_refusal(tar: Path, tmp_path: Path) -> None:
    tar.write_bytes(tar.read_bytes()[:-1])
    (tmp_path / "target").mkdir()
    with pytest.raises(PackageError):
        archive.unpack(tar, tmp_path / "target")
    assert list((tmp_path / "target").iterdir()) == []


def test_a_disk_that_fills_up_leaves_nothing(
    tar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tarfile.TarFile.makefile

    def full(self: tarfile.TarFile, entry: tarfile.TarInfo, path: str) -> None:
        if entry.name.endswith("empty"):
            raise OSError(28, "No space left on device", path)
        real(self, entry, path)

    monkeypatch.setattr(tarfile.TarFile, "makefile", full)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OSError, match="No space"):
        archive.unpack(tar, tmp_path / "target")
    assert sorted(tmp_path.iterdir()) == before


def test_an_archive_that_is_exchanged_after_it_was_checked_leaves_nothing(
    tar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = archive.check, []

    def exchanged(path: Path, *, sha256: str | None = None) -> verify.Result:
        result = real(path, sha256=sha256)
        if not calls:
            archive.write_tar(tar, archive.sealed({**FILES, "claim.json": b"another\n"}))
        calls.append(path)
        return result

    monkeypatch.setattr(archive, "check", exchanged)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(PackageError, match="digest"):
        archive.unpack(tar, tmp_path / "target")
    assert len(calls) == 2 and sorted(tmp_path.iterdir()) == before


def test_what_is_no_archive_any_more_after_it_was_checked_is_refused_in_one_message(
    tar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = archive.check

    def exchanged(path: Path, *, sha256: str | None = None) -> verify.Result:
        result = real(path, sha256=sha256)
        tar.write_bytes(b"no tar" * 1000)
        return result

    monkeypatch.setattr(archive, "check", exchanged)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(PackageError, match="an archive that stays as it is"):
        archive.unpack(tar, tmp_path / "target")
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_deeper_than_any_package_is_refused_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def walk(*_: object) -> list[Path]:
        raise RecursionError("maximum recursion depth exceeded")  # as of 1,000 folders in each other

    monkeypatch.setattr(Path, "rglob", walk)
    (finding,) = verify.check(tmp_path).findings
    assert finding.name == "form" and finding.ok is False


def test_a_file_in_a_folder_that_grows_while_it_is_read_is_refused(
    tar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.unpack(tar, tmp_path / "unpacked")
    real, looks = os.fstat, []

    def fstat(handle: int) -> os.stat_result:
        found = real(handle)
        looks.append(found.st_size)
        if looks.count(len(b"{}\n")) == 2:  # the second is that for its size
            (tmp_path / "unpacked/claim.json").write_bytes(b"{}\n ")
        return found

    monkeypatch.setattr(os, "fstat", fstat)
    (finding,) = verify.check(tmp_path / "unpacked").findings
    assert finding.ok is False and "one that grows" in finding.text


def run(
    *arguments: str | Path, cwd: Path, options: tuple[str, ...] = ("-I", "-S")
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *options, *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=60, env={"LANG": "C"}
    )


def test_it_works_alone_in_a_folder_without_any_package_installed(tar: Path, tmp_path: Path) -> None:
    shutil.copy(VERIFIER, tmp_path / "verify.py")
    done = run("verify.py", tar.name, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.count("ok   ") == 3
    assert run("verify.py", f"{tar.name}.gz", "--sha256", "0" * 64, cwd=tmp_path).returncode == 1
    for wrong in (["missing.tar"], ["--sha256", "12", tar.name], ["--what"]):
        assert run("verify.py", *wrong, cwd=tmp_path).returncode == 2


def test_a_terminal_that_knows_ascii_alone_is_told_too(tar: Path, tmp_path: Path) -> None:
    archive.unpack(tar, tmp_path / "unpacked")
    (tmp_path / "unpacked/data/a/é.jsonl").write_bytes(b"")
    environment = {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, VERIFIER, tmp_path / "unpacked"], capture_output=True, env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (1, b"") and rb"changed: data/a/\xe9.jsonl" in done.stdout


def test_inside_an_unpacked_package_it_checks_that_package(tar: Path, tmp_path: Path) -> None:
    archive.unpack(tar, tmp_path / "unpacked")
    done = run("verify.py", cwd=tmp_path / "unpacked", options=())
    assert done.returncode == 0 and f"{len(FILES) + 1} regular files" in done.stdout
    assert run("unpacked/verify.py", cwd=tmp_path, options=()).stdout == done.stdout
    (tmp_path / "unpacked/claim.json").write_bytes(b"")
    assert run("verify.py", cwd=tmp_path / "unpacked", options=()).returncode == 1


def test_a_module_that_came_with_a_package_is_not_run_in_place_of_the_librarys(
    tar: Path, tmp_path: Path
) -> None:
    archive.unpack(tar, tmp_path / "unpacked")
    for name in ("hashlib", "json", "argparse", "os", "zlib", "__future__", "typing", "contextlib"):
        (tmp_path / f"unpacked/{name}.py").write_text("raise SystemExit(0)\n")
    done = run("verify.py", cwd=tmp_path / "unpacked", options=())
    assert done.returncode == 1 and "there and not listed: __future__.py" in done.stdout


def test_it_imports_the_standard_library_alone_and_is_python_3_9() -> None:
    assert {name.split(".")[0] for name in house.imported(VERIFIER)} <= sys.stdlib_module_names
    ast.parse(VERIFIER.read_text(encoding="utf-8"), feature_version=(3, 9))


def test_the_checker_that_imports_nothing_knows_the_same_names() -> None:
    assert verify.FORMAT == provenance.FORMAT
    assert (verify.ROOT, verify.SUMS, verify.PROVENANCE) == (layout.NAME, layout.SUMS, layout.PROVENANCE)


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="no sha256sum here")
def test_plain_sha256sum_accepts_it_and_refuses_a_changed_one(tar: Path, tmp_path: Path) -> None:
    subprocess.run(["tar", "xf", tar.name], cwd=tmp_path, check=True)
    command = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    assert subprocess.run(command, cwd=tmp_path / NAME, check=False).returncode == 0
    identity = f"{verify.check(tar).sha256}  {NAME}/SHA256SUMS\n"
    whole = ["sha256sum", "-c", "-"]
    assert subprocess.run(whole, cwd=tmp_path, check=False, input=identity, text=True).returncode == 0
    (tmp_path / NAME / "claim.json").write_bytes(b"")
    assert subprocess.run(command, cwd=tmp_path / NAME, capture_output=True, check=False).returncode == 1


def test_a_gzip_somebody_else_made_of_the_tar_is_the_same_package(tar: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.tar.gz"
    again.write_bytes(gzip.compress(tar.read_bytes(), compresslevel=1, mtime=7))
    assert verify.check(again, sha256=verify.check(tar).sha256).ok
