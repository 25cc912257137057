"""A stage ends when whoever started it is gone: a killed DVC leaves no trainer behind on the GPU."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # Source: prctl(2)
# Set by DVC for the commands of stages, by torchrun for its workers; in a shell of one's own, nohup and &
# should work.
STARTED_BY = ("DVC_STAGE", "TORCHELASTIC_RUN_ID")


def end_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent dies, where DVC or torchrun is the parent. Linux alone can
    do it."""
    if any(name in os.environ for name in STARTED_BY):
        _tie()


def become(command: list[str]) -> None:
    """Become a command that ends with its parent: `python -m assay.core.parent COMMAND...`, for programs that
    are not ours.

    What was asked of the kernel survives exec.
    """
    _tie()
    os.execv(command[0], command)


def _tie() -> None:
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel was asked
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    become(sys.argv[1:])
