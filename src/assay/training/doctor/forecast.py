"""Rough forecasts from what the probe took: how long, how much memory, how much disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import torch

from assay.config.settings import Params
from assay.provenance import peak_ram_bytes
from assay.training.doctor.findings import Check, Finding
from assay.training.doctor.passes import Cost

SCARCE = 0.9  # of the memory there is
GIB = 2.0**30
MIB = 2.0**20


def time_finding(params: Params, played_seconds: float, cost: Cost | None) -> Finding:
    """Return how long the training may take, from the seconds an episode took to play and to learn from."""
    train, validation = params.train, params.validation
    learned_seconds = cost.seconds / cost.episodes if cost is not None else 0.0
    probe = train.kl_probe_episodes * learned_seconds
    step = train.items_per_step * train.group_size * (played_seconds + learned_seconds) / params.distributed.processes + probe
    validations = 2 + (train.steps - 1) // validation.interval
    whole = train.steps * step + validations * validation.items * (validation.draws + 1) * played_seconds
    check = Check("time (forecast)", "a time you have", "params.yaml, train.steps")
    without = "" if cost is not None else ", the learning pass left out"
    return check.ok(f"about {step:.2g} s a step, {_duration(whole)} in all with {validations} validations{without}")


def memory_finding(params: Params, cost: Cost | None, adapter_bytes: int) -> Finding:
    """Return how much memory a step may take at its peak, against what there is."""
    check = Check("memory (forecast)", "a peak that fits", "params.yaml, train.micro_batch_size")
    share = 1.0 if cost is None else params.train.micro_batch_size / cost.episodes
    growth = 0 if cost is None or cost.peak_bytes is None else cost.peak_bytes
    optimizer = 3 * adapter_bytes  # gradient and two moments
    if params.device == "cuda":
        total, peak = torch.cuda.mem_get_info()[1], torch.cuda.memory_allocated() + growth * share + optimizer
    else:
        total, peak = _physical_bytes(), peak_ram_bytes() + growth * max(0.0, share - 1.0) + optimizer
    found = f"about {peak / GIB:.2g} of {total / GIB:.3g} GiB"
    if peak > SCARCE * total:
        fix = "lower train.micro_batch_size or generation.batch_size, or set train.gradient_checkpointing: true"
        return check.warning(found, fix)
    return check.ok(found)


def disk_finding(params: Params, adapter_bytes: int, folder: Path) -> Finding:
    """Return whether the checkpoints will fit: weights, two moments and the best adapter, for each that is kept at a time."""
    needed = 4 * adapter_bytes * (params.checkpoint.keep + 2)
    free = shutil.disk_usage(_existing(folder)).free
    check = Check("disk", f"{needed / MIB:.3g} MiB for checkpoints", f"the disk of {folder.name or folder}")
    if needed > free:
        return check.fault(f"{free / MIB:.3g} MiB free", "make room, or lower checkpoint.keep or train.lora.r")
    if 2 * needed > free:
        return check.warning(f"{free / MIB:.3g} MiB free", "make room, or lower checkpoint.keep or train.lora.r")
    return check.ok(f"{free / GIB:.3g} GiB free")


def _existing(folder: Path) -> Path:
    return next(place for place in (folder.resolve(), *folder.resolve().parents) if place.exists())


def _physical_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _duration(seconds: float) -> str:
    """Return a time in words.

    >>> _duration(30.0), _duration(600.0), _duration(9000.0)
    ('30 s', '10 minutes', '2.5 hours')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"
