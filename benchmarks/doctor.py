"""Injected faults that `assay doctor` names, and what it says where nothing is wrong.

    ./run bench doctor    (writes results/doctor.json)

The faults are those of tests/training/fault_library.py. A false alarm is a warning or fault on a healthy toy
set-up, or on a shipped preset of the tiny model (with the base of tiny_smoke; `tiny` on the collider once
more with models/base where that is there, timed with everything that is loaded for it). What concerns this
machine alone is not counted.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import torch
from benchmarks.common import RESULTS, ROOT, machine, options, written
from tests.training import healthy_setup
from tests.training.fault_library import FAULTS

from assay.checks.doctor import command as doctor
from assay.core.config.composition import Selection, compose
from assay.core.config.reading import parse_params
from assay.pipeline.project import Project

REPEATS = 3


def alarms() -> dict[str, list[tuple[str, str, str]]]:
    """Return what is said where nothing is wrong, by set-up."""
    said = {"healthy": healthy_setup.amiss(healthy_setup.healthy().examined())}
    for task in ("collider", "structured"):
        with tempfile.TemporaryDirectory() as folder:
            project = healthy_setup.shipped(Path(folder) / task, task)
            policy = healthy_setup.spoken(project, quickly=False)
            for preset in ("tiny", "tiny_smoke"):
                chosen = healthy_setup.with_preset(project, preset)
                said[f"{preset} {task}"] = healthy_setup.amiss(healthy_setup.examined_project(chosen, policy))
    return said


def real() -> tuple[list[tuple[str, str, str]], list[float]]:
    """Return what is said about the project as it stands, tiny on the collider, and the seconds of each time
    it is asked."""
    project = Project(ROOT, parse_params(compose(ROOT, Selection("tiny", "collider", 0)).values))
    findings, seconds = [], []
    for _ in range(REPEATS):
        begun = time.monotonic()
        findings, unseen = doctor.examined(project)
        seconds.append(round(time.monotonic() - begun, 2))
        if unseen:
            return [], []
    return healthy_setup.amiss(findings), seconds


def main() -> None:
    """Inject every fault, look where there is none, and write the result."""
    options(__doc__).parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    missed = [fault.name for fault in FAULTS if fault.named_by(fault.examined()) is None]
    said = alarms()
    said["tiny collider, models/base"], seconds = real()
    result = {
        "faults": len(FAULTS),
        "named": len(FAULTS) - len(missed),
        "missed": missed,
        "checks_that_named_them": len({fault.check for fault in FAULTS}),
        "false_alarms": sum(len(each) for each in said.values()),
        "said_where_nothing_is_wrong": said,
        "seconds": seconds,
        "machine": machine(),
    }
    written(RESULTS / "doctor.json", result)
    print(
        f"{result['named']} of {result['faults']} faults named, {result['false_alarms']} false alarms,"
        f" {seconds} s"
    )


if __name__ == "__main__":
    main()
