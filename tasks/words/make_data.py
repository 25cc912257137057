"""Write the records of the task `words` and their SHA256SUMS: `python tasks/words/make_data.py`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parents[2] / "data/words"
SIZES = {"train": 2048, "validation": 256, "heldout": 512}
N_WORDS, SHOWN = 320, 4


def made_up(rng: np.random.Generator) -> list[str]:
    """Return made-up words, sorted."""
    found: set[str] = set()
    while len(found) < N_WORDS:
        first, second, last = (
            str(rng.choice(list(letters))) for letters in ("bdfgklmnprstvz", "aeiou", "klmnprst")
        )
        found.add(first + second + last + str(rng.choice(["", "a", "e", "o"])))
    return sorted(found)


def main() -> None:
    """Write all files."""
    rng = np.random.default_rng(22)
    words, asked = made_up(rng), set()
    for split, size in SIZES.items():
        lines: list[str] = []
        while len(lines) < size:
            chosen = [words[place] for place in rng.permutation(N_WORDS)[:SHOWN]]
            right = int(rng.integers(SHOWN))
            if frozenset(chosen) in asked:
                continue
            asked.add(frozenset(chosen))
            shown = " ".join(f"*{word}" if place == right else word for place, word in enumerate(chosen))
            row = {"answer": chosen[right], "id": f"{split}-{len(lines) + 1:04}", "prompt": f"pick: {shown}"}
            lines.append(json.dumps(row, separators=(",", ":")) + "\n")
        (FOLDER / f"{split}.jsonl").write_bytes("".join(lines).encode())
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(FOLDER.glob("*.jsonl"))
    ]
    (FOLDER / "SHA256SUMS").write_bytes("".join(sums).encode())


if __name__ == "__main__":
    main()
