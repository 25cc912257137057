"""What a run folder holds, without going on with it: which training it is of, its checkpoints, and their
adapters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from safetensors.torch import save

from assay.core.config.training import LoraSettings
from assay.core.errors import ConfigError, PolicyError, RecordError
from assay.core.storage.json import digest
from assay.rollout.policy.base.adapter_files import CONFIG, WEIGHTS, checked_tensors
from assay.training.adapter import Tensors
from assay.training.checkpoints.store import Checkpoint, read_checkpoint

ADAPTER = "adapter.safetensors"  # as assay.training.trainer names it, which imports TRL


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Which training a run folder is of: every setting, dependency and package that decided it, by name."""

    digest: str
    parts: Mapping[str, str]

    def setting(self, name: str) -> Any:
        """Return one parameter by its dotted name, or a section of them.

        Raises:
            RecordError: The run does not say.
        """
        told = self.parts.get(f"params.{name}")
        if told is not None:
            return json.loads(told)
        start = f"params.{name}."
        found = {
            key.removeprefix(start): json.loads(value)
            for key, value in self.parts.items()
            if key.startswith(start)
        }
        if not found:
            fix = "train again with the present version"
            raise RecordError(f"the setting {name}", found="none", where="key.json of the run", fix=fix)
        return found

    def lora(self) -> LoraSettings:
        """Return the shape of the adapters.

        Raises:
            RecordError: The run does not say, or says something else.
        """
        try:
            return LoraSettings.model_validate(self.setting("train.lora"))
        except ValidationError as error:
            found = str(error.errors()[0]["msg"])
            raise RecordError(
                "train.lora", found=found, where="key.json of the run", fix="take another run"
            ) from None


def run_facts(told: Any, where: str) -> RunFacts:
    """Return what key.json says.

    Raises:
        RecordError: It is not what was written: the digest is of other parts.
    """
    parts = told.get("parts") if isinstance(told, dict) else None
    whole = isinstance(parts, dict) and all(isinstance(value, str) for value in parts.values())
    if not isinstance(parts, dict) or not whole or digest(parts) != told.get("digest"):
        found = "another file, or a changed one"
        raise RecordError(
            "the key of a run as it was written", found=found, where=where, fix="take another run folder"
        )
    return RunFacts(told["digest"], parts)


def checkpoint_of(folder: Path, run: str) -> Checkpoint:
    """Return a checkpoint of a run, every byte compared with what was written.

    Raises:
        RecordError: It is damaged, or of another run.
    """
    checkpoint, _ = read_checkpoint(folder)
    if checkpoint.run != run:
        found = f"a checkpoint of another run ({checkpoint.run[:12]})"
        raise RecordError(
            "a whole checkpoint of this run", found=found, where=str(folder), fix="use another checkpoint"
        )
    return checkpoint


def adapter_files(checkpoint: Checkpoint, config: Mapping[str, Any], pattern: Tensors) -> dict[str, bytes]:
    """Return the adapter of a checkpoint as the files that training publishes of the checkpoint it chooses,
    byte for byte.

    Args:
        checkpoint: One that verified.
        config: Of the adapter, as `training.adapter.adapter_config` gives it.
        pattern: Tensors that such an adapter has on this base; their values do not matter.

    Raises:
        PolicyError: The weights are of another base, or not finite.
        RecordError: The checkpoint has changed since it was verified.
    """
    where = str(checkpoint.folder)
    found = checked_tensors(checkpoint.read(ADAPTER), f"{where}/{ADAPTER}")
    tensors = {name.replace(".default.", "."): tensor for name, tensor in found.items()}
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    expected = {name: tuple(tensor.shape) for name, tensor in pattern.items()}
    odd = sorted({*shapes.items()} ^ {*expected.items()})
    if odd:
        name = odd[0][0]
        told = f"{shapes.get(name, 'nothing')} for {expected.get(name, 'nothing')} in {name}"
        fix = "sweep it in the project with the base it was trained on"
        raise PolicyError("an adapter of this base", found=told, where=where, fix=fix)
    text = json.dumps(dict(config), indent=2, sort_keys=True) + "\n"
    ordered = {name: tensors[name] for name in pattern}
    return {CONFIG: text.encode(), WEIGHTS: save(ordered, metadata={"format": "pt"})}


def total_steps(facts: RunFacts) -> int:
    """Return how many steps the run was to make.

    Raises:
        ConfigError: That is no number.
    """
    steps = facts.setting("train.steps")
    if not isinstance(steps, int) or steps < 1:
        raise ConfigError(
            "train.steps", found=repr(steps), where="key.json of the run", fix="take another run folder"
        )
    return steps
