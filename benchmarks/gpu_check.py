"""Does on a GPU hold what tests show on a CPU? Determinism, kill and resume, two processes, memory, and the
doctor.

    ./run bench gpu_check
    ./run python benchmarks/gpu_check.py --device cpu --tiny --out FILE   (a try without a GPU)

Each part makes a copy of the project in a temporary folder and runs the commands of assay there, as a user
does. determinism: the same training twice gives the same bytes. resume: a training killed with SIGKILL and
called again gives them too. processes: with two GPUs, two processes (nccl; gloo on a CPU) end with equal
weights, twice the same. doctor: what `assay doctor` says and how long it takes. Large models, and what the
doctor forecasts of them, are those of gpu_presets.

Writes results/gpu_check_<device>.json. Exits with 1 if a part failed, with 2 if there is no such device
(nothing is written).
"""

from __future__ import annotations

import csv
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from benchmarks.gpu_parts import NO_DEVICE, Part, lacks_device, options, try_parts
from tests.training.whole_project import (
    copied_project,
    copy_of,
    facts,
    killed_when,
    left_by_training,
    run,
    steps_saved,
)

BACKENDS = {"cpu": "gloo", "cuda": "nccl"}
BROKEN = re.compile(
    r"FAULT (playing|learning pass|log-probabilities|gradients|memory|base)\b"
)  # not what a model says
STEPS, KILL_AT = 20, 8
DOCTOR_SECONDS = 120.0


def small(folder: Path, device: str, *, processes: int = 1) -> Path:
    """Return a project with the smoke preset, longer, on the device, with its base."""
    changes = {
        "device": device,
        "train.steps": STEPS,
        "checkpoint.every": 2,
        "train.micro_batch_size": 16 // processes,
        "distributed.processes": processes,
        "distributed.backend": BACKENDS[device],
        "deterministic": True,
    }
    project = copied_project(folder, "tiny_smoke", "collider", changes)
    run(project, "base")
    run(project, "pre-eval")
    return project


def determinism(folder: Path, device: str, tiny: bool) -> dict[str, Any]:
    """Train twice."""
    source = small(folder / "source", device)
    one, other = copy_of(source, "one"), copy_of(source, "other")
    for project in (one, other):
        run(project, "train")
    found, again = left_by_training(one), left_by_training(other)
    return {
        "ok": found == again,
        "deterministic": True,
        "steps": STEPS,
        "chain": facts(one)["chain"],
        "differing": sorted(name for name in found if found[name] != again.get(name)),
        "peak": peak(one),
    }


def resume(folder: Path, device: str, tiny: bool) -> dict[str, Any]:
    """Kill a training twice, and go on."""
    source = small(folder / "source", device)
    whole, killed = copy_of(source, "whole"), copy_of(source, "killed")
    run(whole, "train")
    codes, after = [], []
    for step in (KILL_AT, 2 * KILL_AT):
        codes.append(
            killed_when(killed, "train", when=lambda step=step: max(steps_saved(killed), default=0) >= step)
        )
        after.append(max(steps_saved(killed)))
    said = run(killed, "train").stdout
    found, again = left_by_training(whole), left_by_training(killed)
    return {
        "ok": found == again and codes == [-9, -9] and "going on after step" in said,
        "exit_codes": codes,
        "killed_after_steps": after,
        "chain": facts(killed)["chain"],
        "differing": sorted(name for name in found if found[name] != again.get(name)),
    }


def processes(folder: Path, device: str, tiny: bool) -> dict[str, Any]:
    """Train with two processes, twice; the trainer itself refuses to go on where their weights differ."""
    devices = torch.cuda.device_count() if device == "cuda" else os.cpu_count() or 1
    if devices < 2:
        return {"ok": None, "why": f"{devices} device: two processes need two"}
    source = small(folder / "source", device, processes=2)
    one, other = copy_of(source, "one"), copy_of(source, "other")
    for project in (one, other):
        run(project, "train")
    equal = left_by_training(one) == left_by_training(other)
    return {"ok": equal, "backend": BACKENDS[device], "chain": facts(one)["chain"], "peak": peak(one)}


def doctor(folder: Path, device: str, tiny: bool) -> dict[str, Any]:
    """Ask the doctor."""
    project = small(folder / "source", device)
    begun = time.monotonic()
    said = run(project, "doctor", codes=(0, 1)).stdout
    seconds = time.monotonic() - begun
    amiss = [line for line in said.splitlines() if line.startswith(("WARNING", "FAULT"))]
    broken = [line for line in amiss if BROKEN.match(line)]
    return {"ok": seconds <= DOCTOR_SECONDS and not broken, "doctor_seconds": seconds, "said": amiss}


def peak(project: Path) -> dict[str, float | None]:
    """Return the most memory that a training took, of the process and of the GPU, in MiB."""
    with (project / "evidence/observed/training_clock.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    measured = {
        name: [float(row[name]) for row in rows if row[name]] for name in ("peak_ram_mib", "peak_gpu_mib")
    }
    return {name: max(values, default=None) for name, values in measured.items()}


PARTS: dict[str, Part] = {
    "determinism": determinism,
    "resume": resume,
    "processes": processes,
    "doctor": doctor,
}


def main() -> int:
    """Check every part and return the exit code."""
    chosen = options(__doc__, PARTS).parse_args()
    return NO_DEVICE if lacks_device("gpu_check", chosen.device) else try_parts("gpu_check", PARTS, chosen)


if __name__ == "__main__":
    raise SystemExit(main())
