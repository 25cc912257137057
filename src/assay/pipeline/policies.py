"""Which policy a stage plays with: the pinned base, alone or under the adapter."""

from __future__ import annotations

from pathlib import Path

from assay.pipeline.project import Project
from assay.policy.base.pretrained import locate
from assay.policy.determinism import pin
from assay.policy.model import Policy, load, require_device

ADAPTER = "models/adapter"


def open_policy(project: Project, adapter: Path | None) -> Policy:
    """Load the base policy, under a trained adapter if one is given, on the configured device.

    Raises:
        ConfigError: The device is not there.
        PolicyError: Model or adapter cannot be read, or the base changed since it was pinned.
    """
    params, base = project.params, project.params.base
    require_device(params.device)
    pin(params.threads, deterministic=params.deterministic, device=params.device)
    return load(
        locate(project.root / "models/base"),
        adapter=adapter,
        device=params.device,
        dtype=base.dtype,
        quantization=base.quantization,
        template=base.template,
    )
