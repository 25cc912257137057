"""How one command becomes several processes: torchrun, started before anything heavy is imported."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from assay.core.config.config_errors import NO_DEEPSPEED
from assay.core.config.settings import DistributedSettings
from assay.core.console import complain
from assay.core.errors import ConfigError

# More than one machine: what torchrun has to be told on this one, such as --nnodes=2 --node-rank=0
# --master-addr=… It may name variables of that machine's environment, such as --node-rank=$SLURM_NODEID.
# Or how many share a measurement, such as --standalone --nproc-per-node=2.
LAUNCH_VARIABLE = "ASSAY_TORCHRUN"
# Where one call should begin on all machines: what starts a command on each of them, such as srun
# --ntasks-per-node=1.
NODES_VARIABLE = "ASSAY_ON_NODES"
# What torchrun reads: the seconds that a stopped process has to finish its step and save it. A second signal
# does not wait.
PATIENCE_VARIABLE, PATIENCE_S = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", 3600
# What `accelerate launch` tells through the environment, with the values that our files in
# configs/launch/accelerate lead to. Another value would change what a run is, which is said by the settings
# alone.
USES = {"fsdp": "ACCELERATE_USE_FSDP", "deepspeed": "ACCELERATE_USE_DEEPSPEED"}
TOLD = {
    "ACCELERATE_MIXED_PRECISION": "no",
    "ACCELERATE_DYNAMO_BACKEND": "no",
    "FSDP_VERSION": "2",
    "FSDP_RESHARD_AFTER_FORWARD": "true",
    "FSDP_OFFLOAD_PARAMS": "false",
    "FSDP_ACTIVATION_CHECKPOINTING": "false",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "false",
}
_PROGRAM = ["-m", "assay.cli"]
_SUCH_AS = "--nnodes=2 --node-rank=0 --nproc-per-node=1 --master-addr=HOST --master-port=29500"
_WHY_NOT = {
    "fsdp": ", or set distributed.engine: fsdp",
    "deepspeed": f"; there is no DeepSpeed here, {NO_DEEPSPEED}",
}


def must_launch(settings: DistributedSettings, *, any_number: bool = False) -> bool:
    """Return whether this process still has to become several.

    Args:
        settings: How many processes.
        any_number: For work whose result does not depend on how many share it: ASSAY_TORCHRUN alone will do.
    """
    several = settings.processes > 1 or (any_number and bool(os.environ.get(LAUNCH_VARIABLE)))
    return several and "WORLD_SIZE" not in os.environ


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
        complain(f"{arguments[0]}: begins when all machines have called, as {LAUNCH_VARIABLE} has it")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # torchrun would say so at length
    os.environ.setdefault(PATIENCE_VARIABLE, str(PATIENCE_S))
    command = [*(on_nodes if told else []), sys.executable, "-m", __name__, *where, *_PROGRAM, *arguments]
    if shutil.which(command[0]) is None:
        fix = "name a program that is there, such as srun --ntasks-per-node=1"
        raise ConfigError(
            "a program that starts a command on each machine", found=command[0], where=NODES_VARIABLE, fix=fix
        )
    os.execvp(command[0], command)


def _words(variable: str) -> list[str]:
    try:
        return shlex.split(os.environ.get(variable, ""))
    except ValueError as error:
        raise ConfigError(
            "words as a shell takes them", found=str(error), where=variable, fix="correct its quotes"
        ) from None


def heed_launcher(settings: DistributedSettings) -> None:
    """Compare what `accelerate launch` told with the settings, and keep accelerate from sharding once more by
    itself.

    Raises:
        ConfigError: It was told another engine, or another way to use it; says which setting of its file.
    """
    for engine, variable in USES.items():
        if os.environ.pop(variable, "false").lower() == "true" and engine != settings.engine:
            raise ConfigError(
                f"an accelerate launch of engine {settings.engine}, as distributed.engine says",
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
                fix="use that file; what a run is stands in the settings (distributed) and nowhere else",
            )


def first_to_fail(codes: Mapping[int, int]) -> int:
    """Return which process failed by itself, by the exit codes of all that failed.

    Of the others torchrun ends some by SIGTERM, and some end with 1 for want of the first.

    >>> first_to_fail({0: 1, 1: 4}), first_to_fail({0: 1, 1: -9}), first_to_fail({0: -15, 1: 1})
    (1, 1, 1)
    """
    return min(
        codes, key=lambda rank: (codes[rank] == -signal.SIGTERM, codes[rank] == 1, codes[rank] < 0, rank)
    )


def main() -> None:
    """Be torchrun, and end as the processes end: with their exit code, and without a traceback of torchrun's
    own."""
    from torch.distributed import DistError
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    # Of this process alone; what went wrong is said below, or by the processes themselves
    logging.disable(logging.ERROR)
    # Until it has started processes, whose signals it then passes on, it waits for other machines where
    # Python hears nothing.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    here = range(len(sys.argv))
    ours = next(
        (place for place in here if sys.argv[place : place + len(_PROGRAM)] == _PROGRAM), len(sys.argv)
    )
    words = [
        *map(os.path.expandvars, sys.argv[1:ours]),
        *sys.argv[ours:],
    ]  # what comes before it is for torchrun
    try:
        refuse_unfit(words)
        try:
            torchrun(words)
        except (
            ValueError,
            AssertionError,
            DistError,
        ) as error:  # what it finds wrong before it has started a process
            _refuse(str(error) or repr(error))
    except ConfigError as error:
        complain(f"assay: {error}")
        raise SystemExit(error.exit_code) from None
    except SignalException as error:
        raise SystemExit(128 + int(error.sigval)) from None
    except UnboundLocalError as error:
        # A signal that comes just as torchrun begins to time one of its own calls ends in this error instead:
        # `prof` in torch/distributed/elastic/metrics/api.py reads a time that it has not taken yet.
        if not isinstance(error.__context__, SignalException):
            raise
        raise SystemExit(128 + int(error.__context__.sigval)) from None
    except ChildFailedError as error:
        codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
        rank = first_to_fail(codes)
        if codes[rank] >= 0:
            raise SystemExit(codes[rank]) from None
        complain(
            f"assay: process {rank} of this machine was ended by {signal.Signals(-codes[rank]).name}; all"
            " have ended with it"
        )
        complain("Fix: see what ended it (out of memory?) and call again: it goes on from what is kept")
        raise SystemExit(128 - codes[rank]) from None


def refuse_unfit(words: Sequence[str]) -> None:
    """Refuse what torchrun would not take, or would start something else by, before it starts anything.

    Args:
        words: Of torchrun's command line, our program and its arguments at the end.

    Raises:
        ConfigError: Says which flag of ASSAY_TORCHRUN it is.
    """
    from torch.distributed import run

    parser = run.get_args_parser()
    # Left to itself it would show its usage and end the process.
    parser.error = lambda message: _refuse(message)  # type: ignore[method-assign]
    parser.print_help = lambda file=None: _refuse("--help")  # type: ignore[method-assign]
    told = parser.parse_args(list(words))
    if told.run_path or not told.module or told.training_script != _PROGRAM[1]:
        _refuse(
            f"{'--run-path' if told.run_path else repr(told.training_script)}, by which another program would"
            " be started"
        )
    try:
        most = run.parse_min_max_nnodes(told.nnodes)[1]
    except (ValueError, RuntimeError):
        _refuse(f"--nnodes={told.nnodes}")
    if most < 1:
        _refuse(f"--nnodes={told.nnodes}")
    try:
        here = run.determine_local_world_size(told.nproc_per_node)
    except ValueError as error:
        _refuse(f"--nproc-per-node={told.nproc_per_node} ({error})")
    if here < 1:
        _refuse(f"--nproc-per-node={told.nproc_per_node}")
    # It would wait for the others in vain
    if told.rdzv_backend == "static" and not 0 <= told.node_rank < most:
        _refuse(f"--node-rank={told.node_rank} with --nnodes={told.nnodes}; ranks begin at 0")


def _refuse(found: str) -> NoReturn:
    found, fix = (
        found.rstrip("."),
        f"write it as {_SUCH_AS}; a variable that is named in it has to be set on each machine",
    )
    raise ConfigError("flags of torchrun and nothing else", found=found, where=LAUNCH_VARIABLE, fix=fix)


if __name__ == "__main__":
    main()
