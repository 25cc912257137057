"""The process that a worker starts: reads requests from the channel it is given, and answers them."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

from assay.core.errors import AssayError
from assay.rollout.tasks.own.isolation.inline import inline_of
from assay.rollout.tasks.own.isolation.lines import answer, error_line
from assay.rollout.tasks.own.settings import OwnTask


def main() -> None:
    """Answer until the channel ends."""
    os.dup2(2, 1)  # what somebody's code prints is no part of anything else's output
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who started it ends it
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        channel.set_inheritable(False)
        requests = channel.makefile("rb")
        first = json.loads(requests.readline())
        try:
            settings = OwnTask.model_validate(first["settings"])
            # One call at a time may stand in the main thread, which some code wants (signal.alarm): whoever
            # waits for it ends this process.
            inline = inline_of(settings, first["root"], 0 if settings.threads == 1 else None)
        except AssayError as error:
            channel.sendall(error_line(error))
            return

        def write(line: bytes) -> None:
            try:
                channel.sendall(line)
            except OSError:
                os._exit(1)  # nobody is there any more

        write(b'{"ready": true}\n')
        for line in requests:
            answer(inline, json.loads(line), write)
    os._exit(0)  # whatever thread of somebody's still runs


if __name__ == "__main__":
    main()
