"""What the presets for GPUs take, forecast without one; and how right such forecasts are, where a CPU can
tell.

    ./run bench presets                                  (both parts)
    ./run python benchmarks/presets.py --only accuracy   (or: presets)

accuracy: for small models of three architectures, in three precisions, with and without gradient
checkpointing: what the doctor forecasts from config.json, beside a training of four steps by the real
trainer. Memory: the peak of bytes in tensors that are alive, counted in the training by the same meter once
the base is loaded. Time: processor seconds of the steps but the first and the last, beside the forecast from
two depths in processor seconds, alternating, since other work on a machine is no time of ours. presets: the
terms of each preset's memory on each task, from tests/presets/configs, and the least seconds that its device
needs by its data sheet (a floor: bytes over bandwidth, operations over peak; no forecast).

No GPU has measured any of it. Each row is written at once, to results/presets.json and .md; a later call goes
on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
import torch
from tests.training.forecast_setup import Model, forecast, measured, settings
from transformers import AutoConfig

from assay.core.config.composition import Selection, compose
from assay.core.config.reading import parse_params
from assay.core.storage.files import write_text
from assay.tools.doctor.forecast.forecast import BESIDE
from assay.tools.doctor.forecast.memory import MemoryForecast, scales
from assay.tools.doctor.forecast.rehearsal import Lengths

RESULT = Path(__file__).parent / "results" / "presets.json"
GIB = 2.0**30
REPEATS = 2
SHORT = Lengths(96, 2, 16, 24)  # for models that would take too long
MODELS = (
    Model("qwen3", 256, 6, "float32", None, False),
    Model("qwen3", 256, 6, "float32", None, True),
    Model("gemma2", 256, 6, "bfloat16", None, False),
    Model("llama", 512, 6, "bfloat16", "nf4", True, lengths=SHORT),
    Model("llama", 512, 8, "float32", None, True, lengths=SHORT),
    Model("qwen3", 256, 8, "bfloat16", "nf4", False),
    Model("qwen3", 256, 16, "bfloat16", None, True, lengths=SHORT),
    Model("gemma2", 512, 12, "float32", None, True, lengths=SHORT),
    Model("qwen3", 768, 6, "float32", None, False, lengths=SHORT),
)
# Tokens of the longest prompt and observation, counted once with the ranks of Qwen's tokenizer (qwen.tiktoken
# as qwen-agent ships it) over 128 training items, the validation suite and the observations of scripted
# players; the template's own tokens are allowed for. Other tokenizers differ by some percent.
TOKENS = {"collider": (425, 142), "structured": (191, 0)}
# Bytes a second, and operations a second in bf16 without sparsity, by their makers' data sheets; GiB of the
# device.
DEVICES = {"4090": (24, 1008e9, 165e12), "h100": (80, 3350e9, 989e12)}
CONFIGS = {
    "4090_qwen3": "Qwen3-4B-Instruct-2507",
    "4090_qwen3_8b": "Qwen3-8B",
    "4090_llama3": "Llama-3.1-8B-Instruct",
    "4090_gemma2": "gemma-2-9b-it",
    "h100_qwen3": "Qwen3-8B",
}


PAGE = """\
# What the presets take: forecasts, and how right they are

No GPU measured anything on this page. Written by `./run bench presets`.

## Memory of each preset, in GiB

At most: every conversation at its longest. `playing`, `learning` and `KL` come one after another: the \
peak is
what stays plus the largest of them, and 0.8 GiB beside tensors (an allowance for context, libraries and \
workspaces).
The floor is what the data sheet of a 4090 (1008 GB/s, 165 TFLOP/s) or H100 SXM (3350 GB/s, 989 TFLOP/s) \
allows for a
step at full length: no forecast, which only the device itself can make (`./run assay doctor` there).

| preset, task | tokens: prompt, turns x new, told | base | adapter, moments | KL's | playing (of it \
keys, values) | learning | KL | peak | device | floor, s a step |
|---|---|---|---|---|---|---|---|---|---|---|
{presets}

## Forecast and measurement on a CPU

Memory: peak of bytes in live tensors of a training by the real trainer once the base is loaded, same \
meter, n = 1.
Time: processor seconds a step, medians.

