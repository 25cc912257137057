"""A whole step where prompts are long and shared, beside stock: playing, learning and the KL, in processor
seconds; one thread.

    ./run bench whole_step
    ./run python benchmarks/whole_step.py --only "29 M, apart" --pairs 1 --out FILE    (a quick look)

Random weights under a LoRA adapter, and a task that only takes up tokens (benchmarks/filler.py). Stock
generates over the whole conversation again at each turn, with its cache, and learns from every row alone, all
in one batch, without determinism; it measures no KL. Ours plays and learns by `generation.backend: lean`, and
pays a fifth of what measuring the KL costs. Sides take turns, each time in a new process. Memory is the peak
of bytes in live tensors, the model's own included. A floor is the least that playing or learning takes at the
rates of this machine (floors.floor, floors.least_work). Writes results/whole_step.json, case by case; a case
that is there is not measured again.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import torch
from benchmarks import filler, floors, stock
from benchmarks.common import RESULTS, alone, machine, options, spread, turns, written
from benchmarks.learning_pass import EVERY, MIB, Probe, learned, policy_of, recorded

from assay.checks.doctor.forecast.memory import Meter
from assay.rollout.policy.memory import keep_freed_memory
from assay.training import flat

RANK = 16  # of the adapter of `filler`
SHARED = floors.Work(prompts=1, group=16, prompt=1024, turns=8, new=16, reply=24)
CASES = {
    "7 M, shared": ("7 M", SHARED, 3),
    "29 M, shared": ("29 M", SHARED, 2),
    "29 M, apart": ("29 M", floors.Work(prompts=1, group=2, prompt=64, turns=1, new=32), 5),
}


def measured(work: Callable[[], Any]) -> tuple[float, float]:
    """Return the processor seconds of a call, and the peak of bytes in tensors that it made, in MiB."""
    gc.collect()
    with Meter() as meter:
        begun = time.process_time()
        work()
        return time.process_time() - begun, meter.peak / MIB


def one(case: str, side: str) -> dict[str, float]:
    """Return the processor seconds of the parts of one side's step, and its peak in MiB; for a process of its
    own, since ours keeps memory that was freed (`keep_freed_memory`)."""
    torch.set_num_threads(1)
    name, work, _ = CASES[case]
    policy = policy_of(name)
    bench = filler.Bench(policy, work, "cpu")
    model: Any = policy.model
    stock.free_of_determinism()
    if side == "ours":
        keep_freed_memory()
        flat.always_read_flat(model.get_base_model())
    weights = sum(p.numel() * p.element_size() for p in model.parameters()) / MIB
    # A step before it, since the first one of a process takes its memory; of stock's long playing a short one
    model.eval()
    if side == "ours":
        bench.ours()
    else:
        filler.Bench(policy, replace(work, prompt=64, group=2), "cpu").stock()
    learned(model.train(), work, "alone" if side == "stock" else "flat")
    model.eval()
    playing, peak = measured(bench.stock if side == "stock" else bench.ours)
    learning = learned(model.train(), work, "alone" if side == "stock" else "flat")
    model.eval()
    kl = 0.0
    if work is SHARED and side == "ours":
        probe = Probe(policy)
        probe()  # reads the base, once
        kl = probe() / EVERY
    most = weights + max(peak, learning["peak_mib"])
    step = playing + learning["seconds"] + kl
    return {"playing": playing, "learning": learning["seconds"], "kl": kl, "step": step, "peak_mib": most}


def compared(case: str, pairs: int | None) -> dict[str, Any]:
    """Return the runs of both sides of a case, and the medians of their ratios."""
    _, work, usual = CASES[case]
    runs: dict[str, list[dict[str, float]]] = {"stock": [], "ours": []}
    for _, side in turns(pairs or usual):
        runs[side].append(alone(one, case, side))
        print(f"{case}, {side}: {runs[side][-1]}", file=sys.stderr, flush=True)
    ratios = {
        what: [a[what] / b[what] for a, b in zip(runs["stock"], runs["ours"], strict=True)]
        for what in ("playing", "learning", "step", "peak_mib")
    }
    return {
        "work": asdict(work),
        "n": pairs or usual,
        "runs": runs,
        "ratios": {what: spread(each) for what, each in ratios.items()},
        **beside_floors(case, runs),
    }


def beside_floors(case: str, runs: dict[str, list[dict[str, float]]]) -> dict[str, float]:
    """Return the least seconds of playing and of learning at the rates of this machine, and how many times as
    long ours takes."""
    name, work, _ = CASES[case]
    speed = floors.probe("cpu", torch.float32)
    talk = floors.Talk(case, work.prompt, work.longest - work.prompt, work.turns * work.new, work.turns)
    least = {
        "playing": floors.floor(floors.SHAPES[name], work, speed, 4)["seconds"],
        "learning": floors.least_work(floors.SHAPES[name], [talk] * work.rows, RANK)["learned"] / speed.flops,
    }
    found = {f"floor_of_{part}_seconds": seconds for part, seconds in least.items()}
    ours = {part: statistics.median(run[part] for run in runs["ours"]) for part in least}
    return found | {f"ours_{part}_over_floor": ours[part] / least[part] for part in least}


def main() -> None:
    """Measure every case that is not there yet, and write the result."""
    parser = options(__doc__)
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--out", type=Path, default=RESULTS / "whole_step.json")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    for case in [chosen.only] if chosen.only else CASES:
        if case in recorded(chosen.out):
            continue
        done = compared(case, chosen.pairs)
        record = {"machine": machine(), "threads": 1, "cases": recorded(chosen.out) | {case: done}}
        written(chosen.out, record)


if __name__ == "__main__":
    main()
