"""A lock is held by one process, and by nobody once that process has ended, however it did."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import assay
from assay.core.errors import AssayError, RecordError, RunningAlready
from assay.core.storage.locks import hold

HOLDER = """
import pathlib, sys
from assay.core.storage.locks import hold
with hold(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[str]:
    """Start another process that holds the lock until its input ends."""
    environment = os.environ | {"PYTHONPATH": str(Path(assay.__file__).parent.parent)}
    started = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert started.stdout is not None and started.stdout.readline() == "held\n"
    return started


def test_a_second_holder_is_refused_and_told_who_is_first(tmp_path: Path) -> None:
    path = tmp_path / "deep/run.lock"
    with (
        hold(path),
        pytest.raises(RunningAlready, match=rf"run.lock.*process {os.getpid()}\.\nFix: wait"),
        hold(path),
    ):
        pass
    assert not path.exists()
    with hold(path):
        pass


@pytest.mark.parametrize("end", [signal.SIGKILL, None])
def test_a_lock_ends_with_its_process(tmp_path: Path, end: signal.Signals | None) -> None:
    path = tmp_path / "run.lock"
    other = holder(path)
    with other:
        with pytest.raises(AssayError, match=f"process {other.pid}"), hold(path):
            pass
        if end is not None:
            other.send_signal(end)
        other.communicate()
    with hold(path):
        assert path.read_text() == f"{os.getpid()}\n"


def test_a_lock_is_let_go_of_when_its_block_raises(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    with pytest.raises(KeyboardInterrupt), hold(path):
        raise KeyboardInterrupt
    with hold(path):
        pass


def test_a_lock_that_its_last_holder_removes_meanwhile_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, original, removed = tmp_path / "run.lock", fcntl.flock, list[int]()

    def late(handle: int, how: int) -> None:
        if not removed:
            removed.append(handle)
            path.unlink()  # between opening and locking
        original(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with hold(path):
        assert removed and path.exists()
        with pytest.raises(RunningAlready), hold(path):
            pass


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="a folder to write in"), hold(tmp_path / "file/run.lock"):
        pass


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.raises(RecordError, match="a file that can be locked"), hold(tmp_path / "run.lock"):
        pass
