"""Do the presets fit their GPU, does the doctor forecast it, and does a training repeat itself there, bit by
bit?

    ./run bench gpu_presets
    ./run python benchmarks/gpu_presets.py --device cpu --tiny --out FILE   (a try without a GPU)

For the shapes of 8gb_qwen3, 12gb_qwen3, 4090_qwen3_8b, 4090_mistral and h100_qwen3, each inside the GiB of
its device, with random weights and a tokenizer of letters: what `assay doctor` forecasts of memory and
seconds a step; then a training of 5 steps in deterministic mode, in a process that torch lets have no more
memory than that, whose peak and seconds stand beside the forecast with the errors; then the same training
again, and the first difference between the two as `assay runs diff` names it. The task is one of fixed
lengths (Lengths below), so that both speak of the same work.

Writes results/gpu_presets_<device>.json. Exits with 1 if a part failed, with 2 if there is no such device
(nothing is written).
"""

from __future__ import annotations

import statistics
import sys
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import torch
from benchmarks.common import ROOT, alone
from benchmarks.gpu_parts import NO_DEVICE, lacks_device, options, try_parts
from tests.presets.shapes import config_of
from tests.training.forecast_setup import trained, with_preset
from tests.training.toy_task import WORDS
from tests.training.whole_project import run
from transformers import AutoConfig

from assay.checks.doctor.forecast.forecast import BESIDE
from assay.checks.doctor.forecast.memory import scales
from assay.checks.doctor.forecast.pace import pace
from assay.checks.doctor.forecast.rehearsal import Lengths, with_layers
from assay.checks.findings import Deadline
from assay.rollout.policy.base import tiny
from assay.rollout.policy.model import pin
from assay.training.adapter import tensors_digest

GIB, STEPS = 2.0**30, 5
MEMORY_BOUND, TIME_BOUND = 0.10, 0.15
LENGTHS, SHORT = Lengths(425, 4, 64, 142), Lengths(40, 2, 8, 10)
PARTS = {  # GiB that it has to fit in
    "8gb_qwen3": 8.0,
    "12gb_qwen3": 12.0,
    "4090_qwen3_8b": 24.0,
    "4090_mistral": 24.0,
    "h100_qwen3": 80.0,
}


def settings(preset: str, device: str, small: bool) -> Any:
    """Return a preset's settings for a few steps."""
    lengths = SHORT if small else LENGTHS
    changes: dict[str, Any] = {"items_per_step": 2, "group_size": 4, "micro_batch_size": 4} if small else {}
    return with_preset(preset, lengths, device=device, steps=STEPS, **changes), lengths


def write_model(folder: Path, preset: str, params: Any, small: bool) -> None:
    """Write configuration, tokenizer of letters and random weights, a few layers at a time in memory."""
    from transformers import AutoModelForCausalLM

    config = config_of(preset)
    if small:
        config = with_layers(config, 2)
        config.update({"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2})
        config.update({"num_key_value_heads": 1, "head_dim": 32, "vocab_size": 512})
    config.eos_token_id = 2
    torch.manual_seed(0)
    with torch.device("cpu" if small or not torch.cuda.is_available() else "cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, params.base.dtype))
    model.save_pretrained(folder)
    tiny.build_tokenizer(WORDS).save_pretrained(folder)


def forecast(folder: Path, preset: str, device: str, small: bool) -> dict[str, Any]:
    """Return what the doctor would say, from config.json."""
    params, lengths = settings(preset, device, small)
    config = AutoConfig.from_pretrained(folder)
    begun = time.perf_counter()
    with scales(config, params, lengths) as weighed:
        memory = weighed.memory()
    weighed_in = time.perf_counter() - begun
    pin(params.threads, deterministic=True, device=device)
    told = pace(config, params, lengths, device, Deadline(300.0))
    return {
        "tensors_gib": memory.peak / GIB,
        "with_allowance_gib": (memory.peak + BESIDE[device]) / GIB,
        "terms_gib": {name: getattr(memory, name) / GIB for name in memory.__slots__},
        "seconds_a_step": told.step,
        "seconds": {name: getattr(told, name) for name in ("play", "learn", "settle", "look")},
        "rows_timed": told.rows,
        "weighed_in_seconds": weighed_in,
        "all_in_seconds": time.perf_counter() - begun,
    }


def run_once(folder: Path, preset: str, device: str, small: bool, cap: float, log: Path) -> dict[str, Any]:
    """Train in this process, under a cap of memory, and return peak, seconds and the digest of the
    adapter."""
    params, lengths = settings(preset, device, small)
    pin(params.threads, deterministic=True, device=device)
    peak = None
    if device == "cuda":
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, cap * GIB / total))
    clock: list[float] = []
    outcome = trained(folder, params, lengths, lambda _: clock.append(time.perf_counter()), log=log)
    if device == "cuda":
        peak = torch.cuda.max_memory_allocated() / GIB
    steps = [after - before for before, after in pairwise(clock[:-1])]
    found = {"peak_gib": peak, "seconds_a_step": statistics.median(steps), "steps_timed": len(steps)}
    if device == "cuda":
        found["reserved_gib"] = torch.cuda.max_memory_reserved() / GIB
    return found | {"adapter": tensors_digest(sorted(outcome.adapter.items()))}


def part(preset: str, folder: Path, device: str, small: bool) -> dict[str, Any]:
    """Forecast, train twice, and compare."""
    cap = PARTS[preset]
    if device == "cuda" and torch.cuda.get_device_properties(0).total_memory < 0.95 * cap * GIB:
        return {"ok": None, "why": f"the device has less than {cap:.0f} GiB"}
    params, lengths = settings(preset, device, small)
    asked = (folder / "model", preset, device, small)
    write_model(folder / "model", preset, params, small)
    torch.cuda.empty_cache()
    said = alone(forecast, *asked)
    logs = [folder / f"run{number}" for number in (1, 2)]
    runs = [alone(run_once, *asked, cap, log) for log in logs]
    compared = run(ROOT, "runs", "diff", *map(str, logs), codes=tuple(range(10)))
    peak, seconds = runs[0]["peak_gib"], runs[0]["seconds_a_step"]
    errors = {
        "memory": None if peak is None else said["tensors_gib"] / peak - 1,
        "time": said["seconds_a_step"] / seconds - 1,
    }
    within = (peak is None or (abs(errors["memory"]) <= MEMORY_BOUND and peak <= cap)) and (
        small or abs(errors["time"]) <= TIME_BOUND
    )
    return {
        "ok": bool(within),
        "cap_gib": cap,
        "lengths": {name: getattr(lengths, name) for name in lengths.__slots__},
        "forecast": said,
        "measured": runs,
        "error": errors,
        "equal_bit_by_bit": runs[0]["adapter"] == runs[1]["adapter"],
        "diff_runs": {"exit_code": compared.returncode, "said": compared.stdout.strip()[-800:]},
    }


def main() -> int:
    """Try every preset and return the exit code."""
    chosen = options(__doc__, PARTS).parse_args()
    if lacks_device("gpu_presets", chosen.device):
        return NO_DEVICE
    return try_parts("gpu_presets", {preset: partial(part, preset) for preset in PARTS}, chosen)


if __name__ == "__main__":
    raise SystemExit(main())
