"""Two thousand damaged projects: does anything but a message come of one?

    ./run bench fuzz
    ./run python benchmarks/fuzz.py --trials 2000 --seed 0 --out benchmarks/results/fuzz.json

Settings, presets, dvc.lock, data, evidence, bases, adapters, checkpoints, packages and arguments are damaged
in copies of a small run, and a command is called on each (tests/fuzz/). A trial is right if the command ends
in time, with a code of the table in docs/recovery.md, in one message with a `Fix:`, and has written only
where it may. Exits with 1 unless all are right.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
RESULT = ROOT / "benchmarks/results/fuzz.json"


def main() -> int:
    """Run the trials, print what was found, and write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULT)
    asked = parser.parse_args()
    from tests.fuzz.__main__ import main as fuzz

    code = fuzz(["--trials", str(asked.trials), "--seed", str(asked.seed), "--out", str(asked.out)])
    told = json.loads(asked.out.read_text(encoding="utf-8"))
    told["machine"] = {"cores": len(os.sched_getaffinity(0)), "python": sys.version.split()[0]}
    asked.out.write_text(json.dumps(told, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
