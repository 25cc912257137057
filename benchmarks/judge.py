"""How long `assay judge` takes for a million results, and how much memory: two CSVs of 125,000 items with
four draws.

    ./run bench judge    (about a minute on a free core; writes results/judge.json)

`seconds` are of the whole command, from its start to the package; `imports` of what it loads, without
matplotlib.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from assay.core.seeds import rng

ITEMS, DRAWS = 125_000, 4
TIMED = (
    "import time; t = time.perf_counter(), time.process_time(); import assay.cli, assay.tools.judge.packing;"
    " print(time.perf_counter() - t[0], time.process_time() - t[1])"
)


def write_arm(path: Path, rate: float) -> None:
    """Write item, draw and score of every draw; items differ in how hard they are."""
    luck = rng("benchmark of judge", path.name)
    chances = np.clip(rate + 0.2 * rng("hard").normal(size=ITEMS), 0.0, 1.0)
    won = luck.random((DRAWS, ITEMS)) < chances
    lines = (f"item-{k},{draw},{int(won[draw, k])}\n" for k in range(ITEMS) for draw in range(DRAWS))
    path.write_text("item,draw,score\n" + "".join(lines), encoding="utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        arms = [Path(scratch, name) for name in ("before.csv", "after.csv")]
        for path, rate in zip(arms, (0.40, 0.42), strict=True):
            write_arm(path, rate)
        command = [sys.executable, "-m", "assay.cli", "judge", *map(str, arms), "--out", f"{scratch}/judged"]
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        claim = json.loads(Path(scratch, "judged/claim.json").read_text(encoding="utf-8"))
        done = subprocess.run([sys.executable, "-c", TIMED], check=True, capture_output=True, text=True)
    imports = [round(float(each), 2) for each in done.stdout.split()]
    found = {
        "rows": 2 * ITEMS * DRAWS,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mib": round(used.ru_maxrss / 1024),
        "imports_seconds": imports[0],
        "imports_cpu_seconds": imports[1],
        "load_1_min": round(os.getloadavg()[0], 1),
        "difference": claim["difference"],
        "n_clusters": claim["n_clusters"],
    }
    path = Path(__file__).with_name("results") / "judge.json"
    path.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
