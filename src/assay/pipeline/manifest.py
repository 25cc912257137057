"""Who trained what, on what, and when: observed, and part of no digest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.core.provenance import environment, git_state, hardware, packages
from assay.pipeline.inputs import Inputs
from assay.pipeline.resume import machine_of
from assay.pipeline.run_folder import RunFolder
from assay.rollout.policy.processes import Processes


def manifest_of(root: Path, inputs: Inputs, folder: RunFolder, processes: Processes) -> dict[str, Any]:
    """Return who trains what on what; begun when the run was, however often it was gone on with."""
    params, found = inputs.params, inputs.fingerprint
    return {
        "run": folder.key.digest,
        "started": folder.began(),
        "git": git_state(root),
        "packages": packages(),
        "hardware": hardware() | machine_of(params.device),
        "environment": environment(),
        "rank": processes.rank,
        "world_size": processes.world_size,
        "dataset_sha256": found.dataset_sha256,
        "cached_dataset": found.cached,
        "params": params.model_dump(mode="json"),
    }
