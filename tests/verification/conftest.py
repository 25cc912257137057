"""One made run for all tests of the room, and copies of it to tamper with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from assay.package.archive import unpack
from tests.verification.made_run import made_run, packaged


@pytest.fixture(scope="session")
def tar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    return packaged(made_run(folder / "run"), folder / "dist")


@pytest.fixture(scope="session")
def pristine(tar: Path) -> Path:
    """The unpacked package; nobody writes in it."""
    folder = tar.parent / "unpacked"
    unpack(tar, folder)
    return folder


@pytest.fixture
def unpacked(pristine: Path, tmp_path: Path) -> Path:
    """A copy of it, for one test."""
    return Path(shutil.copytree(pristine, tmp_path / "package"))
