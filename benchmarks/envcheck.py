"""Tasks with something the matter that `assay task check` names, and what it says of sound ones; writes
results/envcheck.json.

The broken and the sound tasks are those of tests/tools/envcheck, and the presets of configs/task/. A broken
task counts as named where its own check is a warning or a fault; a false fault is a fault on a sound one.
With reasoning-gym installed, here or in the folder ASSAY_REASONING_GYM, sound data sets of it are looked at.
Usage: ./run bench envcheck; after a mend: ./run bench envcheck --again "a tensor" structured
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# benchmarks/reasoning_gym.py would stand in for the package of that name
sys.path[0] = str(Path(__file__).resolve().parents[1])
from benchmarks.common import RESULTS, ROOT, machine, options, written
from tests.tools.envcheck.broken import BROKEN
from tests.tools.envcheck.gym import gym_tasks
from tests.tools.envcheck.making import Made, composed
from tests.tools.envcheck.sound import SOUND

from assay.checks.envcheck.command import examined
from assay.checks.findings import Finding
from assay.checks.own_data.audit import project_for
from assay.core.config.composition import presets
from assay.pipeline.project import Project

PRESETS = ("collider", "structured", "words", "frozen_lake", "rotate_matrix")


def look(made: Made | Project) -> tuple[list[Finding], float]:
    """Return what is found, and the seconds it took."""
    begun = time.monotonic()
    if isinstance(made, Project):
        return examined(made), time.monotonic() - begun
    with tempfile.TemporaryDirectory() as folder:
        return examined(made.project(Path(folder))), time.monotonic() - begun


def tasks_of() -> list[tuple[str, str, Made | Project]]:
    """Return every task with its name and the checks that should name it, none for a sound one."""
    made = [(each.name, each.check, each) for each in (*BROKEN, *SOUND, *gym_tasks())]
    shipped = [name for name in PRESETS if name in presets(ROOT, "task")]
    return [*made, *((name, "", project_for(ROOT, name)) for name in shipped)]


def main() -> None:
    """Look at every task; the result is written anew after each, and says how many there were by then."""
    parser = options(__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="tasks at once")
    parser.add_argument("--again", nargs="*", help="look at these alone, and put them right in the record")
    asked = parser.parse_args()
    composed()  # once, before threads ask for it
    tasks = [each for each in tasks_of() if asked.again is None or each[0] in asked.again]
    path = RESULTS / "envcheck.json"
    kept: dict[str, Any] = {} if asked.again is None else json.loads(path.read_text(encoding="utf-8"))
    missed: dict[str, Any] = kept.get("missed", {})
    false: dict[str, Any] = kept.get("said_where_nothing_is_wrong", {})
    warned: dict[str, list[str]] = kept.get("warnings_on_sound", {})
    seconds: list[float] = []
    counts = {name: kept.get(name, 0) for name in ("broken", "sound", "reasoning_gym")}
    where = machine()
    with ThreadPoolExecutor(asked.jobs) as pool:
        looks = pool.map(look, [made for _, _, made in tasks])
        for (name, wanted, _), (found, took) in zip(tasks, looks, strict=True):
            seconds.append(took)
            amiss = sorted(each.check for each in found if each.level in ("warning", "fault"))
            faults = {each.check: each.found for each in found if each.level == "fault"}
            if not kept:
                counts["broken" if wanted else "sound"] += 1
                counts["reasoning_gym"] += name.startswith("reasoning-gym")
            for record in (missed, false, warned):
                record.pop(name, None)
            if wanted and not set(amiss) & set(wanted.split("|")):
                missed[name] = {"check": wanted, "amiss": amiss}
            if not wanted and faults:
                false[name] = faults
            if not wanted and amiss:
                warned[name] = amiss
            told = "MISSED" if name in missed else "FALSE" if name in false else "as it should be"
            print(f"{took:5.1f} s  {told}  {name}  {', '.join(amiss)}", flush=True)
            result = kept | counts
            result |= {
                "tasks": counts["broken"] + counts["sound"],
                "named": counts["broken"] - len(missed),
                "missed": missed,
                "checks_that_should_name": len({one for made in BROKEN for one in made.check.split("|")}),
                "false_faults": len(false),
                "said_where_nothing_is_wrong": false,
                "warnings_on_sound": warned,
                "machine": kept.get("machine", where),
            }
            if kept:
                result["looked_at_again"] = [name for name, _, _ in tasks]
            else:
                median, most = round(sorted(seconds)[len(seconds) // 2], 1), round(max(seconds), 1)
                result |= {"seconds": {"median": median, "most": most}, "jobs": asked.jobs}
            written(path, result)
    print(
        f"{result['named']} of {counts['broken']} named, {len(false)} false faults on {counts['sound']} sound"
    )


if __name__ == "__main__":
    main()
