"""Who trained what, on what, and when: observed, and part of no digest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.core.evidence_files import place_of
from assay.core.provenance import environment, git_state, hardware, packages
from assay.core.storage.files import read_text
from assay.core.storage.json import loads
from assay.pipeline.inputs import Inputs
from assay.pipeline.resume import machine_of
from assay.pipeline.run_folder import RunFolder
from assay.rollout.policy.processes import Processes


def manifest_of(root: Path, inputs: Inputs, folder: RunFolder, processes: Processes) -> dict[str, Any]:
    """Return who trains what on what; begun when the run was, however often it was gone on with."""
    from assay.rollout.policy.products import chosen_products

    params, found, base = inputs.params, inputs.fingerprint, root / place_of("base.json")
    told: Any = loads(read_text(base, fix=""), where="base.json", fix="") if base.is_file() else {}
    return {
        "run": folder.key.digest,
        "started": folder.began(),
        "git": git_state(root),
        "packages": packages(),
        "hardware": hardware() | machine_of(params.device),
        "environment": environment(),
        "float32_products": chosen_products(),
        "rank": processes.rank,
        "world_size": processes.world_size,
        "dataset_sha256": found.dataset_sha256,
        "cached_dataset": found.cached,
        "params": params.model_dump(mode="json"),
        "base_origin": told.get("origin"),
        "base_sft": told.get("sft"),
    }
