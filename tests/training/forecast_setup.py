"""Small models of several architectures with a task of several turns, forecast and trained by the real
trainer."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, Gemma2Config, LlamaConfig, Qwen3Config

from assay.checks.doctor.forecast.memory import Meter
from assay.checks.doctor.forecast.pace import Pace, pace
from assay.checks.doctor.forecast.rehearsal import Lengths
from assay.checks.findings import Deadline
from assay.core.config.reading import parse_params
from assay.core.config.settings import Params
from assay.rollout.dataset.suite import choose
from assay.rollout.policy.base import tiny
from assay.rollout.policy.model import load
from assay.rollout.tasks.protocol import Item, Message, Step, Verdict
from assay.training.adapter import TrainedAdapter
from assay.training.checkpoints.store import Checkpoints
from assay.training.grpo import train
from assay.training.log.history import History, Watch
from assay.training.setup import Setup
from tests.presets.shapes import values_of
from tests.training.toy_task import WORDS, Letters

CONFIGS = {"qwen3": Qwen3Config, "llama": LlamaConfig, "gemma2": Gemma2Config}
END = 2


LENGTHS = Lengths(200, 3, 32, 40)


@dataclass(frozen=True, slots=True)
class Model:
    """Which model is trained, with how much of everything."""

    architecture: str
    hidden: int
    layers: int
    dtype: str
    quantization: str | None
    checkpointing: bool
    vocabulary: int = 8192
    lengths: Lengths = LENGTHS

    @property
    def name(self) -> str:
        """What it is, in words."""
        again = ", checkpointing" if self.checkpointing else ""
        return f"{self.architecture} {self.hidden} x {self.layers}, {self.quantization or self.dtype}{again}"

    def written(self, folder: Path) -> Any:
        """Write the model with random weights and a tokenizer of letters; return its configuration as a
        reader finds it."""
        heads = max(2, self.hidden // 64)
        config = CONFIGS[self.architecture](
            hidden_size=self.hidden,
            intermediate_size=3 * self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=heads,
            num_key_value_heads=heads // 2,
            head_dim=self.hidden // heads,
            vocab_size=self.vocabulary,
            tie_word_embeddings=self.architecture != "llama",
            max_position_embeddings=4096,
            pad_token_id=0,
            bos_token_id=None,
            eos_token_id=END,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            AutoModelForCausalLM.from_config(config, dtype=getattr(torch, self.dtype)).save_pretrained(folder)
        tiny.build_tokenizer(WORDS).save_pretrained(folder)
        return AutoConfig.from_pretrained(folder)


class Talk(Letters):
    """Letters over several turns, told the same between any two."""

    def __init__(self, lengths: Lengths) -> None:
        super().__init__()
        self._turns, self._told = (
            lengths.turns,
            "a" * (lengths.reply - 3),
        )  # the template's own marks stand around it

    def start(self, item: Item, world_seed: int) -> tuple[list[Message], Any]:
        return [{"role": "user", "content": item.public}], (0, "")

    def step(self, state: Any, completion: str) -> Step:
        turn, text = state[0] + 1, state[1] + completion
        share = sum(completion.count(word) for word in WORDS[:4]) / max(1, len(completion))
        if turn < self._turns:
            return Step((turn, text), self._told, None, "ok", None, completion, {})
        return Step((turn, text), None, "done", "ok", None, completion, {"terminal": share})

    def judge(self, state: Any) -> Verdict:
        return Verdict(state[1].startswith("a"), {"early": False}, {})


def settings(model: Model, **train: Any) -> Params:
    """Return the settings of a short training on a CPU, of 8 episodes a step in micro-batches of 4."""
    few = {"items_per_step": 2, "group_size": 4, "micro_batch_size": 4, "kl_probe_episodes": 2}
    changes = {"steps": 4, "gradient_checkpointing": model.checkpointing} | few | train
    params = with_preset("pretrained", model.lengths, device="cpu", **changes)
    base = params.base.model_copy(update={"dtype": model.dtype, "quantization": model.quantization})
    return params.model_copy(
        update={
            "base": base,
            "threads": 1,
            "generation": params.generation.model_copy(update={"batch_size": 8}),
        }
    )


def with_preset(preset: str, lengths: Lengths, *, device: str, **train: Any) -> Params:
    """Return a preset's settings for a few steps of episodes as long as this, with hardly any validation."""
    values: Any = json.loads(json.dumps(values_of(preset, "collider")))
    values["device"], values["distributed"]["backend"] = device, "nccl" if device == "cuda" else "gloo"
    values["task"]["max_new_tokens"]["json"] = lengths.new
    values["train"] |= train
    values["validation"] |= {"items": 2, "draws": 2, "interval": 100}
    values["checkpoint"]["every"] = 100
    for rule in ("zero_variance", "truncated"):
        values["health"][rule]["stop_for"] = 1000
    return parse_params(values)


def trained(
    folder: Path,
    params: Params,
    lengths: Lengths,
    on_step: Callable[[int], None],
    log: Path | None = None,
    on_load: Callable[[], Any] = lambda: None,
) -> TrainedAdapter:
    """Train the model of a folder on a task of such lengths; `log` is a folder for train_log.jsonl."""
    task, history = Talk(lengths), History()
    long, n = lengths.prompt - 3, max(8, params.train.items_per_step, params.train.kl_probe_episodes)
    items = [
        task.item({"id": f"item{k}", "prompt": "".join(WORDS[(k + j * j) % 8] for j in range(long))})
        for k in range(n)
    ]
    base = load(
        folder,
        adapter=None,
        device=params.device,
        dtype=params.base.dtype,
        quantization=params.base.quantization,
    )
    for weight in base.model.parameters():  # files are read without an operation that a meter could see
        state = getattr(weight, "quant_state", None)
        for each in (weight, *(() if state is None else (state.absmax, state.state2.absmax))):
            each.detach()
    on_load()
    with tempfile.TemporaryDirectory() as scratch:
        found = train(
            base,
            Setup(task, task, items, choose(items, 2, split="validation", draws=2, seed=0), params),
            checkpoints=Checkpoints(Path(scratch), "run", 2),
            start=None,
            history=history,
            watch=Watch(task),
            on_step=on_step,
        )
    if log is not None:
        log.mkdir()
        (log / "train_log.jsonl").write_text(
            "".join(f"{json.dumps(row)}\n" for row in history.train_log), encoding="utf-8"
        )
    return found


@dataclass(frozen=True, slots=True)
class Measured:
    """The peak of bytes in live tensors once the base is loaded (0: not looked at), and processor seconds of
    the steps but the first and the last. Loading goes by way of meta tensors, which take no memory and which
    a meter would count.
    """

    peak: int
    steps: list[float]


def measured(folder: Path, params: Params, model: Any, *, metered: bool) -> Measured:
    """Train a model that was written to a folder."""
    meter, clock = Meter(), list[float]()
    with meter if metered else nullcontext():
        trained(
            folder, params, model.lengths, lambda _: clock.append(time.process_time()), on_load=meter.above
        )
    return Measured(meter.peak, [after - before for before, after in pairwise(clock[:-1])])


def forecast(config: Any, params: Params, lengths: Lengths) -> Pace:
    """Return the pace in processor seconds."""
    return pace(config, params, lengths, "cpu", Deadline(600.0), time.process_time)
