"""A whole run of a preset with a pretrained base, stage by stage, and what came of it.

    ./run bench real    (with the settings of params.yaml, such as grpo=cpu_smollm2 task=bfcl)

Runs what `./run repro` would, each stage in a process of its own, whose processor seconds (with those of its
children), seconds and largest process are taken down in .scratch/real/. A stage that is up to date is not
run, and keeps what was taken down before; one that was killed and went on counts both. What came of the run
is then added to results/real.json under the name of the task. No text of an item goes there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, ROOT, machine, options, written

from assay.core.config.settings import PretrainedBase
from assay.core.storage.json import digest
from assay.core.storage.yaml import read_yaml
from assay.pipeline.project import Project

READ = ("claim", "reports", "base")
LACKING = 2  # of all measurements, the others go on
MIB = 1024  # KiB, in which Linux gives the size of a process
MEASURES = ("success_rate", "parsed_rate", "mean_reward", "mean_tokens_per_completion")


def run_stage(name: str, kept: dict[str, Any]) -> None:
    """Run a stage, and add what it took to what is known of it.

    Raises:
        SystemExit: It failed.
    """
    began, lock = time.monotonic(), ROOT / "dvc.lock"
    known = lock.read_bytes() if lock.is_file() else b""
    child = subprocess.Popen([sys.executable, "-m", "dvc", "repro", "--single-item", name], cwd=ROOT)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode == 0 and lock.read_bytes() == known:
        return  # it was up to date
    before = kept.get(name, {"cpu_s": 0.0, "seconds": 0.0, "largest_mib": 0})
    kept[name] = {
        "cpu_s": round(before["cpu_s"] + used.ru_utime + used.ru_stime, 1),
        "seconds": round(before["seconds"] + time.monotonic() - began, 1),
        "largest_mib": max(before["largest_mib"], round(used.ru_maxrss / MIB)),
    }
    if child.returncode:
        raise SystemExit(child.returncode)


def came_of(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return what claim and reports say of a run, in numbers alone."""
    claim, arms = results["claim"], results["reports"]["arms"]
    return {
        "base": results["base"],
        "verdict": claim["verdict"],
        "reasons": [each["code"] for each in claim["reasons"]],
        "p": claim["p"],
        "level": claim["level"],
        "items": claim["n_items"],
        "clusters": claim["n_clusters"],
        "draws": claim["draws"],
        "success": {name: claim[name] for name in ("before", "after", "difference")},
        "baselines": {
            name: {key: each[key] for key in ("kind", "rate", "difference", "p", "beaten")}
            for name, each in claim["rivals"].items()
        },
        "random_reward": claim["random_reward"],
        "further_suites": {
            name: {key: each[key] for key in ("before", "after", "difference", "p", "n_clusters")}
            for name, each in claim["secondary_suites"].items()
        },
        "arms": {
            name: {key: each for key, each in arm["measures"].items() if key in MEASURES or "." in key}
            for name, arm in arms.items()
        },
        "warnings": [each["code"] for each in claim["warnings"]],
    }


def main() -> None:
    """Run what is not there yet, and write what came of it.

    Raises:
        SystemExit: The settings have no pretrained base, or a stage failed.
    """
    parser = options(__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "real.json")
    out, project = parser.parse_args().out, Project.open(ROOT)
    if not isinstance(project.params.base, PretrainedBase):
        print("the settings have no pretrained base. Fix: ./run assay config use grpo=cpu_smollm2 task=bfcl")
        raise SystemExit(LACKING)
    settings, task = project.params.model_dump(mode="json"), Path(project.params.task.code).name
    clock = ROOT / f".scratch/real/{task}-{digest(settings)[:12]}.json"
    stages: dict[str, Any] = json.loads(clock.read_text()) if clock.is_file() else {}
    for name in read_yaml(ROOT / "dvc.yaml", fix="git checkout dvc.yaml")["stages"]:
        try:
            run_stage(name, stages)
        finally:
            written(clock, stages)
    results = {name: json.loads(project.results(f"{name}.json").read_text()) for name in READ}
    record = {
        "machine": machine() | {"threads": project.params.threads},
        "settings": digest(settings),
        "stages": stages,
        "cpu_s": round(sum(each["cpu_s"] for each in stages.values()), 1),
        "largest_mib": max((each["largest_mib"] for each in stages.values()), default=None),
    }
    there = json.loads(out.read_text()) if out.is_file() else {}
    written(out, there | {task: record | came_of(results)})


if __name__ == "__main__":
    main()
