"""The process beside a training that draws its curves: started, asked whether it lives, told of the end;
never waited for.

It is another program, named by its module and not imported, so that a changed figure never retrains. It holds
one end of a pipe: the pipe closes when the trainer ends, however that happens, and so does the program.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from assay.core.console import complain
from assay.core.errors import ConfigError, RecordError
from assay.core.storage.files import read_bytes

PROGRAM = "assay.tools.watch.redraw"
END = b"end\n"
# Not a parameter: it changes no result, and a change of it must not train again.
VARIABLE, DEFAULT_S, LEAST_S = "ASSAY_REDRAW_SECONDS", 5.0, 1.0
PATIENCE_S = 30.0  # for the last drawing, which takes a second where the machine is not busy
# No GPU, one thread, and no place among processes that train together.
_SETTINGS = {"CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "agg", "PYTHONUNBUFFERED": "1"} | dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)
_LEFT_OUT = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def seconds_between() -> float | None:
    """Return how often curves are drawn, None for never: what ASSAY_REDRAW_SECONDS says.

    Raises:
        ConfigError: It is neither 0 nor a number of at least 1.
    """
    text = os.environ.get(VARIABLE, str(DEFAULT_S))
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if seconds == 0:
        return None
    if not LEAST_S <= seconds <= 86400:
        raise ConfigError(
            f"0, or seconds from {LEAST_S:g} on", found=repr(text), where=VARIABLE, fix=f"unset {VARIABLE}"
        )
    return seconds


class Drawer:
    """One drawing process. Nothing it does, its end included, reaches the training.

    Args:
        root: The project.
        log: Where what it complains of goes.
        seconds: The least between two drawings.
    """

    def __init__(self, root: Path, log: Path, seconds: float) -> None:
        self._log = log
        self._process = self._started(root, seconds)

    def _started(self, root: Path, seconds: float) -> subprocess.Popen[bytes] | None:
        environment = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT} | _SETTINGS
        try:
            with self._log.open("wb") as log:
                # A session of its own: Ctrl-C in the terminal is for the trainer, which then says when it is
                # over.
                return subprocess.Popen(
                    [sys.executable, "-m", PROGRAM, str(root.resolve()), str(seconds)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    env=environment,
                    start_new_session=True,
                )
        except OSError as error:
            complain(f"the curves will not be drawn while training ({error.strerror}); the training goes on")
            return None

    def look(self) -> None:
        """Say it, once, if the process has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            with suppress(OSError):
                assert self._process.stdin is not None
                self._process.stdin.close()
            self._say_gone(self._process.returncode)

    def close(self) -> None:
        """Tell the process of the end, give it seconds for the last drawing, then end it."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with suppress(OSError):  # if it is gone already, its exit code says so
            process.stdin.write(END)
            process.stdin.close()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            complain("the last curves were not drawn in time")
            self._process = None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode and self._process is not None:
            self._say_gone(process.returncode)
        self._process = None

    def _say_gone(self, code: int) -> None:
        self._process = None
        try:
            lines = read_bytes(self._log, fix="").decode("utf-8", "replace").strip().split("\n")
        except RecordError:
            lines = [""]
        complain(
            f"the curves are no longer drawn while training (exit code {code}: {lines[-1][:200]}); the"
            " training goes on"
        )
