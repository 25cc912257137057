"""What the learning pass costs where rows share a long prompt: rows alone, and read flat; one CPU thread.

    ./run bench learning_pass
    ./run python benchmarks/learning_pass.py --only "7 M, shared" --times 1 --out FILE    (a quick look)

One prompt of 1,024 tokens with a group of 16 episodes of eight turns, 320 tokens behind the prompt; one
forward and one backward pass of a loss over all of them, through a LoRA adapter, at random weights. `nothing
shared` has four prompts with a row each: there the pass has to be what it was. `kl` is what measuring the KL
on 16 texts of one prompt adds to a step of playing and learning, measured every five steps.

Processor seconds, medians of sides in turn, and the peak of bytes in live tensors, which a meter counts in
the same passes. Writes results/learning_pass.json, case by case; a case that is there is not measured again.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import torch
from benchmarks import filler, floors
from benchmarks.common import RESULTS, machine, options, written
from trl.trainer.utils import add_fused_lm_head

from assay.checks.doctor.forecast.memory import Meter
from assay.rollout.policy.model import Policy
from assay.training import flat, logprobs
from assay.training.kl import Divergence, Text

WORK = floors.Work(prompts=1, group=16, prompt=1024, turns=8, new=19, reply=24)
EVERY, MIB = 5, 2**20
SIDES = {"shared": ("alone", "flat"), "checkpointing": ("alone", "flat"), "nothing shared": ("alone", "flat")}
CASES = [f"{name}, {kind}" for name in ("7 M", "29 M") for kind in (*SIDES, "kl")]


def never(*_: Any, **__: Any) -> bool:
    """Stand for a rule that does not apply."""
    return False


def policy_of(name: str) -> Policy:
    """Return a model of this size with an adapter that is not the identity, ready to learn."""
    policy = filler.policy_of(floors.SHAPES[name], "cpu", torch.float32, adapter=True)
    for parameter_name, parameter in policy.model.named_parameters():
        if "lora_B" in parameter_name:
            torch.nn.init.normal_(parameter, std=0.02)
    base = policy.model.get_base_model()
    add_fused_lm_head(base, temperature=1.0, outputs=("log_probs", "entropy"))
    logprobs.install(base)
    return policy


def episodes(work: floors.Work) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids [rows, whole] of episodes, those of a group with one prompt, and which of their own tokens
    count [rows, behind the prompt]."""
    generator = torch.Generator().manual_seed(0)
    prompts = torch.randint(8, 1000, (work.prompts, work.prompt), generator=generator)
    behind = work.longest - work.prompt
    own = torch.randint(8, 1000, (work.rows, behind), generator=generator)
    counted = torch.arange(behind) % (work.new + work.reply) < work.new
    return torch.cat([prompts.repeat_interleave(work.group, 0), own], 1), counted.expand(work.rows, -1)


def learned(model: Any, work: floors.Work, side: str) -> dict[str, float]:
    """Take a forward and a backward pass; return its processor seconds, peak of live MiB, and a norm of the
    gradients."""
    ids, counted = episodes(work)
    with Meter() as meter:
        begun = time.process_time()
        with mock.patch.object(flat, "reads_flat", flat.reads_flat if side == "flat" else never):
            scored = model(input_ids=ids, attention_mask=torch.ones_like(ids), counted=counted, most=len(ids))
        weights = torch.linspace(-1, 1, counted.numel()).view(counted.shape)
        (scored.log_probs * weights).sum().backward()
        seconds = time.process_time() - begun
    norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
    model.zero_grad()
    return {"seconds": seconds, "peak_mib": meter.peak / MIB, "gradient": float(norm)}


def passes(name: str, kind: str, times: int) -> dict[str, Any]:
    """Return medians of each side of one kind of pass."""
    model = policy_of(name).model.train()
    if kind == "checkpointing":
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    work = dataclasses.replace(WORK, prompts=4, group=1) if kind == "nothing shared" else WORK
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES[kind]}
    learned(model, dataclasses.replace(work, group=2, prompt=128), "alone")
    for _ in range(times):
        for side, rows in found.items():
            rows.append(learned(model, work, side))
    return {
        side: {
            "seconds": statistics.median(row["seconds"] for row in rows),
            "all_seconds": [row["seconds"] for row in rows],
            "peak_mib": rows[0]["peak_mib"],
            "gradient": rows[0]["gradient"],
        }
        for side, rows in found.items()
    } | {"n": times}


class Probe:
    """The KL on 16 texts of one prompt."""

    def __init__(self, policy: Policy) -> None:
        ids, counted = episodes(WORK)
        texts = [
            Text(row[: WORK.prompt].tolist(), row[WORK.prompt :].tolist(), own.int().tolist())
            for row, own in zip(ids, counted, strict=True)
        ]
        self._divergence = Divergence(policy, texts, temperature=1.0, batch_size=8)

    def __call__(self) -> float:
        """Return the processor seconds of measuring it once."""
        begun = time.process_time()
        self._divergence()
        return time.process_time() - begun


def kl(name: str, times: int) -> dict[str, Any]:
    """Return what the parts of a step take, and the share of the KL in it."""
    policy = policy_of(name)
    bench = filler.Bench(policy, WORK, "cpu")
    probe = Probe(policy)
    parts: dict[str, list[float]] = {part: [] for part in ("play", "learn", "kl")}
    probe()  # reads the base, once
    for _ in range(times):
        begun = time.process_time()
        bench.ours()
        parts["play"].append(time.process_time() - begun)
        parts["learn"].append(learned(policy.model.train(), WORK, "flat")["seconds"])
        policy.model.eval()
        parts["kl"].append(probe())
    seconds = {part: statistics.median(all_) for part, all_ in parts.items()}
    share = seconds["kl"] / EVERY / (seconds["play"] + seconds["learn"] + seconds["kl"] / EVERY)
    shares = {"kl": share}
    return {"seconds": seconds, "all_seconds": parts, "share_of_a_step": shares, "every": EVERY, "n": times}


def recorded(path: Path) -> dict[str, Any]:
    """Return the cases that a result holds."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["cases"] if path.is_file() else {}
    return found


def main() -> None:
    """Measure every case that is not there yet, and write the result."""
    parser = options(__doc__)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--out", type=Path, default=RESULTS / "learning_pass.json")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    for case in [chosen.only] if chosen.only else CASES:
        if case in recorded(chosen.out):
            continue
        name, kind = case.split(", ")
        done = kl(name, chosen.times) if kind == "kl" else passes(name, kind, chosen.times)
        record = {"machine": machine(), "work": dataclasses.asdict(WORK), "threads": 1}
        record["cases"] = recorded(chosen.out) | {case: done}
        written(chosen.out, record)
        print(f"{case}: {json.dumps(done)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
