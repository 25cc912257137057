"""Several processes that train one adapter, or measure one policy: who is who, and what all of them know."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from assay.core.config.places import setting
from assay.core.config.settings import DistributedSettings
from assay.core.console import complain
from assay.core.errors import AssayError, ConfigError
from assay.rollout.policy.model import require_device

T = TypeVar("T")
# How long one waits for another that is at work alone, such as the main process at its examination (two
# minutes at most) or at a save, or one whose environment is slow. Said, since torch's own limits differ: 10
# minutes for nccl, 30 for gloo.
LONGEST_WAIT = timedelta(minutes=30)
# A try to meet, for who counts what all of them refuse; torch makes one or two
LONGEST_COUNT = timedelta(seconds=10)
_LONG_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{20,}\b")
# How gloo, and NCCL's watch over its peers, put it.
_GONE = re.compile(r"Connection (closed|reset) by peer|remote process exited|Broken pipe")


@dataclass(frozen=True, slots=True)
class Processes:
    """This process among those that work together. Every collective call must be made by all of them."""

    rank: int
    world_size: int

    @classmethod
    def joined(
        cls, settings: DistributedSettings, *, device: str = "cpu", any_number: bool = False
    ) -> Processes:
        """Return this process's place, as torchrun told it through the environment.

        Args:
            settings: How many there are, and how they talk to each other.
            device: Where this one will compute; of several GPUs it takes its own, before anything is loaded.
            any_number: For work whose result does not depend on how many share it.

        Raises:
            ConfigError: Another number of processes was started than the settings say, or more than there are
                GPUs.
            SystemExit: The latter, in all processes that meet it but the first.
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
        if world != settings.processes and not any_number:
            raise ConfigError(
                f"{settings.processes} processes",
                found=f"{world}",
                where=f"{setting('distributed.processes')}, against WORLD_SIZE",
                fix="start as many as the settings say (./run assay train does), or change the setting",
            )
        if world > 1 and not dist.is_initialized():
            if settings.backend == "nccl" or device == "cuda":
                try:
                    _take_a_gpu(int(os.environ["LOCAL_RANK"]), shared=settings.backend != "nccl")
                except AssayError as error:
                    if _said_already(rank, world):
                        raise SystemExit(error.exit_code) from None
                    raise
            # A process's CPU is "cpu:0" to transformers when it resumes, which torch before 2.13 cannot find.
            torch.serialization.register_package(99, lambda _: None, _on_a_cpu)
            dist.init_process_group(settings.backend, timeout=LONGEST_WAIT)
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
                fix=(
                    "run the same commit, data and settings everywhere, and let the machines share .scratch"
                    " (DVC_ROOT)"
                ),
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

    @contextmanager
    def as_one(self) -> Iterator[None]:
        """Let an error that any of them meets in the block end all of them, told by the first that met one.

        Raises:
            AssayError: The error, in the process that tells it.
            SystemExit: In all others, with the same exit code.
        """
        error: AssayError | None = None
        try:
            yield
        except AssayError as met:
            error = met
        codes = self.gather(0 if error is None else error.exit_code)
        teller = next((rank for rank, code in enumerate(codes) if code), None)
        if error is not None and teller == self.rank:
            raise error
        if teller is not None:
            raise SystemExit(codes[teller])

    def share(self, batches: Sequence[T]) -> list[tuple[int, T]]:
        """Return the batches that are this process's to do, with their indices: every batch is exactly
        one's."""
        return list(enumerate(batches))[self.rank :: self.world_size]


ALONE = Processes(0, 1)


def _take_a_gpu(local_rank: int, *, shared: bool) -> None:
    """Make this process's own GPU the one that "cuda" means; by gloo several processes may have the same
    one."""
    there = torch.cuda.device_count()
    if there == 0:
        require_device("cuda")  # before nccl, which would end in a traceback of each process
        return
    if local_rank >= there and not shared:
        raise ConfigError(
            "a GPU for each process of a machine",
            found=str(there),
            where=setting("distributed.processes"),
            fix=f"set it to {there}; where ASSAY_TORCHRUN is set, --nproc-per-node={there} there",
        )
    torch.cuda.set_device(local_rank % there)


def _on_a_cpu(storage: Any, place: str) -> Any:
    """Return a storage that was read from a file if its place is a numbered CPU, else None: it is for others
    to move it."""
    return storage if place.startswith("cpu:") else None


def _said_already(rank: int, world: int) -> bool:
    """Return whether another process was faster to meet a refusal; they cannot talk yet, but count in what
    they meet by."""
    try:
        store, *_ = next(rendezvous("env://", rank, world, timeout=LONGEST_COUNT))
        return bool(store.add("assay/refused", 1) > 1)
    except (
        ValueError,
        RuntimeError,
    ):  # nobody told where that is, or it does not answer: better said twice than never
        return False


def _say_who_is_gone() -> None:
    """Let a process that ends because another one has ended say so in a line; the other one has said why."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if isinstance(error, RuntimeError) and _GONE.search(str(error)):
            complain(
                "assay: another process of this stage has ended, and so does this one; see what that one says"
            )
        else:
            before(kind, error, trace)

    sys.excepthook = hook
