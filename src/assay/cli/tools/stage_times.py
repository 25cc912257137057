"""Where a stage stands among all, and how long what is left took the last time on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from assay.checks.findings import duration
from assay.core.config.settings import Params
from assay.core.console import say
from assay.core.errors import RecordError
from assay.core.storage.files import read_text, write_text
from assay.core.storage.json import digest, dumps, loads

STAGES = ("fingerprint", "base", "pre_eval", "train", "control", "post_eval", "render_evidence", "package")
FOLDER = "stage_seconds"  # in .scratch/: a file for the settings, whatever the seed


def tell_place(stage: str, scratch: Path, params: Params) -> None:
    """Say where a stage stands, where DVC called it: by itself it is one of one."""
    if os.environ.get("DVC_STAGE") and "RANK" not in os.environ:
        say(place_said(stage, _read(_file(scratch, params))))


def place_said(stage: str, seconds: Mapping[str, float]) -> str:
    """Return where a stage stands; with the time to the end where each stage that is left was timed.

    Args:
        stage: Its name.
        seconds: What stages took, by name. DVC may skip some of those that are left.

    >>> place_said("post_eval", {"post_eval": 40, "render_evidence": 75.0, "package": 5})
    'post_eval: stage 6 of 8; at most 2 min 00 s left, if it goes as the last time'
    >>> place_said("train", {"post_eval": 40})
    'train: stage 4 of 8'
    """
    at = STAGES.index(stage)
    left = [seconds.get(each) for each in STAGES[at:]]
    total = sum(each for each in left if each is not None)
    told = "" if None in left else f"; at most {duration(total)} left, if it goes as the last time"
    return f"{stage}: stage {at + 1} of {len(STAGES)}{told}"


def note_seconds(stage: str, scratch: Path, params: Params, seconds: float) -> None:
    """Keep what a stage took; less than half of what is known is that of one which went on from kept work."""
    if os.environ.get("RANK", "0") != "0":
        return
    file = _file(scratch, params)
    known = _read(file)
    if seconds >= known.get(stage, 0.0) / 2:
        with suppress(OSError, RecordError):  # a disk that is full spoils no stage
            write_text(file, dumps(known | {stage: round(seconds, 1)}))


def _file(scratch: Path, params: Params) -> Path:
    settings = params.model_dump(mode="json") | {"seed": None}
    return scratch / FOLDER / f"{digest(settings)[:16]}.json"


def _read(file: Path) -> dict[str, float]:
    with suppress(RecordError):
        found = loads(read_text(file, fix=""), where=file.name, fix="")
        if isinstance(found, dict):
            return {name: float(each) for name, each in found.items() if isinstance(each, int | float)}
    return {}
