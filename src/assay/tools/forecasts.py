"""What was forecast of the presets as they are shipped: by a benchmark, and kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.core.storage.json import loads
from assay.core.storage.untrusted import read_capped

FORECASTS = "benchmarks/results/presets.json"
MAX_BYTES = 10_000_000


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
