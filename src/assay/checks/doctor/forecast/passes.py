"""One forward and backward pass as a training makes it: same log-probabilities as in play, and a gradient
everywhere."""

from __future__ import annotations

import math
import shutil
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from assay.checks.findings import Deadline, DoctorCheck, Finding, duration, error_finding
from assay.core.config.places import setting
from assay.core.config.settings import Params, PretrainedBase
from assay.core.counting import counted
from assay.core.errors import ConfigError
from assay.rollout.evaluation.rollout import Rollout
from assay.rollout.policy.model import Policy
from assay.training.adapter import attach_adapter

# What a pass may cost, in floating-point operations: some ten seconds on the device.
MOST_OPERATIONS = {"cpu": 1e12, "cuda": 1e15}
# seconds of a pass that learns against one that reads: forward, backward, checkpointing, and some room
LEARNING = 5.0
# Between playing (a cache, one token at a time) and learning (all at once): nats a token. In float32 the
# largest, elsewhere the mean; engine.md measured 3e-6 in float32.
FLOAT32_TOLERANCE, HALF_WARNING, HALF_FAULT = 1e-2, 0.03, 0.1


@dataclass(frozen=True, slots=True)
class Cost:
    """What a pass over some episodes took, in wall seconds."""

    episodes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Batch:
    """Rollouts laid out as TRL does: prompts padded on the left, completions on the right; no position
    ids."""

    ids: torch.Tensor
    attention: torch.Tensor
    counted: torch.Tensor
    played: torch.Tensor
    width: int


def pass_findings(
    policy: Policy, rollouts: Sequence[Rollout], params: Params, *, reading: float | None, deadline: Deadline
) -> tuple[list[Finding], Cost | None]:
    """Attach an adapter, make one pass over a micro-batch, and return what it shows and what it cost.

    A model whose seconds to read a token are known (`reading`) gets as many episodes as there is time for,
    perhaps none.

    The caller puts the model back as it was.
    """
    chosen = _choose(
        policy, rollouts, params, math.inf if reading is None else deadline.left / (LEARNING * reading)
    )
    if not chosen:
        check = DoctorCheck(
            "learning pass", "time for a pass over one episode", "this machine, with this base"
        )
        fix = "use a faster device or a smaller base; log-probabilities and gradients were not looked at"
        return [check.warning(f"none in the {deadline.left:.0f} s that were left", fix)], None
    try:
        adapted = attach_adapter(policy, params)
    except ConfigError as error:
        return [error_finding("LoRA targets", error)], None
    model: Any = adapted.model
    check = DoctorCheck("learning pass", "a forward and backward pass that works", "the model under training")
    if params.train.gradient_checkpointing:
        model.gradient_checkpointing_enable()
        model.enable_input_require_grads()
    model.train()
    begun = time.perf_counter()
    try:
        batch = _lay_out(policy, chosen)
        logprobs = _logprobs(model, batch, params.generation.temperature)
        # GRPO pulls some episodes up and others down; the signs stand in for advantages that may all be 0
        # today.
        signs = torch.tensor(
            [1.0 if row % 2 == 0 else -1.0 for row in range(len(chosen))], device=logprobs.device
        )
        loss = -(logprobs * batch.counted * signs[:, None]).sum() / batch.counted.sum().clamp(min=1)
        loss.backward()  # type: ignore[no-untyped-call]
        if logprobs.is_cuda:
            torch.cuda.synchronize()
    except torch.cuda.OutOfMemoryError:
        fix = "lower train.micro_batch_size, set train.gradient_checkpointing: true, or use a smaller base"
        memory = DoctorCheck("memory", "room for one micro-batch", setting("train.micro_batch_size"))
        return [
            memory.fault(f"none for {counted(len(chosen), 'episodes')} of {batch.ids.shape[1]} tokens", fix)
        ], None
    except (RuntimeError, ValueError, IndexError) as error:
        fix = (
            "deterministic: false"
            if "deterministic" in str(error)
            else "use a base that torch can train on this device"
        )
        return [check.fault(f"{type(error).__name__}: {str(error).split(chr(10))[0]}", fix)], None
    finally:
        if params.train.gradient_checkpointing:
            model.gradient_checkpointing_disable()
    cost = Cost(len(chosen), time.perf_counter() - begun)
    return [_agreement(logprobs.detach(), batch, exact=_is_float32(params)), _gradients(model)], cost


def _choose(policy: Policy, rollouts: Sequence[Rollout], params: Params, most_tokens: float) -> list[Rollout]:
    """Return a micro-batch, or as much of it as may be afforded: the longest, and the shortest for its
    padding.

    Where there is not even time for the longest, it is the shortest alone, or nothing.
    """
    by_length = sorted(rollouts, key=lambda one: len(one.prompt_ids) + len(one.completion_ids), reverse=True)
    longest = len(by_length[0].prompt_ids) + len(by_length[0].completion_ids)
    parameters = sum(parameter.numel() for parameter in policy.model.parameters())
    afforded = int(MOST_OPERATIONS[params.device] / (6.0 * parameters * longest))
    n = min(
        params.train.micro_batch_size, len(by_length), max(1, afforded), int(min(most_tokens, 1e12) / longest)
    )
    if n < 1:
        shortest = by_length[-1]
        return [shortest] if len(shortest.prompt_ids) + len(shortest.completion_ids) <= most_tokens else []
    return (
        by_length if n == len(by_length) else [*by_length[: n - 1], by_length[-1]] if n > 1 else by_length[:1]
    )


