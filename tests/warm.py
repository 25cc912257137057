"""A Python that has imported the large libraries before it is called: each call is a process of its own,
forked from one that waits, and pays only for the imports of the code that it runs.

What is called is the tree's own code, found by PYTHONPATH as any Python finds it. What libraries read of the
environment as they are imported has to be what the one that waits has: a call with anything else, or with
options other than -u, -m and -c, is run by Python itself, and so is each where nothing waits any more. All
calls have one seed of hashes, so what must not depend on it is tried without this. The parent of a call is
not who called; that one is CALLED_BY in its environment.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from json import loads
from pathlib import Path
from typing import NoReturn

# Seconds of processor time, all of them, before the first line of ours.
LIBRARIES = (
    "torch",
    "transformers.models.qwen3.modeling_qwen3",
    "transformers.trainer",
    "peft",
    "trl.trainer.grpo_trainer",
    "torch.distributed.elastic.multiprocessing.errors",
    "scipy.stats",
    "pandas",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "hydra",
    "model_signing",
    "dvc.repo",
    "rich.console",
    "typer",
)
# What they read of the environment as they are imported.
READ_ONCE = ("HF_", "TRANSFORMERS_", "OMP_", "MKL_", "MPL", "TOKENIZERS_", "TRL_", "CUDA_", "PYTHONHASHSEED")
# What `assay` sets as it starts, in a test session too: it makes no other environment.
OURS = {
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
# Hands words, place, environment and streams over, and signals that come; ends as the call ends.
CLIENT = """#!{python} -IS
import json, os, signal, socket, sys
words = {words!r} + sys.argv[1:]
same = {read!r} == {{n: v for n, v in ({ours!r} | os.environ).items() if n.startswith({names!r})}}
known = words and (words[words[0] == "-u"] in ("-m", "-c") or not words[words[0] == "-u"].startswith("-"))
waiting = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try:
    if not (same and known):
        raise OSError
    waiting.connect("\\0{address}")
except OSError:
    os.execv({python!r}, [{python!r}, *words])
told = json.dumps([words, os.getcwd(), {{**os.environ, "CALLED_BY": str(os.getppid())}}])
socket.send_fds(waiting, [told.encode()], [0, 1, 2])
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda number, _: waiting.send(str(int(number)).encode()))
code = int(waiting.recv(8) or 1)
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@contextmanager
def warm(folder: Path, environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Start what waits, and yield an environment in which `assay` is handed to it.

    Args:
        folder: To be made, for the commands.
        environment: Of what waits.
    """
    waiting = _start(folder, environment)
    try:
        yield {**environment, "PATH": f"{folder}{os.pathsep}{environment['PATH']}"}
    finally:
        waiting.communicate()  # the end of its input is its own


_KEPT: list[subprocess.Popen[bytes]] = []  # those of this test session


def warm_python() -> str:
    """Return the Python of this test session that has imported the libraries; `assay` lies beside it."""
    from tests import kept

    folder = kept.kept("warm", lambda folder: _KEPT.append(_start(folder, os.environ)))
    return sys.executable if folder is None else str(folder / "python")


def _start(folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Write the commands, and return what they are handed to; it ends with its input."""
    address = f"assay {uuid.uuid4()}"
    folder.mkdir()
    given = OURS | dict(environment)
    read = {name: value for name, value in given.items() if name.startswith(READ_ONCE)}
    for name, words in (("python", []), ("assay", ["-m", "assay.cli"])):
        text = CLIENT.format(
            python=sys.executable, address=address, words=words, read=read, names=READ_ONCE, ours=OURS
        )
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    pipe = subprocess.PIPE
    waiting = subprocess.Popen(
        [sys.executable, "-P", __file__, address], env=given, stdin=pipe, stdout=pipe, start_new_session=True
    )
    assert waiting.stdout is not None and waiting.stdout.readline() == b"ready\n"
    return waiting


def main(address: str) -> None:
    """Import, and fork for each call until the input ends."""
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):  # then the calls do without
            importlib.import_module(name)
    ours = [os.path.abspath(name) for name in os.environ.get("PYTHONPATH", "").split(os.pathsep) if name]
    sys.path[:] = [name for name in sys.path if os.path.abspath(name) not in ours]
    tempfile.tempdir = None  # a call may have another
    gc.collect()
    gc.freeze()  # so that a child does not copy what it only looks at
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # of those that hand over
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(f"\0{address}")
        door.listen(64)
        print("ready", flush=True)  # noqa: T201
        given = sys.stdin.fileno()
        while given not in select.select([door.fileno(), given], [], [])[0]:
            call, _ = door.accept()
            if not os.fork():
                door.close()
                _hand_over(call)
            call.close()


def _hand_over(call: socket.socket) -> NoReturn:
    """Start a call, pass signals on to it, and say how it ended; it ends where who called is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    told, streams, *_ = socket.recv_fds(call, 2**20, 3)
    if not (called := os.fork()):
        call.close()
        _answer(told, streams)
    for number in (0, 1, 2, *streams):
        os.close(number)  # a pipe that is left open here would not end where the call ends
    ended = os.pidfd_open(called)
    while ended not in select.select([ended, call.fileno()], [], [])[0]:
        os.kill(called, int(call.recv(8) or signal.SIGKILL))
    code = os.waitstatus_to_exitcode(os.waitpid(called, 0)[1])
    with contextlib.suppress(OSError):  # nobody waits any more
        call.send(str(code).encode())
    os._exit(0)


def _answer(told: bytes, streams: list[int]) -> NoReturn:
    """Be the Python that was called, in a process of its own."""
    code = 1
    try:
        words, place, environment = loads(told)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(place)
        os.environ.clear()
        os.environ.update(environment)
        code = _ran(words)
    except BaseException as error:  # noqa: BLE001 - it must not go on as the one that waits
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        with contextlib.suppress(BaseException):  # what Python does at its end
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
        for written in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                written.flush()
        os._exit(code)


def _ran(words: list[str]) -> int:
    """Do what Python does with these words, and return its exit code."""
    if words[0] == "-u":
        words = words[1:]
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    first = {"-c": "", "-m": os.getcwd()}.get(words[0], os.path.dirname(os.path.abspath(words[0])))
    own = [os.path.abspath(name) for name in os.environ.get("PYTHONPATH", "").split(os.pathsep) if name]
    sys.path[:0] = [first, *own]
    importlib.invalidate_caches()
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        elif words[0] == "-c":
            sys.argv = ["-c", *words[2:]]
            sys.modules["__main__"] = main = types.ModuleType("__main__")
            exec(words[1], vars(main))
        else:
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as ended:
        if ended.code is not None and not isinstance(ended.code, int):
            print(ended.code, file=sys.stderr)  # noqa: T201
        return 0 if ended.code is None else ended.code % 256 if isinstance(ended.code, int) else 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 0


if __name__ == "__main__":
    main(sys.argv[1])
