"""Somebody's code behind an address: the lines of a worker over HTTP, as `serve` speaks them."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator, Sequence
from typing import cast
from urllib.parse import urlsplit

from assay.core.errors import ConfigError
from assay.rollout.tasks.own.calls import Ask, Call, Failed, Reply
from assay.rollout.tasks.own.isolation.lines import (
    MOST_BYTES,
    SLACK_S,
    Answers,
    Silent,
    identity,
    read_answers,
    request_of,
)
from assay.rollout.tasks.own.settings import OwnTask

ADDRESS = "ASSAY_TASK_SERVER"
HOW = "python -m assay.rollout.tasks.own.isolation.serve --settings params.yaml --port 8765"


class Server:
    """Plays calls on a server that has the same task.

    Args:
        settings: Of the task.
        root: Project that its folder is relative to.

    Raises:
        ConfigError: ASSAY_TASK_SERVER is not the address of one.
    """

    def __init__(self, settings: OwnTask, root: str) -> None:
        address = os.environ.get(ADDRESS, "")
        fix = f"{HOW}, and export {ADDRESS}=http://127.0.0.1:8765"
        try:
            parts = urlsplit(address)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            found = repr(address) if address else "nothing"
            where = f"{ADDRESS}, which task.isolation: server needs"
            raise ConfigError("an http or https address", found=found, where=where, fix=fix)
        self._host, self._port, self._path = parts.hostname, port, parts.path.rstrip("/") + "/calls"
        self._kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._parts = frozenset(settings.parts)
        self._patience, self._identity = settings.timeout_s + SLACK_S, identity(settings, root)

    def tell(self, calls: Sequence[Call]) -> list[Reply | Failed]:
        """Return what each call leads to."""
        return cast("list[Reply | Failed]", self._all(calls))

    def say(self, asks: Sequence[Ask]) -> list[str | Failed]:
        """Return what each player says next."""
        return cast("list[str | Failed]", self._all(asks))

    def close(self) -> None:
        """No connection outlives a request."""

    def _all(self, calls: Sequence[Call] | Sequence[Ask]) -> list[Reply | str | Failed]:
        answers, lost = Answers(), Failed("lost", "")
        if not calls:
            return []
        body = json.dumps({"task": self._identity, **request_of(calls)}).encode()
        connection = self._kind(self._host, self._port, timeout=self._patience)
        try:
            connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            read_answers(_lines(response), len(calls), self._parts, answers)
        except (Silent, OSError, http.client.HTTPException) as error:
            lost = Failed("lost", f"the server at {self._host}: {type(error).__name__}: {error}")
        finally:
            connection.close()
        return [answers.found.get(n, lost) for n in range(len(calls))]


def _lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    if response.status != 200:
        raise Silent(f"status {response.status} {response.reason}")
    while line := response.readline(MOST_BYTES):
        if not line.endswith(b"\n"):
            raise Silent("it ended in the middle")
        yield line
