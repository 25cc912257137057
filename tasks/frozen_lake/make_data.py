"""Write the records of the task `frozen_lake`: `python tasks/frozen_lake/make_data.py`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
from task import distances

FOLDER = Path(__file__).resolve().parents[2] / "data/frozen_lake"
SIZES = {"train": 2048, "validation": 256, "heldout": 512}
SIZE, HOLES, NEAREST, FARTHEST = 5, 6, 2, 4


def lake(rng: np.random.Generator) -> tuple[list[str], int]:
    """Return a lake and how many steps its goal is from its start; 0 where there is no way."""
    letters = np.full(SIZE * SIZE, "F")
    places = rng.permutation(SIZE * SIZE)
    letters[places[:HOLES]] = "H"
    letters[places[HOLES]], letters[places[HOLES + 1]] = "S", "G"
    found = ["".join(letters[start : start + SIZE]) for start in range(0, SIZE * SIZE, SIZE)]
    start = divmod(int(places[HOLES]), SIZE)
    return found, distances(found).get(start, 0)


def main() -> None:
    """Write all files."""
    rng, known = np.random.default_rng(5), set()
    for split, size in SIZES.items():
        lines: list[str] = []
        while len(lines) < size:
            found, steps = lake(rng)
            if not NEAREST <= steps <= FARTHEST or tuple(found) in known:
                continue
            known.add(tuple(found))
            row = {
                "id": f"{split}-{len(lines) + 1:04}",
                "kwargs": {"desc": found},
                "lake": " ".join(found),
                "steps": str(steps),
            }
            lines.append(json.dumps(row, separators=(",", ":")) + "\n")
        (FOLDER / f"{split}.jsonl").write_bytes("".join(lines).encode())
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(FOLDER.glob("*.jsonl"))
    ]
    (FOLDER / "SHA256SUMS").write_bytes("".join(sums).encode())


if __name__ == "__main__":
    main()
