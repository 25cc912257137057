"""What rollouts cost against model size, group size, turns and context, beside the arithmetic floor; one CPU
thread.

    ./run bench cost
    ./run python benchmarks/cost.py --pairs 1 --only size --out FILE    (a quick look)

One thing is varied at a time, about a middle: a model with random weights, one prompt with a group of 8, 128
tokens of prompt, one turn of 32 tokens (benchmarks/filler.py). Ours and stock generate, in turn, medians. The
floor is the same work at the bandwidth and the arithmetic that a copy and a matrix product reach in this run.
Each size has a process of its own, so that its peak of memory is its own. Writes results/cost_cpu.json, .md,
.png and .svg, or with --out that file alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import resource
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from benchmarks import filler, stock  # sides has set the thread counts first
from benchmarks.sides import holds, machine, published
from matplotlib.figure import Figure

from assay.evidence.figures.drawing import GREY, PALETTE, legend, new_figure, styled

PAIRS = 3
SHAPES = {
    "0.1 M": filler.Shape(64, 192, 2, 4, 4, 16, 1024),
    "1.3 M": filler.Shape(160, 480, 4, 4, 4, 40, 1024),
    "7 M": filler.Shape(320, 960, 6, 8, 4, 40, 1024),
    "29 M": filler.Shape(576, 1728, 8, 8, 4, 72, 1024),
}
MIDDLE, BASE = "7 M", filler.Work()
AXES: dict[str, tuple[str, list[tuple[str, str, filler.Work]]]] = {
    "size": ("parameters", [(name, name, BASE) for name in SHAPES]),
    "group": (
        "group size",
        [(str(g), MIDDLE, dataclasses.replace(BASE, group=g)) for g in (2, 4, 8, 16, 32)],
    ),
    "turns": (
        "turns",
        [(str(t), MIDDLE, dataclasses.replace(BASE, turns=t, new=16)) for t in (1, 2, 4, 8, 12)],
    ),
    "context": (
        "tokens of prompt",
        [(str(c), MIDDLE, dataclasses.replace(BASE, prompt=c)) for c in (64, 256, 1024, 2048)],
    ),
}


def point(shape: filler.Shape, work: filler.Work, pairs: int, sides: tuple[str, ...]) -> dict[str, Any]:
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


def alone(*arguments: Any) -> Any:
    """Measure one point in a process of its own, begun as a copy of this one: the libraries are loaded,
    nothing else is."""
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        return pool.submit(point, *arguments).result()


@styled
def figure_of(record: Mapping[str, Any]) -> Figure:
    """Return four panels: seconds against what is varied, of ours, stock and the floor."""
    figure, panels = new_figure(2, 2, height=7.0)
    for axes, (name, (said, _)) in zip(panels, AXES.items(), strict=True):
        rows = record["axes"].get(name, [])
        x = [row["parameters"] if name == "size" else float(row["at"]) for row in rows]
        for k, (side, label) in enumerate((("stock", "stock generate"), ("ours", "ours"))):
            axes.plot(
                x, [row[side]["seconds"] for row in rows], "o-", color=(GREY, PALETTE[0])[k], label=label
            )
        axes.plot(
            x, [row["floor"]["seconds"] for row in rows], ":", color=PALETTE[1], label="arithmetic floor"
        )
        axes.set_xscale("log", base=10 if name == "size" else 2)
        axes.set_yscale("log")
        axes.set_xticks(x, [row["at"] for row in rows])
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        axes.set_xlabel(said)
        axes.set_ylabel("seconds")
        legend(axes, columns=3, below=True)
    return figure


def told(record: Mapping[str, Any]) -> str:
    """Return the result as Markdown."""
    lines = [
        (
            "| varied | at | stock, s | ours, s | times faster (range) | floor, s | ours / floor | ours,"
            " tokens/s | stock, tokens/s | peak MiB, stock / ours | log-prob difference, stock / ours |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in record["axes"].items():
        for row in rows:
            peaks = " / ".join(f"{row['memory'][side]['peak_mib']:.0f}" for side in ("stock", "ours"))
            lines.append(
                f"| {AXES[name][0]} | {row['at']} | {row['stock']['seconds']:.3f} |"
                f" {row['ours']['seconds']:.3f} | {row['ratio']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
                f" | {row['floor']['seconds']:.3f} | {row['ours']['seconds'] / row['floor']['seconds']:.1f} |"
                f" {row['ours']['tokens_per_second']:,.0f} | {row['stock']['tokens_per_second']:,.0f} |"
                f" {peaks} | {row['difference']['stock']:.1g} / {row['difference']['ours']:.1g} |"
            )
    probe, where = record["probe"], record["machine"]
    lines += [
        "",
        (
            f"Medians of {record['pairs']} pairs. Floor: {probe['bandwidth'] / 1e9:.1f} GB/s (copy),"
            f" {probe['flops'] / 1e9:.0f} GFLOP/s (float32 product of 1024 x 1024), one thread."
            f" {where['cpu']}; {', '.join(f'{k} {v}' for k, v in where['versions'].items())}."
        ),
        "",
        "![seconds against size, group, turns and context](cost_cpu.png)",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure every point, and write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--only", default=",".join(AXES), help="what is varied, with commas between")
    parser.add_argument("--out", type=Path, help="write the record here, and nothing to results/")
    chosen = parser.parse_args()
    names = chosen.only.split(",")
    if unknown := [name for name in names if name not in AXES]:
        parser.error(f"nothing is varied by the name of {', '.join(unknown)}; there are {', '.join(AXES)}")
    quick = chosen.out is not None or chosen.pairs != PAIRS or set(names) != set(AXES)
    torch.set_num_threads(1)
    begun, found = time.monotonic(), filler.probe("cpu", torch.float32)
    record: dict[str, Any] = {
        "machine": machine(),
        "probe": dataclasses.asdict(found),
        "pairs": chosen.pairs,
        "axes": {},
        "range_holds_the_median_with_probability": holds(chosen.pairs),
        "middle": dataclasses.asdict(BASE) | {"model": MIDDLE},
    }
    for name in names:
        rows = record["axes"][name] = []
        for at, shape, work in AXES[name][1]:
            row = alone(SHAPES[shape], work, chosen.pairs, ("stock", "ours"))
            row |= {"at": at, "floor": filler.floor(SHAPES[shape], work, found, 4)}
            row["memory"] = {side: alone(SHAPES[shape], work, 1, (side,)) for side in ("stock", "ours")}
            rows.append(row)
            print(f"{name} {at}: {row['ratio']:.2f} times faster", file=sys.stderr, flush=True)
    record["seconds"] = round(time.monotonic() - begun, 1)
    published("cost_cpu", record, told(record), lambda: figure_of(record), out=chosen.out, quick=quick)


if __name__ == "__main__":
    main()
