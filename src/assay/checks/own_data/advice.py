"""Which presets run on this machine with data of one's own, and what to type where none does as it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.config.composition import files_of, preset_values, presets
from assay.core.config.tasks import task_of_own_records
from assay.core.errors import ConfigError
from assay.core.provenance import usable_cores
from assay.core.storage.json import dumps, loads
from assay.core.storage.untrusted import read_capped
from assay.core.storage.yaml import yaml_text
from assay.rollout.policy.base.pretrained import how_to_download

FORECASTS = "benchmarks/results/presets.json"  # of the presets as they are shipped: by a benchmark, and kept
MAX_BYTES = 10_000_000
GIB = 2.0**30
SUITES = (("evaluation", "heldout"), ("validation", "validation"))  # settings of a suite, and its split
START = "pretrained"  # the preset that is a start for data of one's own
SMALL = 8  # conversations at once, and episodes in a pass, on a processor


@dataclass(frozen=True, slots=True)
class MachineSize:
    """What a training can have here: bytes of the GPU, None without one; bytes of main memory; cores."""

    gpu: int | None
    ram: int
    cores: int

    def __str__(self) -> str:
        gpu = "no GPU" if self.gpu is None else f"a GPU of {self.gpu / GIB:.0f} GiB"
        return f"{gpu}, {self.ram / GIB:.0f} GiB of memory, {self.cores} cores"


def this_machine() -> MachineSize:
    """Return what is here."""
    import torch

    gpu = int(torch.cuda.mem_get_info()[1]) if torch.cuda.is_available() else None
    return MachineSize(gpu, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), usable_cores())


def read_forecasts(root: Path, task: str) -> dict[str, Mapping[str, Any]]:
    """Return what was forecast of the presets on a task, by preset; nothing in a project without the
    benchmarks."""
    path = root / FORECASTS
    if not path.is_file():
        return {}
    fix = "git checkout -- benchmarks"
    found = loads(read_capped(path, max_bytes=MAX_BYTES, fix=fix).decode("utf-8"), where=FORECASTS, fix=fix)
    listed = found.get("presets") if isinstance(found, dict) else None
    known = listed.items() if isinstance(listed, dict) else ()
    return {name.split(",")[0]: told for name, told in known if name.endswith(f", {task}")}


def find_fitting(root: Path, machine: MachineSize, *, scratch: bool = False) -> tuple[list[str], list[str]]:
    """Return the presets that run on a machine with data of one's own, and a line on each preset.

    Args:
        root: The project.
        machine: Where they are to run.
        scratch: Whether a base that is built from scratch learns these data, since its lessons come from
            them.
    """
    forecasts = read_forecasts(root, task_of_own_records())
    found, lines = list[str](), [f"presets for data of your own on this machine ({machine}):"]
    for preset in presets(root, "grpo"):
        try:
            values = preset_values(root, "grpo", preset)
        except ConfigError as error:
            lines.append(f"  {preset}: cannot be read: {error.where}: found {error.found}")
            continue
        why = _why_not(values, forecasts.get(preset), machine, scratch=scratch)
        found += [] if why else [preset]
        lines.append(f"  {preset}: {why or 'runs here'}{_needs(forecasts.get(preset))}")
    # The one that is meant as a start comes first.
    return sorted(found, key=lambda name: name != START), lines


def make_preset(
    root: Path, machine: MachineSize, sizes: Mapping[str, int], *, scratch: bool = False
) -> tuple[str, str, list[str]]:
    """Return a preset for a dataset on a machine: which one it is made of, its text, and what is other in it.

    Args:
        root: The project.
        machine: Where it is to run.
        sizes: Records of the dataset by split; no suite can have more items.
        scratch: Whether a base that is built from scratch learns these data.

    Raises:
        ConfigError: There is no preset to start from.
    """
    fitting, _ = find_fitting(root, machine, scratch=scratch)
    # One that starts from another preset is made for one model; and what was written for other data of one's
    # own is named as their task is, and is made for their number.
    others = set(presets(root, "task"))
    found = [name for name in fitting if name not in others and len(files_of(root, "grpo", name)) <= 2]
    source = (found or [START])[0]
    values = preset_values(root, "grpo", source)
    changes = {} if found else fit_to_processor(values, machine)
    # What is edited first stands in it, also where it is as in the preset that it starts from.
    base = values["base"]
    named = {} if base["kind"] == "scratch" else {f"base.{key}": base[key] for key in ("model", "revision")}
    bounds = [(f"{suite}.items", split) for suite, split in SUITES]
    for setting, split in (*bounds, ("train.kl_probe_episodes", "train")):
        section, name = setting.split(".")
        named[setting] = values[section][name]
        if values[section][name] > sizes[split]:
            changes[setting] = sizes[split]
    told: dict[str, Any] = {}
    for setting, value in {**named, **changes}.items():
        section, _, name = setting.partition(".")
        if name:
            told.setdefault(section, {})[name] = value
        else:
            told[section] = value
    text = f"# @package _global_\n# For data of your own, otherwise as {source}.yaml.\n"
    text += f"defaults: [{source}, _self_]\n{yaml_text(told)}"
    return source, text, [f"{setting}: {dumps(value)}" for setting, value in changes.items()]


def describe_download(text: Mapping[str, Any]) -> str | None:
    """Return how to bring the base of a preset here; None where it is built."""
    if text["base"]["kind"] == "scratch":
        return None
    return how_to_download(str(text["base"]["model"]), text["base"]["revision"])


def fit_to_processor(values: Mapping[str, Any], machine: MachineSize) -> dict[str, Any]:
    """Return what to change in a preset for a GPU so that it runs without one, by setting."""
    episodes = values["train"]["items_per_step"] * values["train"]["group_size"]
    return {
        "device": "cpu",
        "threads": machine.cores,
        "distributed.backend": "gloo",
        "base.dtype": "float32",
        "base.quantization": None,
        "generation.batch_size": SMALL,
        "train.micro_batch_size": SMALL if episodes % SMALL == 0 else 1,
    }


def _why_not(
    values: Mapping[str, Any], forecast: Mapping[str, Any] | None, machine: MachineSize, *, scratch: bool
) -> str | None:
    """Return why a preset does not run here with data of one's own, None if it does as far as is known."""
    base = values.get("base")
    if not isinstance(base, dict) or (base.get("kind") != "pretrained" and not scratch):
        return "no: its base is built from the lessons of the shipped tasks and cannot speak other data"
    if values.get("device") == "cuda" and machine.gpu is None:
        return "no: needs a GPU"
    there = machine.ram if values.get("device") == "cpu" else machine.gpu
    if forecast is not None and there is not None and forecast["device_gib"] * 0.9 * GIB > there:
        return f"no: made for {forecast['device_gib']} GiB"
    return None


def _needs(forecast: Mapping[str, Any] | None) -> str:
    if forecast is None:
        return ""
    peak = f"{forecast['peak_gib']:.1f} GiB forecast for the shipped data"
    return f" (made for {forecast['device_gib']} GiB; {peak})"
