"""Work that a second process does: its result, and what becomes of it where that process ends early."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from assay.core.errors import RecordError
from assay.stages.render_evidence import ahead
from assay.stages.render_evidence.ahead import begin
from tests.house import ROOT

only_forks = pytest.mark.skipif(sys.platform != "linux", reason="a fork is not safe elsewhere")


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "usable_cores", lambda: 2)


@only_forks
def test_a_process_beside_works_while_this_one_goes_on_and_is_asked_once() -> None:
    held = [1, 2, 3]
    wait = begin(lambda: (os.getpid(), [2 * each for each in held]))
    held.append(4)  # too late: the other has what was at hand
    pid, doubled = wait()
    assert doubled == [2, 4, 6] and pid != os.getpid()
    assert wait() == (pid, doubled)


@pytest.mark.parametrize("cores", [1, 2])
def test_without_a_process_or_a_core_for_it_the_work_is_done_here_when_it_is_asked_for(
    cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "usable_cores", lambda: cores)
    calls = list[int]()
    wait = begin(lambda: calls.append(1) or os.getpid(), processes=3 - cores)  # type: ignore[func-returns-value]
    assert calls == []
    assert wait() == wait() == os.getpid() and calls == [1]


@only_forks
def test_what_a_killed_process_did_not_do_is_done_here() -> None:
    here = os.getpid()

    def made() -> int:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()

    assert begin(made)() == here


def test_an_error_is_raised_where_the_result_is_waited_for(capfd: pytest.CaptureFixture[str]) -> None:
    def made() -> int:
        raise RecordError("a file", found="none", where="there", fix="write it")

    wait = begin(made)
    with pytest.raises(RecordError, match="there: expected a file, found none"):
        wait()
    assert capfd.readouterr().err == ""


@only_forks
def test_a_result_larger_than_a_pipe_holds_comes_whole() -> None:
    assert begin(lambda: bytes(3_000_000))() == bytes(3_000_000)


@only_forks
def test_a_process_that_nobody_waits_for_ends_with_this_one() -> None:
    # As where a claim is refused for another file while the players still play
    script = (
        "import os, time; from assay.stages.render_evidence import ahead; ahead.usable_cores = lambda: 2;"
        "ahead.begin(lambda: (print(os.getpid(), flush=True), time.sleep(600))); time.sleep(0.5)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended(int(done.stdout))


@only_forks
@pytest.mark.parametrize(
    "work",
    [
        "ahead.begin(lambda: (told(), time.sleep(600)))",
        "ahead.begin(lambda: (told(), bytes(3_000_000)))",  # more than a pipe holds
        "(pool := ProcessPoolExecutor(1, mp_context=multiprocessing.get_context('fork'),"
        " initializer=ahead.end_when_orphaned)).submit(told).result()",
    ],
    ids=["computing", "sending", "idle in a pool"],
)
def test_nothing_beside_is_left_of_a_process_that_was_killed(work: str, tmp_path: Path) -> None:
    script = (
        "import multiprocessing, os, signal, time\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from assay.stages.render_evidence import ahead\n"
        "ahead.usable_cores = lambda: 2\n"
        "def told(): open('pid', 'w').write(str(os.getpid()))\n"
        f"kept = {work}\n"
        "while not os.path.exists('pid') or not open('pid').read(): time.sleep(0.01)\n"
        "time.sleep(0.5)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL
    pid = int((tmp_path / "pid").read_text())
    try:
        assert ended(pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def ended(pid: int) -> bool:
    """Return whether a process is gone within some seconds; also one whose end nobody has asked for."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for _ in range(100):
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
            time.sleep(0.05)
        return False
    return True
