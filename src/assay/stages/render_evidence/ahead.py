"""Work that a second process does while this one goes on."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TypeVar

from assay.core.provenance import usable_cores

T = TypeVar("T")


def begin(make: Callable[[], T], *, processes: int = 2) -> Callable[[], T]:
    """Let a process beside this one call `make`, and return how to wait for what it returns.

    The process is a fork, so `make` may be any function of what is at hand; what it changes is not seen here.
    Where there is but one core, or a fork is not safe, `make` is called when its result is asked for; and so
    it is where the process was killed, or `make` raised, which then has its place.

    Args:
        make: Its result has to be one that can be pickled.
        processes: 1: no process beside.
    """
    beside = processes > 1 and usable_cores() > 1 and sys.platform == "linux"
    if not beside or multiprocessing.current_process().daemon:  # such a process may have none beside it
        return cache(make)
    context = multiprocessing.get_context("fork")
    result, sent = context.Pipe(duplex=False)
    process = context.Process(target=_made, args=(make, sent), daemon=True)
    process.start()
    sent.close()

    @cache
    def wait() -> T:
        try:
            made: T = result.recv()
        except (EOFError, OSError):
            return make()
        finally:
            result.close()
            process.join()
        return made

    return wait


def end_when_orphaned() -> None:
    """Let this process, which another one has started to work beside it, end when that one is gone.

    A process that is killed cannot end those it has started, and they may wait for ever at a pipe of which
    they hold both ends.
    """
    starter = multiprocessing.parent_process()
    if starter is not None:
        threading.Thread(target=_follow, args=(starter,), daemon=True).start()


def _follow(starter: BaseProcess) -> None:
    starter.join()
    os._exit(1)


def _made(make: Callable[[], T], sent: Connection) -> None:
    end_when_orphaned()
    try:
        sent.send(make())
    finally:  # what was raised is raised again where it is waited for
        os._exit(0)
