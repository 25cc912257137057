"""How one command becomes several processes: torchrun, started before anything heavy is imported."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence

from assay.config.settings import DistributedSettings
from assay.console import complain

# More than one machine: what torchrun has to be told on this one, such as --nnodes=2 --node-rank=0 --master-addr=…
LAUNCH_VARIABLE = "ASSAY_TORCHRUN"
# What torchrun reads: the seconds that a stopped process has to finish its step and save it. A second signal does not wait.
PATIENCE_VARIABLE, PATIENCE_S = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", 3600


def must_launch(settings: DistributedSettings) -> bool:
    """Return whether this process still has to become several."""
    return settings.processes > 1 and "WORLD_SIZE" not in os.environ


def launch(settings: DistributedSettings, arguments: Sequence[str]) -> None:
    """Become torchrun with so many processes, each of which is this program again; does not return.

    The process keeps its id, so that whoever started it can still end it.

    Args:
        settings: How many processes.
        arguments: Of the command line of assay.
    """
    told = shlex.split(os.environ.get(LAUNCH_VARIABLE, ""))
    where = told or ["--standalone", f"--nproc-per-node={settings.processes}"]
    if told:
        complain(f"train: begins when all machines have called, {settings.processes} processes in all ({LAUNCH_VARIABLE})")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # torchrun would say so at length
    os.environ.setdefault(PATIENCE_VARIABLE, str(PATIENCE_S))
    os.execv(sys.executable, [sys.executable, "-m", __name__, *where, "-m", "assay.cli", *arguments])


def first_to_fail(codes: Mapping[int, int]) -> int:
    """Return which process failed by itself, by the exit codes of all that failed.

    Of the others torchrun ends some by SIGTERM, and some end with 1 for want of the first.

    >>> first_to_fail({0: 1, 1: 4}), first_to_fail({0: 1, 1: -9}), first_to_fail({0: -15, 1: 1})
    (1, 1, 1)
    """
    return min(codes, key=lambda rank: (codes[rank] == -signal.SIGTERM, codes[rank] == 1, codes[rank] < 0, rank))


def main() -> None:
    """Be torchrun, and end as the processes end: with their exit code, and without a traceback of torchrun's own."""
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    logging.disable(logging.ERROR)  # of this process alone; what went wrong is said below, or by the processes themselves
    # Until it has started processes, whose signals it then passes on, it waits for other machines where Python hears nothing.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        torchrun(sys.argv[1:])
    except SignalException as error:
        raise SystemExit(128 + int(error.sigval)) from None
    except ChildFailedError as error:
        codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
        rank = first_to_fail(codes)
        if codes[rank] >= 0:
            raise SystemExit(codes[rank]) from None
        complain(
            f"assay: process {rank} of this machine was ended by {signal.Signals(-codes[rank]).name}; all have ended with it"
        )
        complain("Fix: see what ended it (out of memory?) and call again: it goes on from the newest checkpoint")
        raise SystemExit(128 - codes[rank]) from None


if __name__ == "__main__":
    main()
