"""From the values of params.yaml to settings: strictly, and every mistake with its place and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from assay.config.settings import Params
from assay.errors import ConfigError

CONFIG_VERSION = 1


def _known_keys(model: type[BaseModel] = Params, prefix: str = "") -> dict[str, set[str]]:
    """Return for each dotted section the names that are allowed in it."""
    keys: dict[str, set[str]] = {prefix: set(model.model_fields)}
    for name, field in model.model_fields.items():
        path = f"{prefix}.{name}" if prefix else name
        for candidate in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                for section, names in _known_keys(candidate, path).items():
                    keys[section] = keys.get(section, set()) | names
    return keys


def _tags() -> set[str]:
    """Return what a section that takes one of several forms calls them: "collider", "scratch" and their like."""
    return {
        str(tag)
        for field in Params.model_fields.values() if isinstance(field.discriminator, str)
        for form in get_args(field.annotation)
        for tag in get_args(form.model_fields[field.discriminator].annotation)
    }  # fmt: skip


def parse_params(raw: Mapping[str, Any], where: str = "params.yaml") -> Params:
    """Read settings strictly.

    Args:
        raw: The mapping read from YAML.
        where: Name of the file, for messages.

    Raises:
        ConfigError: A key is unknown, missing or mistyped, or the version is not ours; names key and fix.
    """
    if raw.get("version") != CONFIG_VERSION:
        raise ConfigError(
            f"config version {CONFIG_VERSION}",
            found=repr(raw.get("version")),
            where=f"{where}, version",
            fix="./run assay config use   (writes params.yaml anew from configs/)",
        )
    try:
        params = Params.model_validate(raw)
    except ValidationError as error:
        raise _explain(error, where) from None
    _cross_check(params, where)
    return params


def _explain(error: ValidationError, where: str) -> ConfigError:
    known = _known_keys()
    first, more = error.errors()[0], len(error.errors()) - 1
    # A discriminated union adds its tag ("scratch") to the location; it is no key of the file.
    steps = [str(step) for step in first["loc"] if step not in _tags()]
    if first["type"] == "union_tag_invalid":
        steps.append(first["ctx"]["discriminator"].strip("'"))
        first["input"] = first["ctx"]["tag"]
    path, section = ".".join(steps), ".".join(steps[:-1])
    place = f"{where}, {path}"
    also = f" ({more} more like it)" if more else ""
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(steps[-1], sorted(known.get(section, set())), n=1)
        fix = f"did you mean {near[0]!r}?" if near else f"remove it; known here: {sorted(known.get(section, set()))}"
        return ConfigError("a known setting", found=f"unknown key {steps[-1]!r}{also}", where=place, fix=fix)
    if first["type"] == "missing":
        return ConfigError("a value", found=f"nothing{also}", where=place, fix=f"add {path} to your preset")
    found = repr(first.get("input"))
    expected = first["msg"].removeprefix("Value error, ")
    return ConfigError(expected, found=f"{found}{also}", where=place, fix="correct the value in configs/")


def _cross_check(params: Params, where: str) -> None:
    train = params.train
    processes, backend = params.distributed.processes, params.distributed.backend
    if train.items_per_step % processes:
        raise ConfigError(
            f"a divisor of train.items_per_step = {train.items_per_step}, so that every group stays in one process",
            found=str(processes),
            where=f"{where}, distributed.processes",
            fix="change one of the two",
        )
    if backend == "nccl" and params.device == "cpu" and processes > 1:
        raise ConfigError(
            "gloo between processes on CPUs", found=backend, where=f"{where}, distributed.backend", fix="set it to gloo"
        )
    _check_engine(params, where)
    if params.generation.cuda_graphs and (params.generation.backend != "cached" or params.device != "cuda"):
        raise ConfigError(
            "backend cached on device cuda, for cuda_graphs: true",
            found=f"backend {params.generation.backend} on device {params.device}",
            where=f"{where}, generation.cuda_graphs",
            fix="set it to false",
        )
    episodes = train.items_per_step * train.group_size // processes
    if episodes % train.micro_batch_size:
        raise ConfigError(
            f"a divisor of items_per_step x group_size / distributed.processes = {episodes}",
            found=str(train.micro_batch_size),
            where=f"{where}, train.micro_batch_size",
            fix=f"set it to {episodes} or a divisor of it",
        )
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
                    where=f"{where}, base.warm_start.{name}",
                    fix="raise it, or lower the batch_size",
                )
    if params.validation.suite == "train" or params.validation.suite.startswith("heldout"):
        raise ConfigError(
            "a suite that neither trains nor reports",
            found=repr(params.validation.suite),
            where=f"{where}, validation.suite",
            fix="validation.suite: validation",
        )
    if params.base.kind == "scratch" and params.task.name == "structured" and params.task.lessons is None:
        raise ConfigError(
            "task.lessons that teach a from-scratch base to speak",
            found="null",
            where=f"{where}, task.lessons",
            fix="choose a preset with a pretrained base; only the shipped data come with lessons",
        )
    if params.base.kind == "scratch" and params.generation.surface != "compact":
        raise ConfigError(
            "surface compact for a from-scratch base",
            found=repr(params.generation.surface),
            where=f"{where}, generation.surface",
            fix="set generation.surface: compact, or use a pretrained base",
        )


def _check_engine(params: Params, where: str) -> None:
    """Refuse what a base that is held in parts cannot do."""
    told = params.distributed
    if told.engine == "ddp":
        return
    for wrong, expected, found in (
        (told.processes == 1, "ddp for one process", "distributed.processes: 1"),
        (params.base.quantization is not None, "ddp for a base of 4 bits, whose weights cannot be cut", "base.quantization"),
        (params.generation.cuda_graphs, "ddp where captured steps know the places of weights", "cuda_graphs: true"),
        (params.device == "cuda" and told.backend == "gloo", "backend nccl between GPUs", "distributed.backend: gloo"),
    ):
        if wrong:
            place, fix = f"{where}, distributed.engine", "set distributed.engine: ddp, or change the other"
            raise ConfigError(expected, found=f"{told.engine} with {found}", where=place, fix=fix)