| model | tokens | memory forecast, MiB | measured | error | seconds a step forecast | measured (range) \
| error | n |
|---|---|---|---|---|---|---|---|---|
{accuracy}
"""


def accuracy(model: Model) -> dict[str, Any]:
    """Forecast a training and measure it."""
    params = settings(model)
    with tempfile.TemporaryDirectory() as folder:
        ahead = model.written(Path(folder))
        begun = time.process_time()
        with scales(ahead, params, model.lengths) as weighed:
            memory = weighed.memory()
        took = time.process_time() - begun
        peak = measured(Path(folder), params, model, metered=True).peak
        said, true = [], []
        for _ in range(REPEATS):
            said.append(forecast(ahead, params, model.lengths).step)
            true += measured(Path(folder), params, model, metered=False).steps
    seconds = statistics.median(said), statistics.median(true)
    return {
        "tokens": model.lengths.whole,
        "forecast_mib": memory.peak / 2**20,
        "measured_mib": peak / 2**20,
        "memory_error": memory.peak / peak - 1,
        "forecast_seconds": seconds[0],
        "measured_seconds": seconds[1],
        "time_error": seconds[0] / seconds[1] - 1,
        "n_forecasts": len(said),
        "n_steps": len(true),
        "measured_range": [min(true), max(true)],
        "weighing_cpu_seconds": took,
    }


def floor_seconds(
    memory: MemoryForecast, params: Any, lengths: Lengths, config: Any, parameters: int, device: str
) -> float:
    """Return what a data sheet allows: weights and keys and values read once a token written, all tokens read
    twice and written once backwards; nothing waits for anything else."""
    _, bandwidth, flops = DEVICES[device]
    train, rows = params.train, params.generation.batch_size
    episodes = train.items_per_step * train.group_size
    waves, steps = -(-episodes // rows), lengths.turns * lengths.new
    writing = waves * steps * (memory.base + memory.cache / 2) / bandwidth
    # Forward and, through frozen weights, backward for activations alone; once more forward with
    # checkpointing.
    passes = 2 + 2 + 2 * train.gradient_checkpointing
    return float(writing + passes * parameters * episodes * lengths.whole / flops)


def preset(name: str, task: str) -> dict[str, Any]:
    """Return the terms of a preset's memory on a task."""
    params = parse_params(compose(ROOT, Selection(name, task, 0)).values)
    config = AutoConfig.from_pretrained(ROOT / f"tests/presets/configs/{CONFIGS[name]}.json")
    prompt, reply = TOKENS[task]
    turns = getattr(params.task, "max_turns", 1)
    lengths = Lengths(prompt, turns, params.task.max_new_tokens["json"], reply)
    device = name.split("_")[0]
    with scales(config, params, lengths) as weighed:
        memory = weighed.memory()
    with torch.device("meta"):
        from transformers import AutoModelForCausalLM

        parameters = sum(p.numel() for p in AutoModelForCausalLM.from_config(config).parameters())
    whole = memory.peak + BESIDE["cuda"]
    return {
        "terms_gib": {n: getattr(memory, n) / GIB for n in memory.__slots__},
        "beside_gib": BESIDE["cuda"] / GIB,
        "peak_gib": whole / GIB,
        "device_gib": DEVICES[device][0],
        "lengths": {n: getattr(lengths, n) for n in lengths.__slots__},
        "rows_played": params.generation.batch_size,
        "rows_learned": params.train.micro_batch_size,
        "floor_seconds_a_step": floor_seconds(memory, params, lengths, config, parameters, device),
    }


def page(found: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    presets, rows = [], []
    for name, row in found["presets"].items():
        t, w = row["terms_gib"], row["lengths"]
        presets.append(
            f"| {name} | {w['prompt']}, {w['turns']} x {w['new']}, {w['reply']} | {t['base']:.1f} |"
            f" {t['adapter']:.1f} | {t['probe']:.1f} | {t['play']:.1f} ({t['cache']:.1f}) for"
            f" {row['rows_played']} | {t['gradient'] + t['learn']:.1f} for {row['rows_learned']} |"
            f" {t['look']:.1f} | **{row['peak_gib']:.1f}** | {row['device_gib']} |"
            f" {row['floor_seconds_a_step']:.0f} |"
        )
    for name, row in found["accuracy"].items():
        low, high = row["measured_range"]
        rows.append(
            f"| {name} | {row['tokens']} | {row['forecast_mib']:.0f} | {row['measured_mib']:.0f} |"
            f" {row['memory_error']:+.1%} | {row['forecast_seconds']:.2f} | {row['measured_seconds']:.2f}"
            f" ({low:.2f} to {high:.2f}) | {row['time_error']:+.1%} | {row['n_forecasts']} and"
            f" {row['n_steps']} |"
        )
    return PAGE.format(presets="\n".join(presets), accuracy="\n".join(rows))


def main() -> None:
    """Forecast, measure and write what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("accuracy", "presets"))
    parser.add_argument("--anew", action="store_true", help="measure again what has been measured")
    parser.add_argument("--out", type=Path, default=RESULT)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found: dict[str, Any] = (
        json.loads(chosen.out.read_text()) if chosen.out.exists() and not chosen.anew else {}
    )
    found["measured_on_a_gpu"] = False
    found["versions"] = {
        name: version(name) for name in ("torch", "transformers", "trl", "peft", "bitsandbytes")
    }
    jobs: list[tuple[str, str, Any]] = []
    if chosen.only != "accuracy":
        jobs += [("presets", f"{n}, {t}", lambda n=n, t=t: preset(n, t)) for n in CONFIGS for t in TOKENS]
    if chosen.only != "presets":
        jobs += [("accuracy", each.name, lambda each=each: accuracy(each)) for each in MODELS]
    for part in ("presets", "accuracy"):
        found.setdefault(part, {})
    for part, name, job in jobs:
        if name not in found[part]:
            found[part][name] = job()
            print(name, found[part][name], file=sys.stderr, flush=True)
            write_text(chosen.out, json.dumps(found, indent=2, sort_keys=False) + "\n")
            write_text(chosen.out.with_suffix(".md"), page(found))


if __name__ == "__main__":
    main()
