"""Write the records of the task `lode`: `python tasks/lode/make_data.py`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
from task import PLOTS, drawn, record

FOLDER = Path(__file__).resolve().parents[2] / "data/lode"
SIZES = {"train": 512, "validation": 128, "heldout": 256, "wide": 128}
WIDE = (11, 13)  # the fields of the secondary suite are wider than any of train


def main() -> None:
    """Write all files."""
    rng, known = np.random.default_rng(46), set()
    for split, size in SIZES.items():
        lines: list[str] = []
        while len(lines) < size:
            field = drawn(rng, *(WIDE if split == "wide" else PLOTS))
            if field in known:
                continue
            known.add(field)
            row = {"id": f"{split}-{len(lines) + 1:04}", **record(rng, *field)}
            lines.append(json.dumps(row, separators=(",", ":")) + "\n")
        (FOLDER / f"{split}.jsonl").write_bytes("".join(lines).encode())
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(FOLDER.glob("*.jsonl"))
    ]
    (FOLDER / "SHA256SUMS").write_bytes("".join(sums).encode())


if __name__ == "__main__":
    main()
