"""Injected faults that `assay doctor` names, and what it says where nothing is wrong; writes
results/doctor.json.

The faults are those of tests/training/fault_library.py. A false alarm is a warning or fault on a healthy toy
set-up, or on a shipped preset of the tiny model (with the base of tiny_smoke; `tiny` on the collider once
more with models/base where that is there, timed with everything that is loaded for it). What concerns this
machine alone is not counted. Usage: ./run bench doctor, and ./run python benchmarks/doctor.py --large for the
time that `assay doctor` takes for a model of 137 M parameters with random weights, on a CPU, all of the
command: results/doctor_large.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
import torch
from tests.training import healthy_setup
from tests.training.fault_library import FAULTS
from tests.training.whole_project import LARGE, base_folder, copied_project, run

from assay.core.config.composition import Selection, compose
from assay.core.config.reading import parse_params
from assay.pipeline.project import Project
from assay.tools.doctor import command as doctor

RESULT = Path(__file__).parent / "results" / "doctor.json"
LARGE_RESULT = RESULT.with_name("doctor_large.json")
REPEATS, THREADS = 3, 2


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


def large() -> dict[str, object]:
    """Return how long the command takes for a large model, and what it says it did not look at."""
    seconds, load, said = [], [], ""
    with tempfile.TemporaryDirectory(prefix="assay-doctor-") as folder:
        parameters = base_folder(Path(folder) / "base", LARGE)
        changes = {
            "device": "cpu",
            "threads": THREADS,
            "distributed.backend": "gloo",
            "base.dtype": "float32",
            "base.model": str(Path(folder) / "base"),
        }
        project = copied_project(Path(folder) / "project", "pretrained", "collider", changes)
        run(project, "base")
        for _ in range(REPEATS):
            load.append(
                round(os.getloadavg()[0], 1)
            )  # of a machine that others use, the times are theirs too
            begun = time.monotonic()
            said = run(project, "doctor", codes=(0, 1)).stdout
            seconds.append(round(time.monotonic() - begun, 1))
            print(f"{seconds[-1]} s\n{said}", file=sys.stderr, flush=True)
    amiss = [line for line in said.splitlines() if line.startswith(("WARNING", "FAULT"))]
    settings = {"parameters": parameters, "threads": THREADS, "surface": "json"}
    return settings | {"seconds": seconds, "load_before": load, "said": amiss}


def main() -> None:
    """Inject every fault, look where there is none, and write the result; or time a large model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--large", action="store_true", help="only time a large model")
    if parser.parse_args().large:
        machine = {
            "machine": platform.machine(),
            "python": platform.python_version(),
            "torch": version("torch"),
        }
        found = json.dumps(large() | machine, indent=2, sort_keys=True, ensure_ascii=False)
        LARGE_RESULT.write_text(found + "\n", encoding="utf-8")
        return
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
        "machine": platform.machine(),
        "python": platform.python_version(),
        "torch": version("torch"),
    }
    RESULT.write_text(json.dumps(result, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
    print(
        f"{result['named']} of {result['faults']} faults named, {result['false_alarms']} false alarms,"
        f" {seconds} s"
    )


if __name__ == "__main__":
    main()
