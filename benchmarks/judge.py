"""How long `assay judge` takes for a million results, and how much memory: two CSVs of items with four draws.

    ./run python benchmarks/judge.py

`seconds` are of the whole command, from its start to the package; the peak is that of its largest process.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, alone, machine, options, written

from assay.core.seeds import rng

RESULT = RESULTS / "judge.json"
DRAWS, RATES = 4, {"before.csv": 0.40, "after.csv": 0.42}
ROWS = (10_000, 100_000, 1_000_000)


def write_arm(path: Path, items: int) -> None:
    """Write item, draw and score of every draw; items differ in how hard they are."""
    luck = rng("benchmark of judge", path.name)
    chances = np.clip(RATES[path.name] + 0.2 * rng("hard").normal(size=items), 0.0, 1.0)
    won = luck.random((DRAWS, items)) < chances
    lines = (f"item-{k},{draw},{int(won[draw, k])}\n" for k in range(items) for draw in range(DRAWS))
    path.write_text("item,draw,score\n" + "".join(lines), encoding="utf-8")


def judged(rows: int) -> dict[str, Any]:
    """Judge so many results of two arms, and return what it took and what it said."""
    with tempfile.TemporaryDirectory(prefix="assay-judge-") as scratch:
        arms = [Path(scratch, name) for name in RATES]
        for path in arms:
            write_arm(path, rows // (2 * DRAWS))
        command = [sys.executable, "-m", "assay.cli", "judge", *map(str, arms), "--out", f"{scratch}/judged"]
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
        claim = json.loads(Path(scratch, "judged/claim.json").read_text(encoding="utf-8"))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "rows": rows,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mib": round(used.ru_maxrss / 1024),
        "difference": claim["difference"],
    }


def main() -> None:
    """Judge tables of each size, and write what the largest took, and the others beside it."""
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--out", type=Path, default=RESULT)
    chosen = parser.parse_args()
    sizes = [alone(judged, rows) for rows in chosen.rows]  # a process each, whose children are its own
    print(
        json.dumps(written(chosen.out, sizes[-1] | {"smaller": sizes[:-1], "machine": machine()}), indent=2)
    )


if __name__ == "__main__":
    main()
