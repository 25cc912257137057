"""Write the records of the task `lode`: `python tasks/lode/make_data.py`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
from task import NOTES

FOLDER = Path(__file__).resolve().parents[2] / "data/lode"
SIZES = {"train": 512, "validation": 128, "heldout": 256, "wide": 128}
PLOTS, WIDE = (6, 10), (11, 13)  # the fields of the secondary suite are wider than any of train


def main() -> None:
    """Write all files."""
    rng, known = np.random.default_rng(46), set()
    for split, size in SIZES.items():
        lines: list[str] = []
        while len(lines) < size:
            plots = int(rng.integers(*(WIDE if split == "wide" else PLOTS)))
            field = plots, int(rng.integers(plots)), tuple(rng.integers(4, size=plots).tolist())
            if field in known:
                continue
            known.add(field)
            note = " ".join(NOTES[place] for place in rng.integers(len(NOTES), size=2).tolist())
            row = {"id": f"{split}-{len(lines) + 1:04}", "plots": plots, "lode": field[1]}
            row |= {"rubble": list(field[2]), "note": note}
            lines.append(json.dumps(row, separators=(",", ":")) + "\n")
        (FOLDER / f"{split}.jsonl").write_bytes("".join(lines).encode())
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(FOLDER.glob("*.jsonl"))
    ]
    (FOLDER / "SHA256SUMS").write_bytes("".join(sums).encode())


if __name__ == "__main__":
    main()
