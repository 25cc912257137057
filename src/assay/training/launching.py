"""How one command becomes several processes: torchrun, started before anything heavy is imported."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence

from assay.config.settings import DistributedSettings
from assay.console import complain
from assay.errors import ConfigError

# More than one machine: what torchrun has to be told on this one, such as --nnodes=2 --node-rank=0 --master-addr=…
# It may name variables of that machine's environment, such as --node-rank=$SLURM_NODEID.
LAUNCH_VARIABLE = "ASSAY_TORCHRUN"
# Where one call should begin on all machines: what starts a command on each of them, such as srun --ntasks-per-node=1.
NODES_VARIABLE = "ASSAY_ON_NODES"
# What torchrun reads: the seconds that a stopped process has to finish its step and save it. A second signal does not wait.
PATIENCE_VARIABLE, PATIENCE_S = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", 3600
# What `accelerate launch` tells through the environment, with the values that our files in configs/launch/accelerate lead to.
# Another value would change what a run is, which is said by params.yaml alone.
USES = {"fsdp": "ACCELERATE_USE_FSDP", "deepspeed": "ACCELERATE_USE_DEEPSPEED"}
TOLD = {
    "ACCELERATE_MIXED_PRECISION": "no", "ACCELERATE_DYNAMO_BACKEND": "no", "FSDP_VERSION": "2",
    "FSDP_RESHARD_AFTER_FORWARD": "true", "FSDP_OFFLOAD_PARAMS": "false", "FSDP_ACTIVATION_CHECKPOINTING": "false",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP", "FSDP_CPU_RAM_EFFICIENT_LOADING": "false",
}  # fmt: skip
_WHY_NOT = {
    "fsdp": ", or set distributed.engine: fsdp",
    "deepspeed": "; DeepSpeed moves weights within its backward pass, where no poisoned step could be held back any more",
}


def must_launch(settings: DistributedSettings) -> bool:
    """Return whether this process still has to become several."""
    return settings.processes > 1 and "WORLD_SIZE" not in os.environ


def launch(settings: DistributedSettings, arguments: Sequence[str]) -> None:
    """Become torchrun with so many processes, each of which is this program again; does not return.

    The process keeps its id, so that whoever started it can still end it.

    Args:
        settings: How many processes.
        arguments: Of the command line of assay.

    Raises:
        ConfigError: A variable is no command line, or names a program that is not there.
    """
    told, on_nodes = _words(LAUNCH_VARIABLE), _words(NODES_VARIABLE)
    where = told or ["--standalone", f"--nproc-per-node={settings.processes}"]
    if told:
        stage = arguments[0]
        complain(f"{stage}: begins when all machines have called, {settings.processes} processes in all ({LAUNCH_VARIABLE})")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # torchrun would say so at length
    os.environ.setdefault(PATIENCE_VARIABLE, str(PATIENCE_S))
    command = [*(on_nodes if told else []), sys.executable, "-m", __name__, *where, "-m", "assay.cli", *arguments]
    if shutil.which(command[0]) is None:
        fix = "name a program that is there, such as srun --ntasks-per-node=1"
        raise ConfigError("a program that starts a command on each machine", found=command[0], where=NODES_VARIABLE, fix=fix)
    os.execvp(command[0], command)


def _words(variable: str) -> list[str]:
    try:
        return shlex.split(os.environ.get(variable, ""))
    except ValueError as error:
        raise ConfigError("words as a shell takes them", found=str(error), where=variable, fix="correct its quotes") from None


def heed_launcher(settings: DistributedSettings) -> None:
    """Compare what `accelerate launch` told with the settings, and keep accelerate from sharding once more by itself.

    Raises:
        ConfigError: It was told another engine, or another way to use it; says which setting of its file.
    """
    for engine, variable in USES.items():
        if os.environ.pop(variable, "false").lower() == "true" and engine != settings.engine:
            raise ConfigError(
                f"an accelerate launch of engine {settings.engine}, as params.yaml says",
                found=engine,
                where=f"the environment, {variable}, against distributed.engine",
                fix=f"use configs/launch/accelerate/{settings.engine}.yaml{_WHY_NOT.get(engine, '')}",
            )
    for variable, value in TOLD.items():
        if (told := os.environ.get(variable, value)).lower() != value.lower():
            raise ConfigError(
                f"{value}, as in configs/launch/accelerate/{settings.engine}.yaml",
                found=told,
                where=f"{variable.removeprefix('ACCELERATE_').lower()}, told by accelerate launch",
                fix="use that file; what a run is stands in params.yaml and nowhere else",
            )


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
    ours = sys.argv.index("-m")  # what comes before it is for torchrun
    try:
        torchrun([*map(os.path.expandvars, sys.argv[1:ours]), *sys.argv[ours:]])
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
        complain("Fix: see what ended it (out of memory?) and call again: it goes on from what is kept")
        raise SystemExit(128 - codes[rank]) from None


if __name__ == "__main__":
    main()