def _lay_out(policy: Policy, rollouts: Sequence[Rollout]) -> _Batch:
    device = next(policy.model.parameters()).device
    left, width = (
        max(len(one.prompt_ids) for one in rollouts),
        max(len(one.completion_ids) for one in rollouts),
    )
    ids = torch.full((len(rollouts), left + width), policy.pad_id)
    attention = torch.zeros_like(ids)
    counted, played = torch.zeros(len(rollouts), width), torch.zeros(len(rollouts), width)
    for row, one in enumerate(rollouts):
        start, end = left - len(one.prompt_ids), left + len(one.completion_ids)
        ids[row, start:end] = torch.as_tensor([*one.prompt_ids, *one.completion_ids])
        attention[row, start:end] = 1
        counted[row, : len(one.mask)] = torch.as_tensor(one.mask).float()
        played[row, : len(one.logprobs)] = torch.as_tensor(one.logprobs)
    return _Batch(ids.to(device), attention.to(device), counted.to(device), played.to(device), width)


def _logprobs(model: Any, batch: _Batch, temperature: float) -> torch.Tensor:
    out = model(
        input_ids=batch.ids, attention_mask=batch.attention, use_cache=False, logits_to_keep=batch.width + 1
    )
    logits = out.logits[:, -batch.width - 1 : -1].float() / temperature
    chosen: torch.Tensor = logits.gather(2, batch.ids[:, -batch.width :, None]).squeeze(2)
    played: torch.Tensor = chosen - logits.logsumexp(dim=-1)
    return played


def _agreement(learned: torch.Tensor, batch: _Batch, *, exact: bool) -> Finding:
    check = DoctorCheck(
        "log-probabilities", "the same in play and in the pass that learns", "the base, as it is trained"
    )
    gaps = (learned - batch.played).abs()[batch.counted.bool()]
    if not torch.isfinite(gaps).all():
        return check.fault("NaN or Inf", "use a base with finite weights, or base.dtype: float32")
    mean, largest = float(gaps.mean()), float(gaps.max())
    found = f"a difference of {mean:.2g} nats a token in the mean, {largest:.2g} at most"
    fix = (
        "set every dropout in the base's config.json to 0, and use a base with relative positions (prompts"
        " are padded on the left); else another base.dtype or base.quantization"
    )
    apart = (exact and largest > FLOAT32_TOLERANCE) or mean > HALF_FAULT
    return check.judge(found, fix, fault=apart, doubtful=mean > HALF_WARNING)


def _is_float32(params: Params) -> bool:
    base = params.base
    return not isinstance(base, PretrainedBase) or (base.dtype == "float32" and base.quantization is None)


def _gradients(model: Any) -> Finding:
    """Return whether each kind of adapted module gets a gradient; B alone does at first, since it starts at
    0."""
    check = DoctorCheck(
        "gradients", "finite and not 0 in every kind of adapted module", setting("train.lora.target_modules")
    )
    largest: dict[str, float] = defaultdict(float)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and ".lora_B." in name:
            kind = name.split(".lora_B.")[0].rsplit(".", 1)[-1]
            size = 0.0 if parameter.grad is None else float(parameter.grad.abs().max())
            largest[kind] = size if size != size else max(largest[kind], size)
    ill = [kind for kind, size in largest.items() if not torch.isfinite(torch.tensor(size))]
    if ill:
        return check.fault(
            f"NaN or Inf in {', '.join(ill)}", "use a base with finite weights, or base.dtype: float32"
        )
    dead = [kind for kind, size in largest.items() if size == 0.0]
    if dead:
        fix = (
            f"leave {', '.join(dead)} out of train.lora.target_modules, or use a base whose weights there are"
            " not 0"
        )
        return check.fault(f"0 in {', '.join(dead)}", fix)
    return check.ok(", ".join(f"{kind} {size:.1g}" for kind, size in largest.items()))


GIB = 2.0**30
MIB = 2.0**20


def time_finding(params: Params, played_seconds: float, cost: Cost | None) -> Finding:
    """Return how long the training may take, from the seconds an episode took to play and to learn from."""
    train, validation = params.train, params.validation
    learned_seconds = cost.seconds / cost.episodes if cost is not None else 0.0
    probe = train.kl_probe_episodes * learned_seconds / train.kl_probe_every
    step = (
        train.items_per_step
        * train.group_size
        * (played_seconds + learned_seconds)
        / params.distributed.processes
        + probe
    )
    validations = 2 + (train.steps - 1) // validation.interval
    whole = train.steps * step + validations * validation.items * (validation.draws + 1) * played_seconds
    check = DoctorCheck("time (forecast)", "a time you have", setting("train.steps"))
    without = "" if cost is not None else ", the learning pass left out"
    return check.ok(
        f"about {step:.2g} s a step, {duration(whole)} in all with"
        f" {counted(validations, 'validations')}{without}"
    )


def disk_finding(params: Params, adapter_bytes: int, folder: Path) -> Finding:
    """Return whether the checkpoints will fit: weights, two moments and the best adapter, for each that is
    kept at a time."""
    needed = 4 * adapter_bytes * (params.checkpoint.keep + 2)
    free = shutil.disk_usage(_existing(folder)).free
    check = DoctorCheck(
        "disk", f"{needed / MIB:.3g} MiB for checkpoints", f"the disk of {folder.name or folder}"
    )
    found, fix = f"{free / MIB:.3g} MiB free", "make room, or lower checkpoint.keep or train.lora.r"
    ok = f"{free / GIB:.3g} GiB free"
    return check.judge(found, fix, fault=needed > free, doubtful=2 * needed > free, ok=ok)


def _existing(folder: Path) -> Path:
    return next(place for place in (folder.resolve(), *folder.resolve().parents) if place.exists())
