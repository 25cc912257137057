"""The digest of a folder is that of names and bytes, and of nothing else."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.core.storage.untrusted import sha256_contents


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("folder/a.py", "folder/deep/b.py", "folder/c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path / "folder"


def test_a_file_has_the_digest_of_its_bytes_and_nothing_has_none(folder: Path) -> None:
    assert sha256_contents(folder / "a.py") == hashlib.sha256(b"folder/a.py").hexdigest()
    assert sha256_contents(folder / "d") is None


def leave_caches(folder: Path) -> None:
    (folder / "deep/__pycache__").mkdir()
    (folder / "deep/__pycache__/b.pyc").write_bytes(b"x")


def link(folder: Path) -> None:
    shutil.move(folder / "c", folder.parent / "elsewhere")
    (folder / "c").symlink_to(folder.parent / "elsewhere")


@pytest.mark.parametrize("act", [leave_caches, link, lambda folder: os.utime(folder / "c", (1, 1))])
def test_what_is_no_content_changes_nothing(folder: Path, act: Callable[[Path], None]) -> None:
    before = sha256_contents(folder)
    act(folder)
    assert sha256_contents(folder) == before


@pytest.mark.parametrize(
    "act",
    [
        lambda folder: (folder / "deep/b.py").write_text("folder/deep/B.py"),
        lambda folder: (folder / "deep/b.py").rename(folder / "b.py"),
        lambda folder: (folder / "new").write_text(""),
        lambda folder: (folder / "c").unlink(),
    ],
)
def test_another_name_or_byte_is_another_digest(folder: Path, act: Callable[[Path], None]) -> None:
    before = sha256_contents(folder)
    act(folder)
    assert sha256_contents(folder) != before
