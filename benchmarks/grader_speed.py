"""Completions a second that the structured task grades on one core; writes results/grader_speed.json.

Each completion is an object of about 300 bytes, nested, with strings, numbers and a list; some are wrong,
some wrapped in prose. The kinds are graded in alternation, so that a busy machine slows all alike. Usage:
PYTHONPATH=src python benchmarks/grader_speed.py
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from importlib.metadata import version
from pathlib import Path

from assay.core.config.composition import Selection, compose
from assay.core.config.reading import parse_params
from assay.core.seeds import rng
from assay.tasks.catalogue import build
from assay.tasks.protocol import Task
from assay.tasks.structured.reading.records import StructuredState

N_COMPLETIONS, REPEATS = 2000, 9
RESULT = Path(__file__).parent / "results" / "grader_speed.json"
ROOT = Path(__file__).resolve().parent.parent
SETTINGS = parse_params(compose(ROOT, Selection("tiny", "structured", 0)).values)
BLOCKLIST = ("first bad word", "second bad word")
LINE = {
    "type": "object",
    "properties": {
        "sku": {"type": "string"},
        "count": {"type": "integer", "minimum": 1},
        "price": {"type": "number"},
    },
    "required": ["sku", "count", "price"],
    "additionalProperties": False,
}
SCHEMA = {
    "type": "object",
    "properties": {
        "customer": {"type": "string"},
        "city": {"type": "string"},
        "paid": {"type": "boolean"},
        "status": {"enum": ["open", "sent", "done"]},
        "note": {"type": ["string", "null"]},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}, "maxItems": 10},
    },
    "required": ["customer", "city", "paid", "lines"],
    "additionalProperties": False,
    "$defs": {"line": LINE},
}


def gold(number: int) -> dict[str, object]:
    """Return one gold, of about 300 bytes as text."""
    chance = rng("grader", number)
    lines = [
        {"sku": f"A-{int(chance.integers(10_000)):04d}", "count": k + 1, "price": 9.5 * k} for k in range(4)
    ]
    return {
        "customer": f"Customer number {number}",
        "city": "Saint-Rémy-de-Provence",
        "paid": bool(number % 2),
        "status": "sent",
        "note": "Leave it with the neighbours at the green door",
        "lines": lines,
    }


def completions(number: int) -> dict[str, str]:
    """Return completions by kind."""
    right = gold(number)
    wrong = right | {"city": "Arles", "paid": None}
    text = json.dumps(right, ensure_ascii=False)
    return {
        "right": text,
        "wrong": json.dumps(wrong, ensure_ascii=False),
        "in_prose": f"Here it is:\n```json\n{text}\n```",
    }


def seconds(task: Task, plays: list[tuple[StructuredState, str]]) -> float:
    """Return the seconds that Task.step and judge need for all."""
    begun = time.perf_counter()
    for state, text in plays:
        task.judge(task.step(state, text).state)
    return time.perf_counter() - begun


def main() -> None:
    """Measure and write the result."""
    task = build(SETTINGS.task, SETTINGS.generation, shaping=False, blocklist=BLOCKLIST)
    plays: dict[str, list[tuple[StructuredState, str]]] = {}
    for number in range(N_COMPLETIONS):
        row = {"prompt": f"Order {number}", "schema": SCHEMA, "gold": gold(number)}
        state = task.start(task.item(row), 0)[1]
        for kind, text in completions(number).items():
            plays.setdefault(kind, []).append((state, text))
    speeds: dict[str, list[float]] = {kind: [] for kind in plays}
    for batch in plays.values():
        seconds(task, batch[:100])
    for _ in range(REPEATS):
        for kind, batch in plays.items():
            speeds[kind].append(N_COMPLETIONS / seconds(task, batch))
    result = {
        "completions_per_second": {
            kind: {"median": round(statistics.median(all_)), "all": [round(x) for x in all_]}
            for kind, all_ in speeds.items()
        },
        "mean_bytes": round(statistics.mean(len(text.encode()) for _, text in plays["right"])),
        "repeats": REPEATS,
        "cores_used": 1,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "jsonschema": version("jsonschema"),
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
