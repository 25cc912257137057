"""Work of a chosen size for speed alone: models of any shape with random weights, and a task that only takes
up tokens.

Such a model hardly ever writes end-of-sequence, so every completion is as long as allowed, on both sides.
Ours plays through `assay.rollout.evaluation.rollout.play`; stock as TRL does it: the group's copies of a
prompt side by side through generate, and at each further turn the whole conversation, as token ids, once
more.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from benchmarks import stock
from benchmarks.common import spread, turns
from benchmarks.floors import Shape, Work
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from assay.core.decoding import Backend, Decoding
from assay.rollout.dataset.suite import Play
from assay.rollout.evaluation.rollout import Pace, play
from assay.rollout.policy.base import tiny
from assay.rollout.policy.model import Policy
from assay.rollout.policy.renderer import Dialogue
from assay.rollout.tasks.protocol import Item, Step, Verdict

WORDS = [f"w{k:03d}" for k in range(1000)]


class Filler:
    """A task of the kind that the engine plays, without sense: only lengths matter."""

    name, cluster_name, floor, ceiling = "filler", "prompts", "none", "none"
    parts: Mapping[str, Any] = {"terminal": "outcome"}
    flags = metrics = ()
    alarms: Mapping[str, float] = {}
    max_prompt_tokens = None

    def __init__(self, work: Work, opening: int, reply: int) -> None:
        """`opening` and `reply` are the words that make up the lengths, template marks not counted."""
        self._work, self._opening, self._reply = work, opening, reply

    def start(self, item: Item, world_seed: int) -> tuple[list[dict[str, str]], Any]:
        """Open an episode."""
        return [{"role": "user", "content": _words(self._opening, world_seed)}], 0

    def step(self, state: Any, completion: str) -> Step:
        """Take anything."""
        last = state + 1 == self._work.turns
        told = None if last else _words(self._reply, state)
        return Step(state + 1, told, "turn_limit" if last else None, "ok", None, None, {"terminal": 0.0})

    def judge(self, state: Any) -> Verdict:
        """Judge nothing."""
        return Verdict(False, {}, {})


def _words(n: int, salt: int) -> str:
    return "".join(WORDS[(salt * 37 + k * 11) % len(WORDS)] for k in range(n))


def policy_of(
    shape: Shape, device: str, dtype: torch.dtype, *, nf4: bool = False, adapter: bool = False
) -> Policy:
    """Return a model with random weights made on the device, and a tokenizer of 1,000 words.

    Args:
        shape: Of the model; its vocabulary may be larger than the tokenizer's.
        device: "cpu" or "cuda".
        dtype: Of the weights.
        nf4: Whether the layers' weights are 4-bit NormalFloat (bitsandbytes, double quantisation).
        adapter: Whether a LoRA adapter (r = 16, all linear layers) lies on top, as in training.
    """
    tokenizer: PreTrainedTokenizerFast = tiny.build_tokenizer(WORDS)
    config = Qwen3Config(
        vocab_size=max(shape.vocabulary, len(tokenizer)),
        hidden_size=shape.hidden,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=40960,
        tie_word_embeddings=shape.tied,
        rope_theta=1e6,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    before = torch.get_default_dtype()
    torch.manual_seed(0)
    try:
        torch.set_default_dtype(dtype)
        with torch.device(device):
            model: Any = Qwen3ForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    if nf4:
        _quantise(model, device)
    model.generation_config.eos_token_id = config.eos_token_id
    model.generation_config.pad_token_id = config.pad_token_id
    if adapter:
        from peft import LoraConfig, get_peft_model

        lora = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
        model = get_peft_model(model, lora)
    model.eval()
    return Policy(model, tokenizer, Dialogue(tokenizer), "random")


def _quantise(model: Any, device: str) -> None:
    import bitsandbytes as bnb

    how: dict[str, Any] = {"compress_statistics": True, "quant_type": "nf4"}
    for name, module in list(model.named_modules()):
        if isinstance(module, torch.nn.Linear) and not name.endswith("lm_head"):
            sizes, computed = (module.in_features, module.out_features), module.weight.dtype
            layer = bnb.nn.Linear4bit(*sizes, bias=False, compute_dtype=computed, device="meta", **how)
            weight = module.weight.data.cpu()
            four_bit = bnb.nn.Params4bit(weight, requires_grad=False, module=layer, **how)
            layer.weight = four_bit.to(device)
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, layer)


class Bench:
    """One model and one kind of work, played by both sides."""

    def __init__(self, policy: Policy, work: Work, device: str) -> None:
        self.policy, self.work, self.device = policy, work, device
        dialogue = policy.dialogue
        marks = len(dialogue.prompt([{"role": "user", "content": ""}])), len(dialogue.reply("", last_id=-1))
        self._task = Filler(work, work.prompt - marks[0], work.reply - marks[1])
        # As the presets have it: bfloat16 on a GPU is not played by lean.
        self._decoding = Decoding(1.0, work.new, "lean" if device == "cpu" else "cached")
        items = [Item(f"p{k}", f"p{k}", {}, None, None) for k in range(work.prompts)]
        self._plays = [
            Play(item, draw, seed=1000 * k + draw, world_seed=k)
            for k, item in enumerate(items)
            for draw in range(work.group)
        ]

    def ours(
        self, batch: int | None = None, backend: Backend | None = None
    ) -> tuple[list[list[int]], list[list[float]]]:
        """Play once; return what followed each opening, and the log-probabilities (0 where a reply
        stands)."""
        size = batch or self.work.rows
        decoding = replace(self._decoding, backend=backend or self._decoding.backend)
        played: Any = play(self.policy, self._task, self._plays, decoding, pace=Pace(size))
        return [one.completion_ids for one in played], [one.logprobs for one in played]

    def _opened(self) -> list[list[int]]:
        started = [self._task.start(play.item, play.world_seed)[0] for play in self._plays]
        return [self.policy.dialogue.prompt(messages) for messages in started]

    def stock(self) -> list[list[int]]:
        """Play once as TRL does: generate over left-padded ids, then over all of them again."""
        policy, ends, opened = self.policy, self.policy.dialogue.end_ids, self._opened()
        whole = [list(ids) for ids in opened]
        for turn in range(self.work.turns):
            inputs = stock.left_padded(whole, policy.pad_id, self.device)
            with torch.no_grad():
                out = policy.model.generate(**inputs, **stock.sampling(self._decoding, policy))
            written = out[:, inputs["input_ids"].shape[1] :].tolist()
            told = self._task.step(turn, "").observation
            for ids, new in zip(whole, written, strict=True):
                own = stock.ended(new, ends)
                ids += own + ([] if told is None else policy.dialogue.reply(told, last_id=own[-1]))
        return [ids[len(first) :] for ids, first in zip(whole, opened, strict=True)]

    def written(self, rows: list[list[int]]) -> int:
        """Return the policy's tokens among those of whole episodes; random models end a completion early now
        and then."""
        return sum(len(row) for row in rows) - self.work.rows * (self.work.turns - 1) * self.work.reply

    def timed(self, side: str) -> dict[str, float]:
        """Return seconds, tokens and the peak of GPU memory (MiB) of one go."""
        gc.collect()
        if self.device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        rows = self.ours()[0] if side == "ours" else self.stock()
        if self.device == "cuda":
            torch.cuda.synchronize()
        found = {"seconds": time.perf_counter() - began, "tokens": float(self.written(rows))}
        if self.device == "cuda":
            found["peak_mib"] = torch.cuda.max_memory_allocated() / 2**20
        return found

    def difference(self) -> dict[str, float]:
        """Return the largest difference to a plain forward pass: of what ours captured, and of what generate
        says."""
        ids, logprobs = self.ours()
        opened, worst = self._opened(), 0.0
        for prompt, row, said in list(zip(opened, ids, logprobs, strict=True))[:4]:
            plain = stock.plain_logprobs(self.policy.model, prompt, row, 1.0).cpu()
            kept = torch.tensor([one != 0.0 for one in said])
            worst = max(worst, float(((plain - torch.tensor(said)).abs() * kept).max()))
        return {"ours": worst, "stock": stock.difference(self.policy, opened[:4], self._decoding)}


def side_by_side(bench: Bench, pairs: int) -> dict[str, Any]:
    """Return medians of both sides and of their ratio, asked in turn; a first go of each is not counted."""
    for side in ("stock", "ours"):
        bench.timed(side)
    found: dict[str, list[dict[str, float]]] = {"stock": [], "ours": []}
    for _, side in turns(pairs):
        found[side].append(bench.timed(side))
    both = list(zip(found["stock"], found["ours"], strict=True))
    ratios = [one["seconds"] / other["seconds"] for one, other in both]
    rows: dict[str, Any] = {}
    for side, runs in found.items():
        rows[side] = {name: statistics.median(run[name] for run in runs) for name in ("seconds", "tokens")}
        rows[side]["tokens_per_second"] = statistics.median(run["tokens"] / run["seconds"] for run in runs)
        if "peak_mib" in runs[0]:
            rows[side]["peak_mib"] = max(run["peak_mib"] for run in runs)
    told = [{"stock_seconds": one["seconds"], "ours_seconds": other["seconds"]} for one, other in both]
    range_ = spread(ratios)
    return {"ratio": range_.pop("median"), "n": pairs, "pairs": told} | range_ | rows
