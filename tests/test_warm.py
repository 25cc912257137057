"""What is handed to a Python that waits ends as what Python itself runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.calling import until
from tests.warm import OURS, warm_python

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="its addresses are Linux's")
WAITED = "import sys; print('trl' in sys.modules)"


def call(*words: str, given: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [warm_python(), *words],
        input=given,
        env=os.environ | more,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "words",
    [
        ("-c", "import os, sys; print(sys.argv, sys.path[0], os.getcwd(), input()); sys.exit(3)", "a b"),
        ("-c", "import sys; sys.exit('what is wrong')"),
        ("-c", "raise SystemExit"),
        ("-c", "import atexit; atexit.register(print, 'at the end'); print('before')"),
        ("-c", "import threading, time; threading.Timer(0.2, print, ['later']).start()"),
        ("-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"),
        ("-c", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"),
        ("-u", "-c", "import os; print('said at once'); os._exit(5)"),
        ("-m", "json.tool", "--compact"),
        ("script.py", "--word"),
    ],
    ids=str,
)
def test_it_says_and_ends_as_python_does(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beside.py").write_text("WORD = 'beside'")
    (tmp_path / "script.py").write_text("import beside, sys; print(__name__, sys.argv, beside.WORD)")
    ours = call(*words, given="[1]\n")
    theirs = subprocess.run(
        [sys.executable, *words], input="[1]\n", capture_output=True, text=True, check=False
    )
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout), ours.stderr
    assert bool(ours.stderr) is bool(theirs.stderr)


def test_code_is_that_of_the_call_and_the_libraries_are_there_unless_they_would_be_others(
    tmp_path: Path,
) -> None:
    (tmp_path / "assay").mkdir()
    (tmp_path / "assay/__init__.py").write_text("print('of this tree')")
    assert call("-c", "import assay", PYTHONPATH=str(tmp_path)).stdout == "of this tree\n"
    assert call("-c", WAITED).stdout == call("-c", WAITED, **OURS).stdout == "True\n"
    for other in ({"HF_HUB_OFFLINE": "other"}, {"PYTHONHASHSEED": "1"}):
        assert call("-c", WAITED, **other).stdout == "False\n"
    assert call("-I", "-c", WAITED).stdout == "False\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_to_the_call_reaches_what_it_called(number: signal.Signals, tmp_path: Path) -> None:
    """SIGKILL cannot be passed on; what was called ends all the same."""
    script = (
        f"import os, pathlib, time; pathlib.Path({str(tmp_path / 'pid')!r}).write_text(f'{{os.getpid()}} ')"
    )
    with subprocess.Popen([warm_python(), "-c", f"{script}; time.sleep(300)"]) as running:
        until(
            lambda: (tmp_path / "pid").is_file() and (tmp_path / "pid").read_text()[-1:] == " ", "not begun"
        )
        running.send_signal(number)
        assert running.wait(timeout=60) == -number
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not Path(f"/proc/{pid}").exists(), "it goes on")
