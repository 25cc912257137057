"""Episodes a second of the collider's adaptive player, batched and one at a time; writes
results/collider_speed.json.

Both ways play the same scenarios in alternation, so that a busy machine slows both alike.
Usage: PYTHONPATH=src python benchmarks/collider_speed.py
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from assay.core.seeds import derive_seed, rng
from assay.tasks.collider import Collider, ColliderSettings, generate
from assay.tasks.collider.world.batch import play_adaptive
from assay.tasks.protocol import Item

N_BATCHED, BATCH, N_SINGLE, REPEATS = 8000, 500, 400, 7
RESULT = Path(__file__).parent / "results" / "collider_speed.json"


def batched_seconds(items: list[Item], seeds: list[int]) -> float:
    """Return the seconds that the array core needs for all items."""
    scenarios = [item.hidden for item in items]
    begun = time.perf_counter()
    for first in range(0, len(items), BATCH):
        play_adaptive(scenarios[first : first + BATCH], seeds[first : first + BATCH], 8)
    return time.perf_counter() - begun


def single_seconds(task: Collider, items: list[Item], seeds: list[int]) -> tuple[float, int]:
    """Return the seconds that Task.start, step and judge need for all items, and the turns played."""
    player, chance, turns = task.baselines()["adaptive"], rng("benchmark"), 0
    begun = time.perf_counter()
    for item, seed in zip(items, seeds, strict=True):
        _, state = task.start(item, seed)
        while state.ending is None:
            state = task.step(state, player(item, state, chance)).state
            turns += 1
        task.judge(state)
    return time.perf_counter() - begun, turns


def spread(values: list[float]) -> dict[str, object]:
    """Return the median of some values, and all of them."""
    return {"median": round(statistics.median(values)), "all": [round(value) for value in values]}


def main() -> None:
    """Measure and write the result."""
    task = Collider(ColliderSettings(surface="compact", max_turns=8, shaping=0.0, gamma=1.0))
    items = [task.item(row) for row in generate("train", N_BATCHED, max_turns=8, labels=("benchmark",))]
    seeds = [derive_seed("benchmark", item.id) for item in items]
    batched_seconds(items[:BATCH], seeds[:BATCH]), single_seconds(task, items[:20], seeds[:20])
    batched, single, turns = [], [], []
    for _ in range(REPEATS):
        batched.append(N_BATCHED / batched_seconds(items, seeds))
        seconds, played = single_seconds(task, items[:N_SINGLE], seeds[:N_SINGLE])
        single.append(N_SINGLE / seconds)
        turns.append(played / seconds)
    result = {
        "player": "adaptive",
        "repeats": REPEATS,
        "batch": BATCH,
        "batched_episodes_per_second": spread(batched),
        "single_episodes_per_second": spread(single),
        "single_turns_per_second": {"median": round(statistics.median(turns))},
        "cores_used": 1,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
