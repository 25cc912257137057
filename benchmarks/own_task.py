"""The examples of own tasks on the tiny base, from settings to a verified package; writes
results/own_task.json.

Each runs in a copy of its own: `assay config use task=NAME`, `dvc repro`, `assay verify`. Seconds are of the
wall, so of a machine that may be shared.
Usage: ./run bench own_task   (the extras [gymnasium] and [reasoning-gym] for two of the three)
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks/results/own_task.json"
EXAMPLES = ("words", "frozen_lake", "rotate_matrix")
REPORT = "evidence/results/report"


def measured(name: str, folder: Path) -> dict[str, Any]:
    """Return seconds, verdict and health of one example."""
    subprocess.run(["git", "clone", "-q", "--local", str(ROOT), str(folder)], check=True)
    environment = os.environ | {
        "PYTHONPATH": f"src{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)
    }

    def call(*words: str) -> float:
        begun = time.monotonic()
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(
                f"{name}: {' '.join(words)} ended with {done.returncode}:\n"
                f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        print(f"{name}: {' '.join(words)}: {time.monotonic() - begun:.0f} s", flush=True)
        return time.monotonic() - begun

    call("assay", "config", "use", f"task={name}")
    repro, verify = call("dvc", "repro"), call("assay", "verify", "dist/assay-package.tar")
    claim = json.loads((folder / REPORT / "claim.json").read_text(encoding="utf-8"))
    facts = json.loads((folder / "evidence/results/train/train.json").read_text(encoding="utf-8"))
    said = (folder / REPORT / "summary.md").read_text(encoding="utf-8").split("\n")[0]
    return {
        "repro_seconds": round(repro, 1),
        "verify_seconds": round(verify, 1),
        "verdict": claim["verdict"],
        "sentence": said,
        "health": facts["health"]["worst"],
    }


def main() -> None:
    """Run every example and write what was found."""
    found: dict[str, Any] = {}
    for name in sys.argv[1:] or EXAMPLES:
        with tempfile.TemporaryDirectory(prefix="own-task-") as folder:
            found[name] = measured(name, Path(folder) / "copy")
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    record = {
        "command": "./run bench own_task",
        "commit": commit.stdout.strip(),
        "machine": machine,
        "examples": found,
    }
    RESULT.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {RESULT}")


if __name__ == "__main__":
    main()
