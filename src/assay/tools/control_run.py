"""The control training behind a finished one: whether it is at work now, and how far it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.errors import RecordError
from assay.storage.files import read_bytes
from assay.storage.json import dumps
from assay.tools.torn_files import objects, one_object

KEY, EVENTS = "key.json", "run_log.jsonl"


@dataclass(frozen=True, slots=True)
class ControlRun:
    """A control stage that is at work."""

    step: int | None  # the newest that is known: of a checkpoint or a validation
    trained: bool  # and plays the held-out suite now


def control_run(scratch: Path, params: Any) -> ControlRun | None:
    """Return the control stage that is at work with these settings, None if there is none; nothing found there is an error.

    It holds the lock of its run folder, in which its process is named. The lock itself is not tried: for that moment
    nobody else could have it.

    Args:
        scratch: The folder of its run folders, .scratch/control.
        params: Settings of the training it belongs to, as values.
    """
    for lock in sorted(scratch.glob("*.lock")):
        folder = lock.with_suffix("")
        if _alive(lock) and _of(folder / KEY, params):
            events = objects(_read(folder / EVENTS), [])
            steps = [event["step"] for event in events if isinstance(event.get("step"), int)]
            return ControlRun(max(steps, default=None), any(event.get("event") == "trained" for event in events))
    return None


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path, fix="")
    except RecordError:
        return b""


def _alive(lock: Path) -> bool:
    holder = _read(lock).decode("ascii", "replace").strip()
    if not holder.isdecimal() or len(holder) > 9 or int(holder) < 1:
        return False
    try:
        os.kill(int(holder), 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # somebody else's, and alive
    return True


def _of(key: Path, params: Any) -> bool:
    """Return whether every setting that a run folder is named by has the value it has in `params`."""
    try:
        parts = one_object(_read(key), []).get("parts")
    except RecordError:
        return False
    told = {name: value for name, value in parts.items() if name.startswith("params.")} if isinstance(parts, dict) else {}
    return bool(told) and all(_leaf(params, name.split(".")[1:]) == value for name, value in told.items())


def _leaf(value: Any, path: list[str]) -> str | None:
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return dumps(value)
