"""Rollouts of true model shapes on a GPU: beside stock generate, beside the memory-bandwidth floor, and their
memory.

    ./run bench speed_gpu
    ./run python benchmarks/speed_gpu.py --parts decode-0.6B side-8B-nf4   (these parts; the others stay)
    ./run python benchmarks/speed_gpu.py --device cpu --tiny --out FILE   (a try without a GPU)

Weights are random and made on the device; shapes are those of config.json of Qwen/Qwen3-0.6B, -4B and -8B on
the Hugging Face hub. Stock is what TRL does (benchmarks/filler.py): generate over the group's copies, and the
whole conversation again at each turn. Parts:

side-MODEL-bf16, side-MODEL-nf4: with a LoRA adapter as in training; groups of 8 and 16, one turn (512 tokens
  of prompt, 128 written) and twelve (512 of prompt, 12 x 32 written, 290 between two: about 4,096 in all);
  medians of ratios, peak memory, and the largest difference of log-probabilities to a plain forward pass.
  Goals: 3 times for one turn, 5 for twelve, and no more memory than stock.
decode-MODEL: seconds of one decoding step of ours in bf16 without adapter at batch 1 to 64, after 512 tokens
  of prompt, from the difference of a long and a short completion; and the floor: weights and keys and values
  once, at the measured speed of a copy. Goal: within twice the floor.
packing: the same episodes in batches of 16, 5 and 1: how many have equal tokens.
episode-MODEL: twelve turns, 4,096 tokens, group of 8, with a LoRA adapter, played once by each side: does it
  fit, and what is the peak. The learning pass is not measured here.

A later call goes on. Writes results/speed_gpu_<device>.json. Exits with 2 if there is no such device (nothing
is written), with 1 if a part failed or did not reach its goal.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from benchmarks import filler, floors
from benchmarks.common import holds
from benchmarks.gpu_parts import NO_DEVICE, Part, lacks_device, options, try_parts

PAIRS, SINGLE, MULTI, FLOOR = 5, 3.0, 5.0, 2.0
SHAPES = {
    "0.6B": floors.Shape(1024, 3072, 28, 16, 8, 128, 151936),
    "4B": floors.Shape(2560, 9728, 36, 32, 8, 128, 151936),
    "8B": floors.Shape(4096, 12288, 36, 32, 8, 128, 151936, tied=False),
}
TINY = floors.Shape(64, 192, 2, 4, 2, 16, 2048)
BATCHES = (1, 2, 4, 8, 16, 32, 64)
ONE = floors.Work(prompt=512, new=128)
TWELVE = floors.Work(prompt=512, turns=12, new=32, reply=290)
SHORT = {ONE: floors.Work(prompt=32, new=8), TWELVE: floors.Work(prompt=32, turns=3, new=8, reply=24)}


@dataclasses.dataclass(frozen=True)
class GpuPlace:
    """Where it is measured, and whether with tiny models for a try."""

    device: str
    tiny: bool

    @property
    def dtype(self) -> torch.dtype:
        """bfloat16, but float32 on a CPU."""
        return torch.bfloat16 if self.device == "cuda" else torch.float32

    def shape(self, model: str) -> floors.Shape:
        """Return the shape of a model."""
        return TINY if self.tiny else SHAPES[model]

    def work(self, work: floors.Work, group: int) -> floors.Work:
        """Return the work with a group size."""
        return dataclasses.replace(SHORT[work] if self.tiny else work, group=group)


def side(place: GpuPlace, model: str, nf4: bool) -> dict[str, Any]:
    """Compare rollouts with a LoRA adapter, ours and stock's."""
    if nf4 and (place.device == "cpu" or importlib.util.find_spec("bitsandbytes") is None):
        return {"ok": None, "why": "nf4 is measured on a GPU with bitsandbytes"}
    policy = filler.policy_of(place.shape(model), place.device, place.dtype, nf4=nf4, adapter=True)
    rows, ok = [], True
    for work, goal in ((ONE, SINGLE), (TWELVE, MULTI)):
        for group in (8, 16):
            chosen = place.work(work, group)
            bench = filler.Bench(policy, chosen, place.device)
            row = filler.side_by_side(bench, 1 if place.tiny else PAIRS) | {"difference": bench.difference()}
            row |= {"turns": chosen.turns, "group": group, "goal": goal}
            row["tokens_of_an_episode"] = chosen.longest
            row["reached"] = row["ratio"] >= goal
            if place.device == "cuda":
                row["memory_no_higher"] = row["ours"]["peak_mib"] <= row["stock"]["peak_mib"]
            ok = ok and row["reached"] and row.get("memory_no_higher", True)
            rows.append(row)
            said = f"  G {group}, {chosen.turns} turns: {row['ratio']:.2f} times faster"
            print(said, file=sys.stderr, flush=True)
    return {"ok": ok, "rows": rows, "range_holds_the_median_with_probability": holds(PAIRS)}


