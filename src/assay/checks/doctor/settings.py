"""Settings that cannot work, work against each other, or do nothing: seen without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay.checks.findings import DoctorCheck, Finding
from assay.core.config.places import setting
from assay.core.config.settings import Params, PretrainedBase
from assay.core.counting import counted
from assay.core.provenance import usable_cores
from assay.rollout.tasks.protocol import Item

LOWEST_RATE, HIGHEST_RATE, HIGHEST_PRETRAINED_RATE = 1e-7, 2e-2, 1e-3
LOWEST_SCALE, HIGHEST_SCALE = 0.05, 16.0
LOWEST_NORM, HIGHEST_NORM = 1e-4, 100.0
LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.3, 2.0
HIGHEST_BETA = 1.0


def settings_findings(params: Params) -> list[Finding]:
    """Return what the settings alone say about a training."""
    return [check(params) for check in _CHECKS]


def _learning_rate(params: Params) -> Finding:
    rate, fix = (
        params.train.learning_rate,
        "train.learning_rate: 1e-5 for a pretrained base, 1e-3 for the tiny one",
    )
    check = DoctorCheck(
        "learning rate", f"{LOWEST_RATE:g} … {HIGHEST_RATE:g}", setting("train.learning_rate")
    )
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        return check.fault(
            f"{rate:g}, at which an adapter {'does not move' if rate < LOWEST_RATE else 'diverges'}", fix
        )
    if isinstance(params.base, PretrainedBase) and rate > HIGHEST_PRETRAINED_RATE:
        return check.warning(f"{rate:g}, high for a pretrained base", fix)
    return check.ok(f"{rate:g}")


def _schedule(params: Params) -> Finding:
    train = params.train
    check = DoctorCheck(
        "warm-up", "a warm-up that is used and ends before the last step", setting("train.warmup_steps")
    )
    if train.warmup_steps == 0:
        return check.ok("none")
    if train.lr_scheduler == "constant":
        found = f"train.warmup_steps: {train.warmup_steps}, which lr_scheduler: constant never reads"
        return check.warning(found, "train.lr_scheduler: constant_with_warmup, or train.warmup_steps: 0")
    # transformers gives step k (from 0) the share k / warmup_steps: the first step moves nothing.
    highest = min(1.0, (train.steps - 1) / train.warmup_steps)
    fix = "lower train.warmup_steps, or raise train.steps"
    if highest == 0.0:
        return check.fault(f"{counted(train.steps, 'steps')}, whose learning rate is 0", fix)
    found = f"{train.warmup_steps} of {counted(train.steps, 'steps')}"
    if train.warmup_steps >= train.steps:
        return check.warning(f"{found}: at most {highest:.0%} of the rate is reached", fix)
    return check.ok(found)


def _group_size(params: Params) -> Finding:
    size, check = (
        params.train.group_size,
        DoctorCheck("group size", "at least 4", setting("train.group_size")),
    )
    found = f"{size}: a mean over so few says little about the one"
    return check.judge(found, "train.group_size: 8", doubtful=size < 4, ok=str(size))


def _gradient_clipping(params: Params) -> Finding:
    norm, fix = params.train.max_grad_norm, "train.max_grad_norm: 1.0"
    expected = f"{LOWEST_NORM:g} … {HIGHEST_NORM:g}"
    check = DoctorCheck("gradient clipping", expected, setting("train.max_grad_norm"))
    if norm < LOWEST_NORM:
        return check.warning(f"{norm:g}: gradients get so small that AdamW's epsilon holds them up", fix)
    return check.judge(f"{norm:g}, which never clips", fix, doubtful=norm > HIGHEST_NORM, ok=f"{norm:g}")


def _clip_range(params: Params) -> Finding:
    low, high = params.train.epsilon_low, params.train.epsilon_high
    check = DoctorCheck("clip range", "epsilon_high at least epsilon_low", setting("train.epsilon_high"))
    found = f"{high:g} below {low:g}: what is rare is clipped first, and variety is lost"
    fix = f"train.epsilon_high: {max(0.28, low):g}"
    return check.judge(found, fix, doubtful=high < low, ok=f"{low:g} and {high:g}")


def _temperature(params: Params) -> Finding:
    value, fix = params.generation.temperature, "generation.temperature: 1.0"
    expected, measured = f"{LOWEST_TEMPERATURE:g} … {HIGHEST_TEMPERATURE:g}", params.generation.measured_at
    check = DoctorCheck("temperature", expected, setting("generation.temperature"))
    if value < LOWEST_TEMPERATURE:
        return check.warning(f"{value:g}: the members of a group will hardly differ", fix)
    if measured < LOWEST_TEMPERATURE:
        fix = "generation.evaluation_temperature: null"
        return check.warning(f"{measured:g} in evaluations: an item's draws will hardly differ", fix)
    found = f"{value:g}: completions will be close to random tokens"
    return check.judge(found, fix, doubtful=value > HIGHEST_TEMPERATURE, ok=f"{value:g}")


def _kl_weight(params: Params) -> Finding:
    beta = params.train.beta
    check = DoctorCheck("KL weight", f"at most {HIGHEST_BETA:g}", setting("train.beta"))
    found = f"{beta:g}: the KL term outweighs any reward, and the policy stays the base"
    return check.judge(found, "train.beta: 0.04", doubtful=beta > HIGHEST_BETA, ok=f"{beta:g}")


def _lora_scale(params: Params) -> Finding:
    lora = params.train.lora
    scale = lora.alpha / lora.r
    expected = f"alpha / r within {LOWEST_SCALE:g} … {HIGHEST_SCALE:g}"
    check = DoctorCheck("LoRA scale", expected, setting("train.lora.alpha"))
    found, odd = f"{lora.alpha} / {lora.r} = {scale:g}", not LOWEST_SCALE <= scale <= HIGHEST_SCALE
    return check.judge(found, f"train.lora.alpha: {2 * lora.r}", doubtful=odd, ok=f"{scale:g}")


def _lora_dropout(params: Params) -> Finding:
    dropout, check = (
        params.train.lora.dropout,
        DoctorCheck("LoRA dropout", "0", setting("train.lora.dropout")),
    )
    found = f"{dropout:g}: episodes are played without dropout and learned from with it, by another policy"
    return check.judge(found, "train.lora.dropout: 0.0", doubtful=dropout > 0.0, ok="0")


def _precision(params: Params) -> Finding:
    base = params.base
    check = DoctorCheck("precision", "one that the device is made for", setting("base.quantization"))
    if not isinstance(base, PretrainedBase):
        return check.ok("float32")
    if params.device == "cpu" and base.quantization is not None:
        found = f"{base.quantization} on cpu, where every pass unpacks the weights anew, which is slow"
        return check.warning(found, "device: cuda, or base.quantization: null")
    if params.device == "cpu" and base.dtype == "bfloat16":
        return check.warning("bfloat16 on cpu, which is slow and coarse there", "base.dtype: float32")
    return check.ok(f"{base.dtype} on {params.device}")


def _threads(params: Params) -> Finding:
    cores = usable_cores()
    check = DoctorCheck("threads", f"at most {cores} (the cores of this machine)", setting("threads"))
    if params.threads > cores:
        return check.warning(f"{params.threads}, which get in each other's way", f"threads: {cores}")
    return check.ok(str(params.threads))


def _processes(params: Params) -> Finding:
    told, train = params.distributed, params.train
    check = DoctorCheck(
        "processes", "whole groups in every process, and a backend for the device", setting("distributed")
    )
    if told.processes == 1:
        return check.ok("1")
    if params.device == "cpu" and told.backend == "nccl":
        return check.fault("backend nccl on device cpu", "distributed.backend: gloo")
    if train.items_per_step % told.processes:
        found = f"{counted(train.items_per_step, 'items')} a step for {told.processes} processes"
        return check.fault(found, "make train.items_per_step a multiple of distributed.processes")
    if train.items_per_step // told.processes * train.group_size % train.micro_batch_size:
        found = f"{counted(train.items_per_step // told.processes * train.group_size, 'episodes')} a process"
        return check.fault(
            f"{found} in parts of {train.micro_batch_size}", "make train.micro_batch_size a divisor of it"
        )
    if params.device == "cuda" and told.backend == "gloo":
        return check.warning(
            "backend gloo on device cuda, which copies through the host", "distributed.backend: nccl"
        )
    return check.ok(f"{told.processes} by {told.backend}")


def _shaping(params: Params) -> Finding:
    check = DoctorCheck("shaping", "a discount that is used, and changes no optimum", setting("task.gamma"))
    weight, gamma = (getattr(params.task, name, None) for name in ("shaping", "gamma"))
    if weight is None or gamma is None:
        return check.ok("none")
    if gamma == 1.0:
        return check.ok(f"weight {weight:g}, gamma 1")
    if weight == 0.0:
        return check.warning(f"{gamma:g}, which shaping: 0 never reads", "task.gamma: 1.0")
    found = f"{gamma:g}: rewards are summed without a discount, so the shaping moves the optimum"
    return check.warning(found, "task.gamma: 1.0")


def _blocklist(params: Params) -> Finding:
    task, expected = params.task, "a list where blocked terms are to be punished"
    check = DoctorCheck("blocklist", expected, setting("task.reject_blocklisted"))
    odd = getattr(task, "reject_blocklisted", False) and task.blocklist_file is None
    fix = "task.blocklist: FILE, or task.reject_blocklisted: false"
    return check.judge("reject_blocklisted: true without a list", fix, doubtful=odd, ok="consistent")


def _validation_interval(params: Params) -> Finding:
    interval, steps = params.validation.interval, params.train.steps
    expected = f"below train.steps ({steps})"
    check = DoctorCheck("validation interval", expected, setting("validation.interval"))
    found = f"{interval}: only the base and the last step can be chosen from"
    fix = f"validation.interval: {max(1, steps // 8)}"
    return check.judge(found, fix, doubtful=interval >= steps > 1, ok=str(interval))


def _checkpoint_interval(params: Params) -> Finding:
    every, steps = params.checkpoint.every, params.train.steps
    check = DoctorCheck("checkpoints", f"one before the last step ({steps})", setting("checkpoint.every"))
    found, fix = f"{every}: a crash loses the whole training", f"checkpoint.every: {max(1, steps // 8)}"
    ok = f"every {every} steps" if every > 1 else "every step"
    return check.judge(found, fix, doubtful=every >= steps > 1, ok=ok)


def _baseline_steps(params: Params) -> Finding:
    first, steps = params.health.baseline_steps, params.train.steps
    expected = f"fewer than train.steps ({steps})"
    check = DoctorCheck("alarm baseline", expected, setting("health.baseline_steps"))
    found = f"{first}: alarms that compare with it can never ring"
    return check.judge(found, f"health.baseline_steps: {steps // 2}", doubtful=first >= steps, ok=str(first))


_CHECKS: tuple[Callable[[Params], Finding], ...] = (
    _learning_rate,
    _schedule,
    _group_size,
    _gradient_clipping,
    _clip_range,
    _temperature,
    _kl_weight,
    _lora_scale,
    _lora_dropout,
    _precision,
    _threads,
    _processes,
    _shaping,
    _blocklist,
    _validation_interval,
    _checkpoint_interval,
    _baseline_steps,
)


MANY_EPOCHS = 20


def counts_findings(params: Params, items: Sequence[Item], validation: Sequence[Item]) -> list[Finding]:
    """Return what the items say, before any is played."""
    return [
        _items_per_step(params, len(items)),
        _epochs(params, len(items)),
        _kl_probe(params, len(items)),
        _validation_size(params, len(validation)),
        _repeated(items),
        _apart(items, validation),
    ]


def _items_per_step(params: Params, n: int) -> Finding:
    asked, expected = params.train.items_per_step, f"at most the {counted(n, 'training items')}"
    check = DoctorCheck("items a step", expected, setting("train.items_per_step"))
    found, fix = (
        f"{asked}: an item is several groups of one step",
        f"train.items_per_step: {max(1, n)}, or add data",
    )
    return check.judge(found, fix, doubtful=asked > n, ok=str(asked))


def _epochs(params: Params, n: int) -> Finding:
    epochs = params.train.steps * params.train.items_per_step / max(1, n)
    check = DoctorCheck("epochs", f"at most {MANY_EPOCHS}", setting("train.steps"))
    found = f"each of {counted(n, 'items')} is trained on {epochs:.0f} times"
    fix = "lower train.steps, or add data"
    return check.judge(found, fix, doubtful=epochs > MANY_EPOCHS, ok=f"{epochs:.2g}")


def _kl_probe(params: Params, n: int) -> Finding:
    asked, expected = params.train.kl_probe_episodes, f"at most the {counted(n, 'training items')}"
    check = DoctorCheck("KL probe", expected, setting("train.kl_probe_episodes"))
    found, fix = f"{asked} episodes, each of another item", f"train.kl_probe_episodes: {n}"
    return check.judge(found, fix, fault=asked > n, ok=str(asked))


def _validation_size(params: Params, n: int) -> Finding:
    asked = params.validation.items
    check = DoctorCheck(
        "validation items", f"{asked}, as validation.items asks for", setting("validation.items")
    )
    found = f"{n}: the checkpoint is chosen on less than was asked for"
    return check.judge(found, "add data, or lower validation.items", doubtful=n < asked, ok=str(n))


def _repeated(items: Sequence[Item]) -> Finding:
    n, check = (
        len({item.id for item in items}),
        DoctorCheck("training items", "each once", "the training items"),
    )
    found = f"{len(items)} with {counted(n, 'ids')}"
    return check.judge(
        found, "remove the repeated records from train.jsonl", doubtful=n < len(items), ok=f"{n}"
    )


def _apart(items: Sequence[Item], validation: Sequence[Item]) -> Finding:
    ids, clusters = {item.id for item in items}, {item.cluster for item in items}
    check = DoctorCheck(
        "validation kept apart",
        "no item and no cluster in both",
        "the data files of train and validation.suite",
    )
    fix = (
        "./run assay task audit TASKS.jsonl --fix-splits makes splits that share nothing; or another"
        " validation.suite"
    )
    shared = [item.id for item in validation if item.id in ids]
    if shared:
        found = (
            f"{counted(len(shared), 'items')} in both (first: {shared[0]}): the checkpoint is chosen by"
            " memory"
        )
        return check.fault(found, fix)
    near = [item.cluster for item in validation if item.cluster in clusters]
    if near:
        return check.fault(
            f"{counted(len(near), 'validation items')} of clusters that are trained on (first: {near[0]})",
            fix,
        )
    return check.ok("nothing shared")
