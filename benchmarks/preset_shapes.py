"""Does every preset train a model of its true widths and vocabulary? Random weights, few layers, two steps,
on a CPU.

    ./run bench preset_shapes
    ./run python benchmarks/preset_shapes.py 4090_gemma2   (these alone; the others stay)

What tests/presets does with fewer hidden units and words is done here with all of them: pin, two steps of
GRPO on both tasks, save, load again, compare, evaluate. Each preset has a process of its own, so that its
peak of memory is its own. Needs some 10 GiB of memory and some 10 GB of disk. Writes
results/preset_shapes.json after each preset. Exits with 1 if a preset left a matrix unmoved or came back from
disk as another policy.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, alone, machine, options, written
from tests.presets.shapes import SHAPES, TASKS, two_steps


def measured(preset: str) -> dict[str, Any]:
    """Train with a preset on both tasks, in this process, and return what came of it."""
    tasks, ok, begun = {}, True, time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        for task, outcome in zip(TASKS, two_steps(Path(folder), preset, uncut=True), strict=True):
            difference = float((outcome.trained - outcome.reloaded).abs().max())
            ok &= difference == 0 and not outcome.unmoved
            tasks[task] = {
                "adapted": outcome.adapted,
                "unmoved": outcome.unmoved,
                "four_bit_modules": len(outcome.four_bit),
                "largest_difference_after_reload": difference,
                "heldout_episodes": outcome.episodes,
            }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "ok": ok,
        "tasks": tasks,
        "process_seconds": round(time.process_time() - begun, 1),
        "peak_bytes": peak,
    }


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("presets", nargs="*", default=list(SHAPES), metavar="PRESET")
    parser.add_argument("--out", type=Path, default=RESULTS / "preset_shapes.json")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.presets) - set(SHAPES)):
        parser.error(f"no presets: {', '.join(unknown)}")
    rows = json.loads(arguments.out.read_text())["presets"] if arguments.out.is_file() else {}
    for preset in arguments.presets:
        try:
            rows[preset] = alone(measured, preset)
        except (RuntimeError, ValueError, AssertionError) as error:
            rows[preset] = {"ok": False, "why": f"{type(error).__name__}: {error}"}
        layers = {name: SHAPES[name].layers for name in rows}
        written(arguments.out, {"machine": machine(), "layers": layers, "presets": rows}, indent=1)
        print(f"{preset}: {'ok' if rows[preset]['ok'] else 'FAILED'}")
    sys.exit(0 if all(rows[preset]["ok"] for preset in arguments.presets) else 1)


if __name__ == "__main__":
    main()
