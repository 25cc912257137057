"""The lists of a package: canonical, complete, and read back strictly."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from assay.core.errors import PackageError
from assay.package import manifest, verify
from assay.package.names import MANIFEST, NAME, SUMS, VERIFIER


def test_both_lists_cover_everything_but_themselves(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"22")
    sealed = manifest.sealed({"b": tmp_path / "b", "a/é": b"1"})
    assert sealed["b"] == tmp_path / "b"
    text, sums = sealed[MANIFEST], sealed[SUMS]
    assert isinstance(text, bytes) and isinstance(sums, bytes)
    assert json.loads(text) == {
        "format": "assay-package/3",
        "files": {
            "a/é": {"sha256": hashlib.sha256(b"1").hexdigest(), "size": 1},
            "b": {"sha256": hashlib.sha256(b"22").hexdigest(), "size": 2},
        },
    }
    found = dict(reversed(line.split("  ", 1)) for line in sums.decode().splitlines())
    assert list(found) == ["a/é", "b", MANIFEST]
    assert found[MANIFEST] == hashlib.sha256(text).hexdigest()


def test_a_list_does_not_depend_on_the_order_of_files() -> None:
    assert manifest.sealed({"a": b"1", "b": b"2"}) == manifest.sealed({"b": b"2", "a": b"1"})


@pytest.mark.parametrize("name", [MANIFEST, SUMS])
def test_no_file_may_take_the_place_of_a_list(name: str) -> None:
    with pytest.raises(PackageError, match=f"no {name} among the files"):
        manifest.sealed({name: b""})


def test_a_link_is_not_measured(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(PackageError, match="found a link"):
        manifest.sealed({"a": tmp_path / "link"})


def test_a_manifest_is_read_back_as_it_was_written() -> None:
    text = manifest.sealed({"a": b"1", "é": b""})[MANIFEST]
    assert isinstance(text, bytes)
    read = manifest.read_manifest(text.decode(), where="x")
    assert read.files == {"a": manifest.entry_of(b"1"), "é": manifest.entry_of(b"")}
    assert manifest.manifest_text(read.files).encode() == text


LISTS, SHA = '{"files":{"a":{"sha256":"', "0" * 64


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "Expecting"),
        ("{}\n", "format"),
        ("[" * 9, "deeper"),
        ('{"files":{},"files":{},"format":"assay-package/3"}\n', "duplicate"),
        ('{"files":{},"format":"assay-package/1"}\n', "its source lies in the package"),
        ('{"files":{},"format":"assay-package/3"}', "another form"),
        ('{"format":"assay-package/3","files":{}}\n', "another form"),
        ('{"files": {},"format":"assay-package/3"}\n', "another form"),
        ('{"files":{"a":{"sha256":"0","size":1}},"format":"assay-package/3"}\n', "sha256"),
        (LISTS + SHA + '","size":-1}},"format":"assay-package/3"}\n', "size"),
        (LISTS + SHA + '","size":1.0}},"format":"assay-package/3"}\n', "size"),
        (LISTS + SHA + '\\n","size":1}},"format":"assay-package/3"}\n', "sha256"),
        ('{"files":{},"format":"assay-package/3","more":1}\n', "more"),
    ],
)
def test_anything_but_the_canonical_form_is_refused(text: str, word: str) -> None:
    with pytest.raises(PackageError, match=word):
        manifest.read_manifest(text, where="x")


def test_the_checker_that_imports_nothing_knows_the_same_names() -> None:
    assert (verify.FORMAT, verify.MANIFEST, verify.SUMS) == (manifest.FORMAT, MANIFEST, SUMS)
    assert (verify.ROOT, verify.VERIFIER, verify.LONGEST_LIST) == (NAME, VERIFIER, manifest.MAX_CHARS)
