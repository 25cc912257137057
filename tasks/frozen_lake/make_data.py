"""Write the records of the task `frozen_lake`: `python tasks/frozen_lake/make_data.py`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
from task import generate

FOLDER = Path(__file__).resolve().parents[2] / "data/frozen_lake"
SIZES = {"train": 2048, "validation": 256, "heldout": 512}


def main() -> None:
    """Write all files."""
    rng, known = np.random.default_rng(5), set()
    for split, size in SIZES.items():
        lines: list[str] = []
        while len(lines) < size:
            row = generate(rng, 1)[0]
            if row["lake"] in known:
                continue
            known.add(row["lake"])
            row = {"id": f"{split}-{len(lines) + 1:04}", **row}
            lines.append(json.dumps(row, separators=(",", ":")) + "\n")
        (FOLDER / f"{split}.jsonl").write_bytes("".join(lines).encode())
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(FOLDER.glob("*.jsonl"))
    ]
    (FOLDER / "SHA256SUMS").write_bytes("".join(sums).encode())


if __name__ == "__main__":
    main()
