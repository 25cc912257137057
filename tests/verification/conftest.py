"""One made run for all tests of the room, and copies of it to tamper with."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from assay.core.evidence_files import place_of
from assay.stages.packing.archive import unpack
from assay.stages.render_evidence import render
from assay.verdict.evidence.figures.gallery import Drawn
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


@pytest.fixture(scope="session")
def _worked_on(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(pristine, tmp_path_factory.mktemp("worked on") / "package"))


@pytest.fixture
def unpacked(pristine: Path, _worked_on: Path) -> Iterator[Path]:
    """A copy of it, for one test.

    It is the same one for all of them, since a package has hundreds of files and most tests change one of
    them: what a test has changed, added or removed is put back behind it.
    """
    before = _states(_worked_on)
    yield _worked_on
    after = _states(_worked_on)
    for name in sorted(after.keys() - before.keys(), reverse=True):  # what lies in a folder before the folder
        path = _worked_on / name
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    for name in sorted(name for name, state in before.items() if after.get(name) != state):
        if (pristine / name).is_dir():
            (_worked_on / name).mkdir()
        else:
            (_worked_on / name).unlink(missing_ok=True)
            shutil.copy2(pristine / name, _worked_on / name)


def _states(root: Path) -> dict[str, tuple[int, ...]]:
    """Return what tells of each file and folder below one whether it is still the same."""
    found = dict[str, tuple[int, ...]]()
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = os.path.join(folder, name)
            told = os.lstat(path)
            same = (told.st_ino, told.st_mtime_ns, told.st_size) if stat.S_ISREG(told.st_mode) else ()
            found[os.path.relpath(path, root)] = (told.st_mode, *same)
    return found


@pytest.fixture
def figures_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Let every figure be that of a run or a package and not be drawn, which is most of what a rendering
    costs: for tests of all the rest of it."""

    def take(root: Path) -> None:
        folder = root / place_of("figures")

        def stored(gallery: Sequence[Drawn]) -> dict[str, dict[str, bytes]]:
            return {
                each.name: {kind: (folder / f"{each.name}.{kind}").read_bytes() for kind in ("png", "svg")}
                for each in gallery
            }

        monkeypatch.setattr(render, "_rendered", stored)

    return take


@pytest.fixture
def figures_as_stored(pristine: Path, figures_of: Callable[[Path], None]) -> None:
    """Every figure is the one of the made run."""
    figures_of(pristine)
