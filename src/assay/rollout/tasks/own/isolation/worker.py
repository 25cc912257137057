"""Somebody's code in a process of its own, which is killed where it does not answer, and started again."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import assay
from assay.core.errors import ConfigError
from assay.rollout.tasks.own.calls import Ask, Call, Failed, Reply
from assay.rollout.tasks.own.isolation.lines import (
    MOST_BYTES,
    SLACK_S,
    Answers,
    Silent,
    identity,
    read_answers,
    read_line,
    request_of,
)
from assay.rollout.tasks.own.settings import OwnTask

START_S = 300.0  # to import what a task imports
# Of the environment variables it sees these, and no secret; what begins with ASSAY_TASK_ it sees whatever it
# is.
SEEN = re.compile(
    r"PATH|HOME|USER|SHELL|LANG|LC_\w+|TZ|TMPDIR|LD_LIBRARY_PATH|VIRTUAL_ENV|PYTHON\w+|HF_\w+|ASSAY_\w+"
    r"|\w+_NUM_THREADS|CUDA_\w+|TOKENIZERS_PARALLELISM|SSL_CERT_\w+|(?i:https?_proxy|no_proxy)"
)
SECRET = re.compile(r"TOKEN$|KEY|SECRET|PASS|CREDENTIAL", re.I)


class Worker:
    """Plays calls side by side in the threads of another process.

    Where that dies or falls silent, the calls it had begun are made again one by one in a new one, so that
    only the call that ends it is lost.

    Args:
        settings: Of the task.
        root: Project that its folder is relative to.
    """

    def __init__(self, settings: OwnTask, root: str) -> None:
        self._settings, self._root = settings, root
        self._parts, self._identity = frozenset(settings.parts), identity(settings, root)
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._owner = os.getpid()

    @property
    def process_id(self) -> int | None:
        """The process that runs the code now, None where none does."""
        return None if self._process is None else self._process.popen.pid

    def tell(self, calls: Sequence[Call]) -> list[Reply | Failed]:
        """Return what each call leads to."""
        return cast("list[Reply | Failed]", self._all(calls))

    def say(self, asks: Sequence[Ask]) -> list[str | Failed]:
        """Return what each player says next."""
        return cast("list[str | Failed]", self._all(asks))

    def close(self) -> None:
        """Kill the process."""
        with self._lock:
            self._end()

    def _all(self, calls: Sequence[Call] | Sequence[Ask]) -> list[Reply | str | Failed]:
        found: dict[int, Reply | str | Failed] = {}
        groups = [list(range(len(calls)))] if calls else []
        with self._lock:
            while groups:
                places = groups.pop(0)
                answers, before = Answers(), self._process
                try:
                    self._exchange([calls[n] for n in places], answers)  # type: ignore[arg-type]
                    why = ""
                except Silent as error:
                    why = f"{error}{self._end()}"
                    if before is not None and not answers.begun:  # it was gone before
                        groups.insert(0, places)
                        continue
                except BaseException:
                    self._end()
                    raise
                found |= {places[n]: each for n, each in answers.found.items()}
                left = [n for n in range(len(places)) if n not in answers.found]
                suspects = [n for n in left if n in answers.begun]
                if len(suspects) == 1 or not answers.begun:
                    lost = suspects or left
                    found |= {places[n]: Failed("lost", why) for n in lost}
                    left, suspects = [n for n in left if n not in lost], []
                groups += [[places[n]] for n in suspects]
                groups += [rest] if (rest := [places[n] for n in left if n not in suspects]) else []
        return [found[n] for n in range(len(calls))]

    def _exchange(self, calls: Sequence[Call] | Sequence[Ask], into: Answers) -> None:
        if self._process is not None and self._owner != os.getpid():  # after a fork, the other's
            self._process.leave()
            self._process = None
        self._owner = os.getpid()
        if self._process is not None and self._process.popen.poll() is not None:
            self._end()
        if self._process is None:
            self._refuse_changed()
            self._process = _Process(self._settings, self._root)
        self._process.send(request_of(calls))
        patience = self._settings.timeout_s + SLACK_S
        read_answers(self._process.lines(patience), len(calls), self._parts, into)
        if into.stuck:
            self._end()

    def _refuse_changed(self) -> None:
        if identity(self._settings, self._root) != self._identity:
            where, fix = (
                self._settings.code,
                "give the same command again, which begins with the code as it is",
            )
            raise ConfigError("the code this run began with", found="another", where=where, fix=fix)

    def _end(self) -> str:
        """Kill the process, if there is one, and say how it had ended by itself."""
        process, self._process = self._process, None
        return "" if process is None else process.end()


class _Process:
    """One process and the channel to it; it ends with this one."""

    def __init__(self, settings: OwnTask, root: str) -> None:
        self._channel, theirs = socket.socketpair()
        with theirs:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "assay.rollout.tasks.own.isolation.worker_main", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=seen(os.environ),
            )
        self._finalizer = weakref.finalize(self, _kill, self.popen, self._channel)
        self._stream = self._channel.makefile("rb")
        self.send({"settings": settings.model_dump(mode="json"), "root": str(Path(root).resolve())})
        try:
            read_line(next(self.lines(START_S)))
        except Silent as error:
            raise Silent(f"the worker did not start: {error}{self.end()}") from None
        except ConfigError:
            self.end()
            raise

    def send(self, said: Mapping[str, Any]) -> None:
        """Send a line. Raises Silent where nobody takes it."""
        self._channel.settimeout(START_S)
        try:
            self._channel.sendall(json.dumps(said).encode() + b"\n")
        except OSError as error:
            raise Silent(f"the worker is gone ({error})") from None

    def lines(self, timeout_s: float) -> Iterator[bytes]:
        """Yield what comes. Raises Silent where nothing comes for so long, or ever again."""
        self._channel.settimeout(timeout_s)
        while True:
            try:
                line = self._stream.readline(MOST_BYTES)
            except TimeoutError:
                raise Silent(f"the worker said nothing for {timeout_s:g} s") from None
            except OSError as error:
                raise Silent(f"the worker is gone ({error})") from None
            if not line.endswith(b"\n"):
                raise Silent("the worker ended in the middle")
            yield line

    def leave(self) -> None:
        """Let it be."""
        self._finalizer.detach()

    def end(self) -> str:
        """Kill it, and say how it had ended by itself."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(0.2)
        code = self.popen.poll()
        self._finalizer()
        if code is None:
            return ", and was killed"
        named = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f" ({named})"


def _kill(popen: subprocess.Popen[bytes], channel: socket.socket) -> None:
    channel.close()
    popen.kill()
    popen.wait()


def seen(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that a task's process may see."""
    kept = {
        name: value
        for name, value in environ.items()
        if name.startswith("ASSAY_TASK_") or (SEEN.fullmatch(name) and not SECRET.search(name))
    }
    given = kept.get("PYTHONPATH", "").split(os.pathsep)
    paths = [Path(assay.__file__).parents[1], *(Path(each).resolve() for each in given if each)]
    return kept | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(map(str, paths)))}
