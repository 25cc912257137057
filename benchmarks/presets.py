"""What the presets for GPUs take, forecast without one; and how right such forecasts are, where a CPU can
tell.

    ./run bench presets                                  (both parts)
    ./run python benchmarks/presets.py --only accuracy   (or: presets, published)

    ./run python benchmarks/presets.py --shapes 4090_gemma2   (true shapes: some 10 GiB of memory and of disk)

accuracy: for small models of three architectures, in three precisions, with and without gradient
checkpointing: what the doctor forecasts from config.json, beside a training of four steps by the real
trainer. Memory: the peak of bytes in tensors that are alive, counted in the training by the same meter once
the base is loaded. Time: processor seconds of the steps but the first and the last, beside the forecast from
two depths in processor seconds, alternating, since other work on a machine is no time of ours. published:
the same of the models that a laptop trains, in their whole published shape with random weights. presets: the
terms of each preset's memory on each task, from tests/presets/configs, and the least seconds that its device
needs by its data sheet (a floor: bytes over bandwidth, operations over peak; no forecast).

shapes: does each preset train a model of its true widths and vocabulary? Random weights, few layers, on a
CPU: pin, two steps of GRPO on both tasks, save, load again, compare, evaluate, as tests/presets do with fewer
hidden units and words; in a process of its own, so that its peak of memory is its own.

No GPU has measured any of it. Each row is written at once, to results/presets.json and .md, of shapes to
results/preset_shapes.json; a later call goes on. Exits with 1 if a preset left a matrix unmoved or came back
from disk as another policy.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import torch
from benchmarks.common import RESULTS, alone, machine, options, page, written
from tests.presets.shapes import SHAPES, TASKS, config_of, two_steps, values_of
from tests.training.forecast_setup import END, Model, forecast, measured, settings, with_preset
from tests.training.toy_task import WORDS
from transformers import AutoConfig, AutoModelForCausalLM

from assay.checks.doctor.forecast.forecast import BESIDE
from assay.checks.doctor.forecast.memory import MemoryForecast, scales
from assay.checks.doctor.forecast.rehearsal import Lengths
from assay.core.config.reading import parse_params
from assay.core.config.settings import Params
from assay.rollout.policy.base import tiny

RESULT = RESULTS / "presets.json"
GIB = 2.0**30
REPEATS = 2
SHORT = Lengths(96, 2, 16, 24)  # for models that would take too long
FEW = Lengths(32, 1, 8, 8)  # for the whole ones
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
# GiB of the device; bytes a second, and operations a second in bf16 without sparsity, by their makers' data
# sheets: RTX 4060, RTX 3060, RTX 4090, H100 SXM. A laptop has no such sheet, so no floor either.
DEVICES: dict[str, tuple[int, float, float] | tuple[int, None, None]] = {
    "cpu": (16, None, None),
    "8gb": (8, 272e9, 30e12),
    "12gb": (12, 360e9, 25e12),
    "4090": (24, 1008e9, 165e12),
    "h100": (80, 3350e9, 989e12),
}


ABOUT = """\
No GPU measured anything on this page. Written by `./run bench presets`.

Memory of presets is at most: every conversation at its longest. Playing, learning and KL come one after
another: the peak is what stays plus the largest of them, and 0.8 GiB beside tensors, 1.0 on a CPU (an
allowance for context, libraries and workspaces). The floor is what the data sheet of an RTX 4060 (8 GB:
272 GB/s, 30 TFLOP/s), 3060 (12 GB: 360, 25), 4090 (1008, 165) or H100 SXM (3350, 989) allows for a step at
full length: no forecast, which only the device itself can make (`./run assay doctor` there).

Beside a measurement, memory is the peak of bytes in live tensors of a training by the real trainer once the
base is loaded, same meter, n = 1; time is processor seconds a step, medians, of one thread. Rows named like a
preset are its model in its whole published shape, with random weights, trained for four steps by its own
settings, but with two episodes a step of some forty tokens. Trained on {machine};
the forecasts of time are from {pace}."""


@dataclass(frozen=True, slots=True)
class Published:
    """A preset's model in its whole published shape with random weights; few and short episodes."""

    name: str
    lengths: Lengths = FEW

    @property
    def params(self) -> Params:
        """Its settings for a training of four steps in one thread; each measures the KL, which is in the
        forecast."""
        few = {"steps": 4, "items_per_step": 1, "group_size": 2, "kl_probe_episodes": 2, "kl_probe_every": 1}
        return with_preset(self.name, self.lengths, device="cpu", **few).model_copy(update={"threads": 1})

    def written(self, folder: Path) -> Any:
        """Write the model and a tokenizer of letters; return its configuration as a reader finds it."""
        config = config_of(self.name)
        config.update({"pad_token_id": 0, "bos_token_id": None, "eos_token_id": END})
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
        tiny.build_tokenizer(WORDS).save_pretrained(folder)
        return AutoConfig.from_pretrained(folder)


