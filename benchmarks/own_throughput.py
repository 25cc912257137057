"""What a call to a task's own code costs, and how long a batch that waits takes; writes
results/own_throughput.json.

Seconds of a turn: 64 conversations whose steps sleep for 20 ms, one after the other and side by side, in this
process, in a worker and on a server on loopback. Microseconds of a step: of a whole batch and of one alone,
through the task as rollouts see it, for a reward function and an environment that do next to nothing.
Usage: PYTHONPATH=src python benchmarks/own_throughput.py
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.core.errors import EnvironmentFailure
from assay.tasks.own.isolation.server import ADDRESS
from assay.tasks.own.task import OwnTask, own_task
from assay.tasks.settings.own import OwnTask as Settings

RESULT = Path(__file__).parent / "results" / "own_throughput.json"
N, REPEATS, SLEEP_MS = 64, 20, 20
CODE = f"""
import time
from assay.tasks.own.api import Environment, Told

def reward(completions, answer, **kwargs):
    return [1.0 if c.strip() == a else 0.1 * (len(c.strip()) == len(a)) for c, a in zip(completions, answer)]

def sleeping(completions, **kwargs):
    time.sleep({SLEEP_MS / 1000})
    return [1.0]

class Count(Environment):
    def reset(self, row, seed):
        self.said = 0
        return "said 0"

    def step(self, completion):
        self.said += 1
        return Told(f"said {{self.said}}", 0.1)
"""


def task(root: Path, entry: str, **changes: Any) -> OwnTask:
    """Return a task of the code above."""
    given: dict[str, Any] = {
        "name": "own",
        "code": "mine",
        "entry": f"task.py:{entry}",
        "success": {"compare": "reward", "at_least": 1.0},
        "max_new_tokens": {"compact": 8, "json": 8},
    }
    return own_task(Settings.model_validate(given | changes), str(root))


def states(of: OwnTask) -> list[Any]:
    """Return a state of each conversation, opened."""
    items = [of.item({"prompt": f"word {n}", "answer": f"w{n}"}) for n in range(N)]
    return [each[1] for each in of.starts(items, [0] * N) if not isinstance(each, EnvironmentFailure)]


def seconds(call: Callable[[], object], n: int = REPEATS) -> list[float]:
    """Return the seconds of calls, after one that warms up."""
    call()
    found = []
    for _ in range(n):
        since = time.perf_counter()
        call()
        found.append(time.perf_counter() - since)
    return found


def turn(of: OwnTask, opened: list[Any]) -> None:
    """Step all conversations once; none may be lost."""
    assert not any(isinstance(each, EnvironmentFailure) for each in of.steps(opened, ["a1"] * N))


def per_step(of: OwnTask, turns: int) -> tuple[list[float], list[float]]:
    """Return microseconds a step, in batches and alone, over so many turns of an episode."""
    opened = states(of)

    def batch() -> None:
        now = opened
        for _ in range(turns):
            found = of.steps(now, ["a1"] * N)
            now = [each.state for each in found if not isinstance(each, EnvironmentFailure)]

    def alone() -> None:
        now = opened[0]
        for _ in range(turns):
            now = of.step(now, "a1").state

    return (
        [1e6 * each / turns / N for each in seconds(batch, 50)],
        [1e6 * each / turns for each in seconds(alone, 200)],
    )


def shown(found: list[float], digits: int) -> dict[str, Any]:
    """Return the median and the extremes."""
    numbers = (statistics.median(found), min(found), max(found))
    names = ("median", "least", "most")
    return {name: round(value, digits) for name, value in zip(names, numbers, strict=True)} | {
        "n": len(found)
    }


def served(root: Path) -> subprocess.Popen[str]:
    """Start a server of the sleeping reward and say where it is."""
    settings = task(root, "sleeping").settings.model_dump(mode="json")
    (root / "settings.json").write_text(json.dumps({"task": settings}))
    command = [sys.executable, "-m", "assay.tasks.own.isolation.serve", "--root", str(root), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--settings", str(root / "settings.json")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    os.environ[ADDRESS] = process.stdout.readline().strip()
    return process


def measured(root: Path) -> dict[str, Any]:
    """Return all figures."""
    (root / "mine").mkdir()
    (root / "mine/task.py").write_text(CODE)
    waits: dict[str, Any] = {}
    one, steps = task(root, "sleeping"), {}
    opened = states(one)
    waits["one_after_the_other"] = shown(seconds(lambda: [one.step(each, "a1") for each in opened], 3), 3)
    server = served(root)
    try:
        for isolation in ("inline", "worker", "server"):
            of = task(root, "sleeping", isolation=isolation)
            opened = states(of)
            waits[isolation] = shown(seconds(lambda of=of, opened=opened: turn(of, opened)), 3)
            of.runner.close() if of.runner is not None else None
    finally:
        server.kill()
        server.wait()
    for entry, changes, turns in (("reward", {}, 1), ("Count", {"max_turns": 9}, 8)):
        batch, alone = per_step(task(root, entry, **changes), turns)
        steps[entry] = {"batch": shown(batch, 1), "alone": shown(alone, 1)}
    in_worker = task(root, "reward", isolation="worker")
    batch, alone = per_step(in_worker, 1)
    in_worker.runner.close() if in_worker.runner is not None else None
    return {
        "seconds_a_turn": waits,
        "microseconds_a_step_inline": steps,
        "milliseconds_a_step_worker": {
            "batch": shown([each / 1000 for each in batch], 3),
            "alone": shown([each / 1000 for each in alone], 3),
        },
    }


def main() -> None:
    """Measure, print and write the result."""
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder))
    result = found | {
        "conversations": N,
        "sleep_ms": SLEEP_MS,
        "cores": os.cpu_count(),
        "load_before_and_while": [round(each, 2) for each in os.getloadavg()[:2]],
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    text = json.dumps(result, indent=2, sort_keys=True) + "\n"
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
