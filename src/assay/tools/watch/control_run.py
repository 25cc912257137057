"""The control training behind a finished one: whether it is at work now, and how far it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.errors import RecordError
from assay.core.storage.files import read_bytes
from assay.core.storage.json import dumps
from assay.tools.watch.partial_reads import read_object, read_objects

KEY, EVENTS = "key.json", "run_log.jsonl"


@dataclass(frozen=True, slots=True)
class ControlRun:
    """A control stage that is at work."""

    step: int | None  # the newest that is known: of a checkpoint or a validation
    trained: bool  # and plays the held-out suite now


def find_control_run(scratch: Path, params: Any) -> ControlRun | None:
    """Return the control stage that is at work with these settings, None if there is none.

    It holds the lock of its run folder, in which its process is named. The lock itself is not tried: for that
    moment nobody else could have it. Nothing that is found there is an error.

    Args:
        scratch: The folder of its run folders, .scratch/control.
        params: Settings of the training it belongs to, as values.
    """
    for lock in sorted(scratch.glob("*.lock")):
        folder = lock.with_suffix("")
        process = _read(lock).decode("ascii", "replace").strip()
        if _is_alive(process) and _has_settings(folder / KEY, params):
            events = read_objects(_read(folder / EVENTS), [])
            steps = [event["step"] for event in events if isinstance(event.get("step"), int)]
            is_trained = any(event.get("event") == "trained" for event in events)
            return ControlRun(max(steps, default=None), is_trained)
    return None


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path, fix="")
    except RecordError:
        return b""


def _is_alive(process: str) -> bool:
    if not process.isdecimal() or len(process) > 9 or int(process) < 1:
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # somebody else's, and alive
    return True


def _has_settings(key: Path, params: Any) -> bool:
    """Return whether every setting that a run folder is named by has the value it has in `params`."""
    parts = read_object(_read(key), []).get("parts")
    known = parts.items() if isinstance(parts, dict) else ()
    told = {name.removeprefix("params."): value for name, value in known if name.startswith("params.")}
    return bool(told) and all(_find_setting(params, name) == value for name, value in told.items())


def _find_setting(params: Any, name: str) -> str | None:
    for part in name.split("."):
        if not isinstance(params, Mapping) or part not in params:
            return None
        params = params[part]
    return dumps(params)
