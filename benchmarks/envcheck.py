"""Tasks with something the matter that `assay envcheck` names, and what it says of sound ones; writes
results/envcheck.json.

The broken and the sound tasks are those of tests/tools/envcheck, and the presets of configs/task/. A broken
task counts as named where its own check is a warning or a fault; a false fault is a fault on a sound one. With
reasoning-gym installed (a folder of its own on PYTHONPATH will do), sound data sets of it are looked at too.
Usage: ./run bench envcheck
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests.tools.envcheck.broken import BROKEN
from tests.tools.envcheck.gym import gym_tasks
from tests.tools.envcheck.making import Made, composed
from tests.tools.envcheck.sound import SOUND

from assay.core.config.composition import presets
from assay.tools.envcheck.command import examined
from assay.tools.findings import Finding
from assay.tools.own_data.audit import project_for

RESULT = Path(__file__).parent / "results" / "envcheck.json"
PRESETS = ("collider", "structured", "words", "frozen_lake", "rotate_matrix")


def look(made: Made | str) -> tuple[list[Finding], float]:
    """Return what is found, and the seconds it took."""
    begun = time.monotonic()
    if isinstance(made, str):
        return examined(project_for(ROOT, made)), time.monotonic() - begun
    with tempfile.TemporaryDirectory() as folder:
        return examined(made.project(Path(folder))), time.monotonic() - begun


def main() -> None:
    """Look at every task and write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=2, help="tasks at once")
    jobs = parser.parse_args().jobs
    composed()  # once, before threads ask for it
    shipped = [name for name in PRESETS if name in presets(ROOT, "task")]
    sound: list[Made | str] = [*shipped, *SOUND, *gym_tasks()]
    missed: dict[str, Any] = {}
    false: dict[str, Any] = {}
    warned: dict[str, list[str]] = {}
    seconds: list[float] = []
    load = round(os.getloadavg()[0], 1)
    with ThreadPoolExecutor(jobs) as pool:
        for made, (found, took) in zip(BROKEN, pool.map(look, BROKEN), strict=True):
            seconds.append(took)
            amiss = sorted(each.check for each in found if each.level in ("warning", "fault"))
            if not set(amiss) & set(made.check.split("|")):
                missed[made.name] = {"check": made.check, "amiss": amiss}
            print(f"{took:5.1f} s  {'MISSED' if made.name in missed else 'named '}  {made.name}", flush=True)
        for task, (found, took) in zip(sound, pool.map(look, sound), strict=True):
            seconds.append(took)
            name = task if isinstance(task, str) else task.name
            if faults := {each.check: each.found for each in found if each.level == "fault"}:
                false[name] = faults
            warned[name] = [each.check for each in found if each.level == "warning"]
            print(f"{took:5.1f} s  {'FALSE' if name in false else 'well '}  {name} {faults}", flush=True)
    result = {
        "broken": len(BROKEN),
        "named": len(BROKEN) - len(missed),
        "missed": missed,
        "checks_that_named_them": len({name for made in BROKEN for name in made.check.split("|")}),
        "sound": len(sound),
        "false_faults": len(false),
        "said_where_nothing_is_wrong": false,
        "warnings_on_sound": {name: checks for name, checks in warned.items() if checks},
        "reasoning_gym": len(gym_tasks()),
        "shipped": shipped,
        "seconds": {"median": round(sorted(seconds)[len(seconds) // 2], 1), "most": round(max(seconds), 1)},
        "jobs": jobs,
        "load_before": load,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }
    RESULT.write_text(
        json.dumps(result, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    told = f"{result['named']} of {result['broken']} named, {len(false)} false faults on {len(sound)} sound"
    print(f"{told}; median {result['seconds']['median']} s")


if __name__ == "__main__":
    main()
