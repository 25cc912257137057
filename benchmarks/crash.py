"""Does a training that was killed end as if nothing had been? SIGKILL at random moments, and at every file
operation of a save.

    ./run bench crash
    ./run python benchmarks/crash.py --kills 3 --no-operations --out FILE    (a quick look)

A toy training (dropout, accumulation, several epochs, a KL term, a schedule, retention, alarms) is made once
undisturbed. Then it is made again and again and killed: first in the stage that was met least so far, at a
moment drawn evenly over that stage's time; each time it is taken up again it is killed again with probability
1/3. What counts is the stage it was in when it died. At its end everything is compared but the clocks:
adapter, chosen step, logs with their digests and their chain, alarms, validations, the published files byte
by byte, the state of optimizer, schedule and generators.

Exits with 1 unless all are identical. Predicted before the first run: 300 of 300.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, machine, options, written
from tests.training import crash_harness
from tests.training.kills import Killer, Tally, kill_at_operations

# Curves are no part of what is compared, and the drawer of a training that was killed lives a moment longer
# than it.
os.environ.setdefault("ASSAY_REDRAW_SECONDS", "0")
STEPS, KILLS = 12, 300
RESULT = RESULTS / "crash.json"


def told(tally: Tally) -> None:
    """Say how far it is, now and then."""
    if tally.trainings % 20 == 0:
        print(f"{tally.kills} kills, {tally.identical} identical", file=sys.stderr, flush=True)


def main() -> None:
    """Kill, go on, compare, and write the result."""
    parser = options(__doc__)
    parser.add_argument(
        "--kills", type=int, default=KILLS, help="at random moments; exactly so many are made"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-operations", action="store_true", help="only at random moments")
    parser.add_argument("--out", type=Path, default=RESULT)
    chosen = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="assay-crash-") as folder:
        killer = Killer(crash_harness.settings(STEPS), Path(folder), chosen.seed)
        tally = killer.kill(chosen.kills, told)
        result: dict[str, Any] = {
            "kills": tally.kills,
            "identical": tally.identical,
            "stages": tally.stages,
            "trainings": tally.trainings,
            "chained": tally.chained,
            "compared": len(killer.whole),
            "differing": tally.differing,
            "seed": chosen.seed,
            "settings": killer.params.train.model_dump(mode="json"),
            "machine": machine(),
        }
        odd: list[str] = []
        if not chosen.no_operations:
            points = 0
            # A save in the middle that lets go of an older checkpoint, and the last one, after which nothing
            # is left to train.
            for step in (crash_harness.RETAINING_STEP, STEPS):
                names, found = kill_at_operations(killer.params, Path(folder), step, killer.whole)
                points, odd = points + len(names), odd + found
                print(
                    f"save of step {step}: {len(names)} points, {len(found)} differ",
                    file=sys.stderr,
                    flush=True,
                )
            result["operations"] = {"points": points, "identical": points - len(odd), "differing": odd}
    result["seconds"] = round(time.monotonic() - begun, 1)
    written(chosen.out, result)
    print(f"{tally.identical} of {tally.kills} kills identical, {len(odd)} operations differ")
    if tally.kills != tally.identical or odd:
        raise SystemExit("not all are identical")


if __name__ == "__main__":
    main()
