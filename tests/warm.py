"""An `assay` that has imported everything before it is called: each call is a process of its own, forked from
one that waits, and pays for no imports. For tests that have DVC call stage after stage; one call at a time,
and none inside another."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import traceback
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from json import loads
from pathlib import Path
from typing import NoReturn

from tests.fuzz.runner import called_here, import_all

# What is found as `assay`: it hands words, place, environment and streams over and ends with the exit code.
CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as waiting:
    waiting.connect("\\0{address}")
    told = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)])
    socket.send_fds(waiting, [told.encode()], [0, 1, 2])
    sys.exit(int(waiting.recv(8)))
"""


@contextmanager
def warm(root: Path, folder: Path, environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Start what waits, with the code of a project, and yield an environment in which it is `assay`.

    Args:
        root: The project.
        folder: To be made, for the command.
        environment: Of what waits.
    """
    address = f"assay {uuid.uuid4()}"
    folder.mkdir()
    (folder / "assay").write_text(CLIENT.format(python=sys.executable, address=address), encoding="utf-8")
    (folder / "assay").chmod(0o755)
    command = [sys.executable, "-m", "tests.warm", address]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=root, env=environment, stdout=pipe, text=True, start_new_session=True
    ) as waiting:
        try:
            assert waiting.stdout is not None and waiting.stdout.readline() == "ready\n"
            yield {**environment, "PATH": f"{folder}{os.pathsep}{environment['PATH']}"}
        finally:
            os.killpg(waiting.pid, signal.SIGKILL)  # also the call that is under way


def main(address: str) -> None:
    """Import, and fork for one call after the other until killed."""
    import_all()
    gc.collect()
    gc.freeze()  # so that a child does not copy what it only looks at
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(f"\0{address}")
        door.listen()
        print("ready", flush=True)  # noqa: T201
        while True:
            call, _ = door.accept()
            if not (called := os.fork()):
                _answer(call)
            ended = os.waitstatus_to_exitcode(os.waitpid(called, 0)[1])
            call.send(str(ended % 256).encode())
            call.close()


def _answer(call: socket.socket) -> NoReturn:
    code = 1
    try:
        told, streams, *_ = socket.recv_fds(call, 2**20, 3)
        words, place, environment = loads(told)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(place)
        os.environ.clear()
        os.environ.update(environment)
        code = called_here(words)
    except BaseException:  # noqa: BLE001 - a fault of a call must not go on as the one that waits
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1])
