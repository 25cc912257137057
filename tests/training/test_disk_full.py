"""A disk that fills up costs what could not be written and nothing else; with room again the training ends as
ever."""

from __future__ import annotations

import functools
import os
import resource
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from assay.core.storage.append_log import read_complete
from assay.pipeline.live_log import Live
from assay.pipeline.run_folder import RunFolder
from assay.training.checkpoints.store import Checkpoints
from tests.training import crash_harness
from tests.training.crash_harness import Left, before, command, differences, ended, fork

STEPS, STEP = 6, 4  # nothing more fits once step 4 is to be saved, told, or shown
PARAMS = crash_harness.settings(STEPS)


@dataclass(frozen=True)
class Disk:
    """A place for a training, and how to use up its room but for some bytes; called in the child that
    trains."""

    root: Path
    fill: Callable[[int], None]
    empty: Callable[[], None]


def _small_disk(folder: Path) -> bool:
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    try:
        return subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _limit(room: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def _fill(filler: Path, room: int) -> None:
    with filler.open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(bytes(1 << 16))
        except OSError:
            pass
        os.ftruncate(stream.fileno(), stream.tell() // 4096 * 4096 - room)


@pytest.fixture(params=["a full disk", "a limit on files"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """Yield a small disk of its own or, which works everywhere, a limit on the size of files."""
    if request.param == "a limit on files":
        # As bytes that a file may have: a small one still fits where a large one does not.
        yield Disk(tmp_path, _limit, lambda: None)
        return
    folder = tmp_path / "disk"
    folder.mkdir()
    if not _small_disk(folder):
        pytest.skip("no file system can be mounted here")
    try:
        yield Disk(folder, functools.partial(_fill, folder / "filler"), (folder / "filler").unlink)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Left:
    crash_harness.warm()
    folder = tmp_path_factory.mktemp("whole")
    left = ended(fork(lambda: crash_harness.training(folder, PARAMS), folder), folder)
    assert isinstance(left, dict)
    return left


def call(disk: Disk, out: Path, prepare: Callable[[], None]) -> str:
    """Return what a training says that ends for want of room."""
    (out / "said").unlink(missing_ok=True)

    def work() -> int:
        prepare()
        return command(lambda: crash_harness.training(disk.root, PARAMS))

    code = ended(fork(work, out), out)
    said = (out / "said").read_text("utf-8")
    assert code == 1, said
    assert "Traceback" not in said
    last = said[said.rindex("assay: ") :]
    assert last.count("expected") == last.count("found") == last.count("Fix:") == 1
    return last


def tables(root: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in sorted((root / "evidence").rglob("*.*"))
        if "observed" not in path.parts
    }


def goes_on(disk: Disk, out: Path, whole: Left) -> None:
    """Expect that the training goes on, once there is room, to the same end."""
    disk.empty()
    left = ended(fork(lambda: crash_harness.training(disk.root, PARAMS), out), out)
    assert differences(whole, left) == []


@pytest.mark.parametrize("room", [0, 8192, 40960, 102400])
def test_a_checkpoint_that_does_not_fit_costs_only_itself(
    disk: Disk, tmp_path: Path, whole: Left, room: int
) -> None:
    def fill(checkpoints: Checkpoints, step: int, *_: Any) -> None:
        if step == STEP:
            disk.fill(room or 1)

    if room == 102400 and disk.root == tmp_path:
        pytest.skip("each of its files fits")
    said = call(disk, tmp_path / "child", lambda: before(Checkpoints, "save", fill))
    assert "No space left" in said or "File too large" in said
    assert f"{crash_harness.run_folder(disk.root)}: expected room for a checkpoint, found " in said
    assert "goes on from step-000002, which was read through and is intact" in said
    checkpoints = crash_harness.checkpoints(disk.root)
    newest = checkpoints.newest()
    assert newest is not None and newest.step == 2 and checkpoints.damaged == []
    goes_on(disk, tmp_path / "child", whole)


def test_an_event_that_does_not_fit_is_not_half_there(disk: Disk, tmp_path: Path, whole: Left) -> None:
    def fill(folder: RunFolder, event: dict[str, Any]) -> None:
        if event["event"] == "checkpoint" and event["step"] == STEP:
            event["padding"] = "x" * 5000  # more than what is left of the last block
            disk.fill(1)

    said = call(disk, tmp_path / "child", lambda: before(RunFolder, "log", fill))
    log = crash_harness.run_folder(disk.root) / "run_log.jsonl"
    assert f"{log}: expected a file system that can be read and written, found " in said
    events = list(read_complete(log))
    assert [event.get("step") for event in events if event["event"] == "checkpoint"] == [0, 2]
    assert log.read_bytes().endswith(b"}\n"), "nothing is torn"
    newest = crash_harness.checkpoints(disk.root).newest()
    assert newest is not None and newest.step == STEP, "the checkpoint itself had been saved"
    goes_on(disk, tmp_path / "child", whole)


def test_a_table_that_does_not_fit_leaves_the_old_one(disk: Disk, tmp_path: Path, whole: Left) -> None:
    kept = tmp_path / "kept"

    def fill(live: Live) -> None:
        if (
            live._history.training_log[-1:]
            and live._history.training_log[-1]["step"] == STEP
            and not kept.exists()
        ):
            kept.mkdir()
            for name, content in tables(disk.root).items():
                (kept / name).write_bytes(content)
            disk.fill(1)

    said = call(disk, tmp_path / "child", lambda: before(Live, "publish", fill))
    assert f"{disk.root}/evidence/results/" in said
    assert "found No space left" in said or "found File too large" in said
    assert tables(disk.root) == {path.name: path.read_bytes() for path in sorted(kept.iterdir())}, (
        "whole, and of before"
    )
    newest = crash_harness.checkpoints(disk.root).newest()
    assert newest is not None and newest.step == 2
    goes_on(disk, tmp_path / "child", whole)


def test_a_full_folder_for_temporary_files_is_told_like_any_other(tmp_path: Path, whole: Left) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    if not _small_disk(temporary):
        pytest.skip("no file system can be mounted here")

    def fill(checkpoints: Checkpoints, step: int, *_: Any) -> None:
        if step == 2:
            _fill(temporary / "filler", 1)

    def prepare() -> None:
        tempfile.tempdir = str(temporary)
        before(Checkpoints, "save", fill)

    disk = Disk(tmp_path / "root", lambda room: None, (temporary / "filler").unlink)
    try:
        said = call(disk, tmp_path / "child", prepare)
        assert "No space left" in said
        goes_on(disk, tmp_path / "child", whole)
    finally:
        subprocess.run(["umount", "-l", str(temporary)], check=True)