def accuracy(model: Model | Published) -> dict[str, Any]:
    """Forecast a training and measure it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ahead = model.written(folder)
        return of_memory(model, ahead, folder) | of_time(model, ahead, folder)


def of_memory(model: Model | Published, ahead: Any, folder: Path) -> dict[str, Any]:
    """Forecast the memory of a training and measure it."""
    params = settings(model) if isinstance(model, Model) else model.params
    begun = time.process_time()
    with scales(ahead, params, model.lengths) as weighed:
        memory = weighed.memory()
    took = time.process_time() - begun
    if isinstance(model, Published):  # two steps see all that a training holds
        params = params.model_copy(update={"train": params.train.model_copy(update={"steps": 2})})
    peak = measured(folder, params, model, metered=True).peak
    return {
        "tokens": model.lengths.whole,
        "forecast_mib": memory.peak / 2**20,
        "measured_mib": peak / 2**20,
        "memory_error": memory.peak / peak - 1,
        "weighing_cpu_seconds": took,
    }


def of_time(model: Model | Published, ahead: Any, folder: Path) -> dict[str, Any]:
    """Forecast the time of a step and measure it, in turns."""
    params = settings(model) if isinstance(model, Model) else model.params
    said, true = [], []
    for _ in range(REPEATS):
        said.append(forecast(ahead, params, model.lengths).step)
        true += measured(folder, params, model, metered=False).steps
    seconds = statistics.median(said), statistics.median(true)
    return {
        "forecast_seconds": seconds[0],
        "measured_seconds": seconds[1],
        "time_error": seconds[0] / seconds[1] - 1,
        "n_forecasts": len(said),
        "n_steps": len(true),
        "forecast_range": [min(said), max(said)],
        "measured_range": [min(true), max(true)],
    }


def floor_seconds(
    memory: MemoryForecast, params: Any, lengths: Lengths, config: Any, parameters: int, device: str
) -> float | None:
    """Return what a data sheet allows: weights and keys and values read once a token written, all tokens read
    twice and written once backwards; nothing waits for anything else."""
    _, bandwidth, flops = DEVICES[device]
    if bandwidth is None or flops is None:
        return None
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
    params = parse_params(values_of(name, task))
    config = config_of(name)
    prompt, reply = TOKENS[task]
    turns = getattr(params.task, "max_turns", 1)
    lengths = Lengths(prompt, turns, params.task.max_new_tokens["json"], reply)
    device = name.split("_")[0]
    with scales(config, params, lengths) as weighed:
        memory = weighed.memory()
    with torch.device("meta"):
        parameters = sum(p.numel() for p in AutoModelForCausalLM.from_config(config).parameters())
    beside = BESIDE[params.device]
    whole = memory.peak + beside
    return {
        "terms_gib": {n: getattr(memory, n) / GIB for n in memory.__slots__},
        "beside_gib": beside / GIB,
        "parameters": parameters,
        "peak_gib": whole / GIB,
        "device_gib": DEVICES[device][0],
        "lengths": {n: getattr(lengths, n) for n in lengths.__slots__},
        "rows_played": params.generation.batch_size,
        "rows_learned": params.train.micro_batch_size,
        "floor_seconds_a_step": floor_seconds(memory, params, lengths, config, parameters, device),
    }


def shape(name: str) -> dict[str, Any]:
    """Train with a preset on both tasks, in this process, and return what came of it."""
    tasks, ok, begun = {}, True, time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        for task, outcome in zip(TASKS, two_steps(Path(folder), name, uncut=True), strict=True):
            difference = float((outcome.trained - outcome.reloaded).abs().max())
            ok &= difference == 0 and not outcome.unmoved
            tasks[task] = {
                "adapted": outcome.adapted,
                "unmoved": outcome.unmoved,
                "four_bit_modules": len(outcome.four_bit),
                "largest_difference_after_reload": difference,
                "heldout_episodes": outcome.episodes,
            }
    return {
        "ok": ok,
        "tasks": tasks,
        "process_seconds": round(time.process_time() - begun, 1),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def measure_shapes(names: Sequence[str], out: Path) -> bool:
    """Measure shapes, each in a process of its own, beside those that are there; return whether all are
    well."""
    rows = json.loads(out.read_text())["presets"] if out.is_file() else {}
    for name in names:
        try:
            rows[name] = alone(shape, name)
        except (RuntimeError, ValueError, AssertionError) as error:
            rows[name] = {"ok": False, "why": f"{type(error).__name__}: {error}"}
        layers = {each: SHAPES[each].layers for each in rows}
        written(out, {"machine": machine(), "layers": layers, "presets": rows}, indent=1)
        print(f"{name}: {'ok' if rows[name]['ok'] else 'FAILED'}")
    return all(rows[name]["ok"] for name in names)


def write_page(out: Path, found: dict[str, Any]) -> None:
    """Write the results as tables."""
    memory = [
        {"preset, task": name, "prompt": row["lengths"]["prompt"]}
        | {"turns x new, told": "{turns} x {new}, {reply}".format(**row["lengths"])}
        | {part: round(row["terms_gib"][part], 1) for part in ("base", "adapter", "probe")}
        | {"playing": round(row["terms_gib"]["play"], 1), "of it keys": round(row["terms_gib"]["cache"], 1)}
        | {"learning": round(row["terms_gib"]["gradient"] + row["terms_gib"]["learn"], 1)}
        | {"KL": round(row["terms_gib"]["look"], 1), "rows": f"{row['rows_played']}, {row['rows_learned']}"}
        | {
            "peak": round(row["peak_gib"], 1),
            "device": row["device_gib"],
            "floor, s": row["floor_seconds_a_step"],
        }
        for name, row in found["presets"].items()
    ]
    right = [
        {"model": name, "tokens": row["tokens"]}
        | {"memory forecast, MiB": row["forecast_mib"], "measured": row["measured_mib"]}
        | {"error": f"{row['memory_error']:+.1%}"}
        | {"seconds forecast": row["forecast_seconds"], "seconds measured": row["measured_seconds"]}
        | {
            "range": "{:.2f} to {:.2f}".format(*row["measured_range"]),
            "error of time": f"{row['time_error']:+.1%}",
        }
        | {"n": f"{row['n_forecasts']} and {row['n_steps']}"}
        for name, row in (found["accuracy"] | found["published"]).items()
    ]
    tables = {"Memory of each preset, in GiB": memory, "Forecast and measurement on a CPU": right}
    about = ABOUT.format(machine=found.get("machine"), pace=found.get("pace", "the doctor"))
    page(out, "What the presets take: forecasts, and how right they are", tables, about)


def main() -> None:
    """Forecast, measure and write what is asked for."""
    parser = options(__doc__)
    parser.add_argument("--only", choices=("accuracy", "presets", "published"))
    parser.add_argument("--shapes", nargs="*", choices=SHAPES, help="these alone; none named: all of them")
    parser.add_argument("--anew", action="store_true", help="measure again what has been measured")
    parser.add_argument("--out", type=Path, default=RESULT)
    chosen = parser.parse_args()
    if chosen.shapes is not None:
        sys.exit(not measure_shapes(chosen.shapes or list(SHAPES), RESULTS / "preset_shapes.json"))
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found: dict[str, Any] = (
        json.loads(chosen.out.read_text()) if chosen.out.exists() and not chosen.anew else {}
    )
    found["measured_on_a_gpu"] = False
    found["versions"] = machine()["versions"]
    jobs: list[tuple[str, str, Any]] = []
    if chosen.only in (None, "presets"):
        jobs += [("presets", f"{n}, {t}", lambda n=n, t=t: preset(n, t)) for n in SHAPES for t in TOKENS]
    if chosen.only in (None, "accuracy"):
        jobs += [("accuracy", each.name, lambda each=each: accuracy(each)) for each in MODELS]
    if chosen.only in (None, "published"):
        found["machine"] = f"{machine()['cpu']}, {machine()['cores']} cores"
        whole = [Published(name) for name in sorted(SHAPES) if name.startswith("cpu_")]
        jobs += [("published", each.name, lambda each=each: accuracy(each)) for each in whole]
    for part in ("presets", "accuracy", "published"):
        found.setdefault(part, {})
    for part, name, job in jobs:
        if name not in found[part]:
            found[part][name] = job()
            print(name, found[part][name], file=sys.stderr, flush=True)
            written(chosen.out, found, sort_keys=False)
            write_page(chosen.out, found)


if __name__ == "__main__":
    main()