def decode(place: GpuPlace, model: str) -> dict[str, Any]:
    """Hold one decoding step against what its bytes take."""
    shape, found = place.shape(model), floors.probe(place.device, place.dtype)
    policy = filler.policy_of(shape, place.device, place.dtype)
    rows, (few, many) = list[dict[str, Any]](), (4, 12) if place.tiny else (16, 80)
    prompt = 32 if place.tiny else 512
    for batch in BATCHES[:3] if place.tiny else BATCHES:
        works = [floors.Work(prompts=1, group=batch, prompt=prompt, new=new) for new in (few, many)]
        benches = [filler.Bench(policy, work, place.device) for work in works]
        for bench in benches:
            bench.timed("ours")
        steps = []
        for _ in range(3):
            short, long = (bench.timed("ours")["seconds"] for bench in benches)
            steps.append((long - short) / (many - few))
        kept = batch * shape.kv * (prompt + (few + many) / 2)
        least = floors.BYTES[place.dtype] * (shape.body + shape.head + kept) / found.bandwidth
        seconds = statistics.median(steps)
        row = {"batch": batch, "seconds_a_step": seconds, "all": steps, "floor_seconds": least}
        rows.append(row | {"times_the_floor": seconds / least, "tokens_per_second": batch / seconds})
        print(f"  batch {batch}: {seconds / least:.2f} times the floor", file=sys.stderr, flush=True)
    ok = all(row["times_the_floor"] <= FLOOR for row in rows)
    return {"ok": ok, "rows": rows, "probe": dataclasses.asdict(found), "goal": FLOOR}


def packing(place: GpuPlace) -> dict[str, Any]:
    """Play the same episodes in batches of other sizes and count those with equal tokens."""
    policy = filler.policy_of(place.shape("0.6B"), place.device, place.dtype)
    bench = filler.Bench(policy, place.work(TWELVE, 16), place.device)
    whole = bench.ours(16)[0]
    equal = {
        str(size): sum(a == b for a, b in zip(whole, bench.ours(size)[0], strict=True)) for size in (16, 5, 1)
    }
    # In bf16 another batch shape rounds otherwise, so only the same packing must repeat itself there.
    must = ["16"] if place.device == "cuda" else list(equal)
    return {
        "ok": all(equal[size] == len(whole) for size in must),
        "episodes": len(whole),
        "equal_by_batch_size": equal,
    }


def episode(place: GpuPlace, model: str) -> dict[str, Any]:
    """Play twelve turns at G = 8 with each side and tell the peaks."""
    policy = filler.policy_of(place.shape(model), place.device, place.dtype, adapter=True)
    bench = filler.Bench(policy, place.work(TWELVE, 8), place.device)
    found: dict[str, Any] = {"tokens_of_an_episode": bench.work.longest}
    for name in ("stock", "ours"):
        try:
            found[name] = bench.timed(name) | {"fits": True}
        except torch.OutOfMemoryError as error:
            found[name] = {"fits": False, "why": str(error).splitlines()[0]}
    fits = found["ours"]["fits"] or not found["stock"]["fits"]
    higher = found["ours"].get("peak_mib", 0.0) > found["stock"].get("peak_mib", float("inf"))
    return {"ok": fits and not higher, **found}


PARTS: dict[str, Callable[[GpuPlace], dict[str, Any]]] = {
    **{f"decode-{model}": lambda place, model=model: decode(place, model) for model in SHAPES},
    "packing": packing,
    **{
        f"side-{model}-{kind}": lambda place, model=model, kind=kind: side(place, model, kind == "nf4")
        for model in SHAPES
        for kind in ("bf16", "nf4")
    },
    **{f"episode-{model}": lambda place, model=model: episode(place, model) for model in SHAPES},
}


def main() -> int:
    """Measure the parts and return the exit code."""
    chosen = options(__doc__, PARTS).parse_args()
    if lacks_device("speed_gpu", chosen.device):
        return NO_DEVICE
    torch.set_num_threads(1 if chosen.device == "cpu" else torch.get_num_threads())

    def tried(name: str) -> Part:
        return lambda folder, device, tiny: PARTS[name](GpuPlace(device, tiny))

    return try_parts("speed_gpu", {name: tried(name) for name in PARTS}, chosen)


if __name__ == "__main__":
    raise SystemExit(main())
