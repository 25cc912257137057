"""Several processes that train one adapter: who is who, what all of them know, and how they are started."""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from assay.config.settings import DistributedSettings
from assay.console import complain
from assay.errors import ConfigError

T = TypeVar("T")
# More than one machine: what torchrun has to be told on this one, such as --nnodes=2 --node-rank=0 --master-addr=…
LAUNCH_VARIABLE = "ASSAY_TORCHRUN"
# What torchrun reads: the seconds that a stopped process has to finish its step and save it. A second signal does not wait.
PATIENCE_VARIABLE, PATIENCE_S = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", 3600
_LONG_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{20,}\b")
# How gloo, and NCCL's watch over its peers, put it.
_GONE = re.compile(r"Connection (closed|reset) by peer|remote process exited|Broken pipe")


@dataclass(frozen=True, slots=True)
class Processes:
    """This process among those that train together. Every collective call must be made by all of them."""

    rank: int
    world_size: int

    @classmethod
    def joined(cls, settings: DistributedSettings) -> Processes:
        """Return this process's place, as torchrun told it through the environment.

        Raises:
            ConfigError: Another number of processes was started than the settings say.
        """
        told = {name: os.environ.get(name, default) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1"))}
        rank, world = (int(text) if text.isdecimal() else -1 for text in told.values())
        if not 0 <= rank < world:
            raise ConfigError(
                "RANK below WORLD_SIZE, as torchrun sets them, or neither",
                found=", ".join(f"{name}={text!r}" for name, text in told.items()),
                where="the environment",
                fix="unset RANK WORLD_SIZE",
            )
        if world != settings.processes:
            raise ConfigError(
                f"{settings.processes} processes",
                found=f"{world}",
                where="params.yaml, distributed.processes, against WORLD_SIZE",
                fix="start as many as the settings say (./run assay train does), or change the setting",
            )
        if world > 1 and not dist.is_initialized():
            if settings.backend == "nccl":
                torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group(settings.backend)
            _say_who_is_gone()
        return cls(rank, world)

    def agree(self, what: str, value: object) -> None:
        """Refuse to begin where processes do not see the same thing: they would wait for each other for ever.

        Raises:
            ConfigError: Two of them differ.
        """
        seen = self.gather(repr(value))
        if len(set(seen)) > 1:
            short = [_LONG_DIGEST.sub(r"\1…", each)[:60] for each in seen]
            raise ConfigError(
                f"one {what} in all processes",
                found="; ".join(f"rank {rank}: {each}" for rank, each in enumerate(short)),
                where="distributed",
                fix="run the same commit, data and settings everywhere, and let the machines share .scratch (DVC_ROOT)",
            )

    def leave(self) -> None:
        """Part in good order, when all work is done."""
        if dist.is_initialized():
            dist.destroy_process_group()

    @property
    def main(self) -> bool:
        """Whether this is the one process that writes and speaks."""
        return self.rank == 0

    def gather(self, value: T) -> list[T]:
        """Return everyone's value, in order of rank."""
        if self.world_size == 1:
            return [value]
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values

    def any(self, flag: bool) -> bool:
        """Return whether the flag is up anywhere."""
        return any(self.gather(flag))

    def share(self, batches: Sequence[T]) -> list[tuple[int, T]]:
        """Return the batches that are this process's to do, with their indices: every batch is exactly one's."""
        return list(enumerate(batches))[self.rank :: self.world_size]


def _say_who_is_gone() -> None:
    """Let a process that ends because another one has ended say so in a line; the other one has said why."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if isinstance(error, RuntimeError) and _GONE.search(str(error)):
            complain("assay: another process of this training has ended, and so does this one; see what that one says")
        else:
            before(kind, error, trace)

    sys.excepthook = hook


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
