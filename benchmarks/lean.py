"""Playing by `generation.backend: lean` beside `cached` and stock generate, in processor seconds; one thread.

    ./run bench lean
    ./run python benchmarks/lean.py --only tiny apart --out FILE    (a quick look)

Random weights and a task that only takes up tokens (benchmarks/filler.py). `cached` and `lean` play in turn,
after a go each that is not counted; stock plays once where it is asked for, since it takes minutes.
Processor seconds, because another program on the machine changes those least. Writes results/lean.json, .md.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import torch
from benchmarks import filler, floors, stock
from benchmarks.common import RESULTS, holds, machine, options, page, told_of, written
from benchmarks.cost import SHAPES

PAIRS = 5
WORKS = {
    "tiny": ("0.1 M", floors.Work(prompts=16, group=4, prompt=48, turns=5, new=4, reply=12)),
    "group": ("7 M", floors.Work(prompts=1, group=16, prompt=1024, turns=8, new=16, reply=24)),
    "groups": ("7 M", floors.Work(prompts=4, group=8, prompt=256, turns=4, new=16, reply=24)),
    "larger": ("29 M", floors.Work(prompts=1, group=16, prompt=1024, turns=8, new=16, reply=24)),
    "apart": ("29 M", floors.Work(prompts=1, group=2, prompt=64, turns=1, new=32)),
    "alone": ("7 M", floors.Work(prompts=8, group=1, prompt=256, turns=4, new=16, reply=24)),
}


def seconds(play: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor seconds of one go, and what came of it."""
    gc.collect()
    began = time.process_time()
    found = play()
    return time.process_time() - began, found


def compared(work: str, pairs: int, *, with_stock: bool) -> dict[str, Any]:
    """Return the runs of one work, their medians, and how many episodes are equal token by token."""
    shape, told = WORKS[work]
    bench = filler.Bench(filler.policy_of(SHAPES[shape], "cpu", torch.float32), told, "cpu")
    runs: dict[str, list[float]] = {"cached": [], "lean": []}
    for pair in range(pairs + 1):
        played = {}
        for backend in ("cached", "lean"):
            took, (played[backend], _) = seconds(lambda by=backend: bench.ours(backend=by))
            if pair:
                runs[backend].append(round(took, 4))
    middle = {backend: statistics.median(found) for backend, found in runs.items()}
    ratios = [cached / lean for cached, lean in zip(runs["cached"], runs["lean"], strict=True)]
    row = {
        "model": shape,
        "work": {name: getattr(told, name) for name in told.__slots__},
        "runs": runs,
        "seconds": middle,
        "ratio": statistics.median(ratios),
        "low": min(ratios),
        "high": max(ratios),
        "episodes": told.rows,
        "equal": sum(a == b for a, b in zip(played["cached"], played["lean"], strict=True)),
    }
    if with_stock:
        stock.free_of_determinism()
        row["stock_seconds"] = round(seconds(bench.stock)[0], 4)
    return row


def write_page(out: Path, record: dict[str, Any]) -> None:
    """Write what the record says as a table."""
    rows = [
        {"work": name, "model": row["model"]}
        | row["work"]
        | {"stock, s": row.get("stock_seconds", "not run")}
        | {f"{side}, s": seconds for side, seconds in row["seconds"].items()}
        | {"cached over lean": row["ratio"], "lowest": row["low"], "highest": row["high"]}
        | {"equal episodes": f"{row['equal']} of {row['episodes']}"}
        for name, row in record["works"].items()
    ]
    about = f"Medians of {record['pairs']} pairs; stock once. {told_of(record['machine'])}"
    page(out, "Playing by lean beside cached", {"Processor seconds": rows}, about)


def main() -> None:
    """Measure every work, and write the result."""
    parser = options(__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--only", nargs="+", choices=WORKS, default=list(WORKS))
    parser.add_argument(
        "--stock", nargs="*", choices=WORKS, default=list(WORKS), help="works stock plays too"
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "lean.json")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    record: dict[str, Any] = {
        "machine": machine(),
        "pairs": chosen.pairs,
        "range_holds_the_median_with_probability": holds(chosen.pairs),
        "works": {},
    }
    for name in chosen.only:
        row = compared(name, chosen.pairs, with_stock=name in chosen.stock)
        record["works"][name] = row
        print(f"{name}: {row['ratio']:.2f} times faster than cached", file=sys.stderr, flush=True)
    write_page(chosen.out, written(chosen.out, record))


if __name__ == "__main__":
    main()
