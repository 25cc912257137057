"""Rough forecasts once there is a model: how long a training takes, from what the probe took, and how much
disk."""

from __future__ import annotations

import shutil
from pathlib import Path

from assay.core.config.places import setting
from assay.core.config.settings import Params
from assay.core.counting import counted
from assay.tools.doctor.findings import Check, Finding
from assay.tools.doctor.forecast.passes import Cost

GIB = 2.0**30
MIB = 2.0**20


def time_finding(params: Params, played_seconds: float, cost: Cost | None) -> Finding:
    """Return how long the training may take, from the seconds an episode took to play and to learn from."""
    train, validation = params.train, params.validation
    learned_seconds = cost.seconds / cost.episodes if cost is not None else 0.0
    probe = train.kl_probe_episodes * learned_seconds
    step = (
        train.items_per_step
        * train.group_size
        * (played_seconds + learned_seconds)
        / params.distributed.processes
        + probe
    )
    validations = 2 + (train.steps - 1) // validation.interval
    whole = train.steps * step + validations * validation.items * (validation.draws + 1) * played_seconds
    check = Check("time (forecast)", "a time you have", setting("train.steps"))
    without = "" if cost is not None else ", the learning pass left out"
    return check.ok(
        f"about {step:.2g} s a step, {duration(whole)} in all with"
        f" {counted(validations, 'validations')}{without}"
    )


def disk_finding(params: Params, adapter_bytes: int, folder: Path) -> Finding:
    """Return whether the checkpoints will fit: weights, two moments and the best adapter, for each that is
    kept at a time."""
    needed = 4 * adapter_bytes * (params.checkpoint.keep + 2)
    free = shutil.disk_usage(_existing(folder)).free
    check = Check("disk", f"{needed / MIB:.3g} MiB for checkpoints", f"the disk of {folder.name or folder}")
    if needed > free:
        return check.fault(
            f"{free / MIB:.3g} MiB free", "make room, or lower checkpoint.keep or train.lora.r"
        )
    if 2 * needed > free:
        return check.warning(
            f"{free / MIB:.3g} MiB free", "make room, or lower checkpoint.keep or train.lora.r"
        )
    return check.ok(f"{free / GIB:.3g} GiB free")


def _existing(folder: Path) -> Path:
    return next(place for place in (folder.resolve(), *folder.resolve().parents) if place.exists())


def duration(seconds: float) -> str:
    """Return a time in words.

    >>> duration(30.0), duration(600.0), duration(9000.0)
    ('30 s', '10 minutes', '2.5 hours')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"
