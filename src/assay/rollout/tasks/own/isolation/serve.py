"""Serves a task's code on this machine, for `task.isolation: server`.

python -m assay.rollout.tasks.own.isolation.serve --settings params.yaml --port 8765
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pydantic import ValidationError

from assay.core.console import complain, say
from assay.core.errors import AssayError, ConfigError
from assay.core.storage.yaml import read_yaml
from assay.rollout.tasks.own.isolation.inline import Inline, inline_of
from assay.rollout.tasks.own.isolation.lines import answer, error_line, identity
from assay.rollout.tasks.own.settings import OwnTask

MOST_ASKED = 1 << 30  # bytes of a request


class Serving(ThreadingHTTPServer):
    """Answers requests on loopback.

    Args:
        settings: Of the task.
        root: Project that its folder is relative to.
        port: 0 takes a free one.
    """

    daemon_threads = True

    def __init__(self, settings: OwnTask, root: str, port: int) -> None:
        self.inline: Inline = inline_of(settings, root)
        self.identity = identity(settings, root)
        super().__init__(("127.0.0.1", port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: Serving
    timeout = 60
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if self.path != "/calls" or not 0 < length <= MOST_ASKED:
            self.send_error(404)
            return
        try:
            request = json.loads(self.rfile.read(length))
            asked = request.pop("task")
        except (ValueError, KeyError, AttributeError):
            self.send_error(400)
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/jsonl")
        self.end_headers()
        if asked != self.server.identity:
            fix = "start it again, on the project as it is now"
            error = ConfigError(
                "the task of these settings", found="another one", where="the task's server", fix=fix
            )
            self._write(error_line(error))
            return
        answer(self.server.inline, request, self._write)

    def _write(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # whoever asked is gone
            self.wfile.write(line)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


def main() -> int:
    """Serve until it is stopped; the address is printed first."""
    parser = argparse.ArgumentParser(description="Serve a task's code on this machine.")
    parser.add_argument("--settings", default="params.yaml", help="file with the settings of task")
    parser.add_argument("--root", default=".", help="project that task.code is relative to")
    parser.add_argument("--port", type=int, default=8765, help="0: a free one")
    asked = parser.parse_args()
    try:
        values = read_yaml(Path(asked.settings), fix="--settings params.yaml")
        try:
            settings = OwnTask.model_validate(values.get("task", values))
        except ValidationError as error:
            fix = "settings of a task that is brought along, task.name: own"
            raise ConfigError(
                "settings of such a task", found=str(error)[:300], where=asked.settings, fix=fix
            ) from None
        serving = Serving(settings, asked.root, asked.port)
    except AssayError as error:
        complain(str(error))
        return error.exit_code
    say(f"http://127.0.0.1:{serving.server_port}")
    os.dup2(2, 1)  # what somebody's code prints is no part of that
    with contextlib.suppress(KeyboardInterrupt):
        serving.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
