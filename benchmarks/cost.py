"""What rollouts cost against model size, group size, turns and context, beside a floor; one CPU thread.

    ./run bench cost
    ./run python benchmarks/cost.py --pairs 1 --only size --out FILE    (a quick look)

One thing is varied at a time, about a middle: a model with random weights, one prompt with a group of 8, 128
tokens of prompt, one turn of 32 tokens (filler.py). Ours and stock generate, in turn, medians of seconds. The
floor is the same work at the bandwidth and the arithmetic that a copy and a matrix product reach in this run.
Peaks of memory (MiB) are of a process for each side. Writes results/cost_cpu.json and .md.
"""

from __future__ import annotations

import dataclasses
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import torch
from benchmarks import filler, floors, stock
from benchmarks.common import RESULTS, alone, holds, machine, options, page, told_of, written

PAIRS = 3
SHAPES = {
    "0.1 M": floors.Shape(64, 192, 2, 4, 4, 16, 1024),
    "1.3 M": floors.Shape(160, 480, 4, 4, 4, 40, 1024),
    "7 M": floors.Shape(320, 960, 6, 8, 4, 40, 1024),
    "29 M": floors.Shape(576, 1728, 8, 8, 4, 72, 1024),
}
MIDDLE, BASE = "7 M", floors.Work()
AXES: dict[str, list[tuple[str, str, floors.Work]]] = {
    "size": [(name, name, BASE) for name in SHAPES],
    "group": [(str(g), MIDDLE, dataclasses.replace(BASE, group=g)) for g in (2, 4, 8, 16, 32)],
    "turns": [(str(t), MIDDLE, dataclasses.replace(BASE, turns=t, new=16)) for t in (1, 2, 4, 8, 12)],
    "context": [(str(c), MIDDLE, dataclasses.replace(BASE, prompt=c)) for c in (64, 256, 1024, 2048)],
}


def point(shape: floors.Shape, work: floors.Work, pairs: int, sides: tuple[str, ...]) -> dict[str, Any]:
    """Measure one point in this process; with one side alone, its peak of memory (MiB)."""
    torch.set_num_threads(1)
    policy = filler.policy_of(shape, "cpu", torch.float32)
    bench = filler.Bench(policy, work, "cpu")
    if len(sides) == 1:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        bench.timed(sides[0])
        return {"peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "idle_mib": before}
    stock.free_of_determinism()
    found = filler.side_by_side(bench, pairs)
    return found | {
        "difference": bench.difference(),
        "parameters": sum(p.numel() for p in policy.model.parameters()),
    }


def write_page(out: Path, record: Mapping[str, Any]) -> None:
    """Write what the record says as a table for each thing that is varied."""
    tables = {
        f"By {name}": [
            {"at": row["at"], "stock, s": row["stock"]["seconds"], "ours, s": row["ours"]["seconds"]}
            | {"times faster": row["ratio"], "lowest": row["low"], "highest": row["high"]}
            | {"floor, s": row["floor"]["seconds"]}
            | {"times the floor": row["ours"]["seconds"] / row["floor"]["seconds"]}
            | {"ours, tokens/s": row["ours"]["tokens_per_second"]}
            | {f"{side}, peak MiB": row["memory"][side]["peak_mib"] for side in ("stock", "ours")}
            | {f"{side}, log-prob gap": row["difference"][side] for side in ("stock", "ours")}
            for row in rows
        ]
        for name, rows in record["axes"].items()
    }
    rates = f"{record['probe']['bandwidth'] / 1e9:.1f} GB/s, {record['probe']['flops'] / 1e9:.0f} GFLOP/s"
    about = f"Medians of {record['pairs']} pairs. The floor is at {rates}. {told_of(record['machine'])}"
    page(out, "What rollouts cost on one CPU thread", tables, about)


def main() -> None:
    """Measure every point, and write the result."""
    parser = options(__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--only", nargs="+", choices=AXES, default=list(AXES), help="what is varied")
    parser.add_argument("--out", type=Path, default=RESULTS / "cost_cpu.json")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    begun, found = time.monotonic(), floors.probe("cpu", torch.float32)
    record: dict[str, Any] = {
        "machine": machine(),
        "probe": dataclasses.asdict(found),
        "pairs": chosen.pairs,
        "axes": {},
        "range_holds_the_median_with_probability": holds(chosen.pairs),
        "middle": dataclasses.asdict(BASE) | {"model": MIDDLE},
    }
    for name in chosen.only:
        rows = record["axes"][name] = []
        for at, shape, work in AXES[name]:
            row = alone(point, SHAPES[shape], work, chosen.pairs, ("stock", "ours"))
            row |= {"at": at, "floor": floors.floor(SHAPES[shape], work, found, 4)}
            row["memory"] = {
                side: alone(point, SHAPES[shape], work, 1, (side,)) for side in ("stock", "ours")
            }
            rows.append(row)
            print(f"{name} {at}: {row['ratio']:.2f} times faster", file=sys.stderr, flush=True)
    record["seconds"] = round(time.monotonic() - begun, 1)
    write_page(chosen.out, written(chosen.out, record))


if __name__ == "__main__":
    main()
