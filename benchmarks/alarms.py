"""How many ill trainings ring, and how many sound ones do: the shapes of tests/training/alarm_shapes.py, some
seeds of each.

Nothing is trained: a policy is a distribution over answers that changes with the share of the training that
is done. Draws, grades, signals and alarms are made by the code that makes them in earnest, under the settings
of the preset tiny.

Usage: ./run bench alarms (some minutes on one core). Writes results/alarms.json.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.training.shaped_trainings import Training, ill, sound, worst

SEEDS = 2
RESULT = Path(__file__).parent / "results/alarms.json"


def level(found: dict[str, str]) -> str:
    """Return the worst level of all rules."""
    return "GREEN" if not found else "AMBER" if set(found.values()) == {"AMBER"} else "RED"


def main() -> None:
    """Play all shapes and write what rang."""
    result: dict[str, Any] = {"seeds": SEEDS}
    for name, shapes in (("sound", sound()), ("ill", ill())):
        rang = {shape.name: [worst(Training(shape, seed).run()) for seed in range(SEEDS)] for shape in shapes}
        counts = Counter(level(found) for each in rang.values() for found in each)
        result[name] = {
            "trainings": counts.total(),
            **{each: counts[each] for each in ("GREEN", "AMBER", "RED")},
            "rang": rang,
        }
        print(f"{name}: {counts.total()} trainings, {dict(counts)}")
    RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
