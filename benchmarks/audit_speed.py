"""Seconds to audit 10,000 records with prompts of 3 KB on one core; writes results/audit_speed.json.

The records are of three families with schemas in files, one of them with a $ref, and golds that their prompts
state. Usage: PYTHONPATH=src python benchmarks/audit_speed.py
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from assay.audit.audit import Audited, audit
from assay.core.config.settings import Params
from assay.core.storage.files import write_text
from assay.core.storage.json import write_json, write_jsonl
from assay.dataset.schema_files import SchemaFiles
from assay.dataset.source import load
from assay.pipeline.inputs import task_with
from assay.tools.own_data.audit import project_for

N_RECORDS, PROMPT_CHARS, REPEATS, LIMIT_SECONDS = 10_000, 3000, 5, 10.0
ROOT = Path(__file__).resolve().parent.parent
RESULT = Path(__file__).parent / "results" / "audit_speed.json"
FILLER = (
    "The shop keeps long records of what was said on the telephone, and most of it does not matter here. "
)


def write_tasks(folder: Path) -> Path:
    """Write the records and their schema files; return the tasks file."""
    text, whole = {"type": "string"}, {"type": "integer", "minimum": 0}
    line = {"type": "object", "properties": {"item": text, "count": whole}, "required": ["item", "count"]}
    write_json(folder / "schemas/order/line.json", line)
    for name, properties in {
        "order/order": {"customer": text, "lines": {"type": "array", "items": {"$ref": "line.json"}}},
        "person/person": {"name": text, "age": whole, "city": {"enum": ["Bern", "Graz", "Lund"]}},
        "event/event": {"title": text, "year": whole, "open": {"type": "boolean"}},
    }.items():
        schema = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
        write_json(folder / f"schemas/{name}.json", schema)

    def row(number: int) -> dict[str, object]:
        who, age = f"Customer {number}", number % 90
        gold, name = (
            (
                {"customer": who, "lines": [{"item": "lamp", "count": age}, {"item": "desk", "count": 2}]},
                "order/order",
            ),
            ({"name": who, "age": age, "city": "Graz"}, "person/person"),
            ({"title": who, "year": 1900 + age, "open": True}, "event/event"),
        )[number % 3]
        told = f"Record {number}: {json.dumps(gold)}. "
        prompt = (told + FILLER * (PROMPT_CHARS // len(FILLER) + 1))[:PROMPT_CHARS]
        return {
            "id": f"r{number}",
            "prompt": prompt,
            "schema_path": f"schemas/{name}.json",
            "gold": gold,
            "task_type": name,
        }

    write_jsonl(folder / "tasks.jsonl", (row(number) for number in range(N_RECORDS)))
    return folder / "tasks.jsonl"


def audited(tasks: Path, params: Params) -> Audited:
    """Return the audit of the tasks file, read from disk."""
    project = project_for(ROOT, "structured")
    task = task_with(project, None)
    source = load(tasks, SchemaFiles(tasks.parent, ROOT), where=tasks.name, fix="")
    return audit(task, {"tasks": source}, params.dataset.audit)


def main() -> None:
    """Measure and write the result."""
    params = project_for(ROOT, "structured").params
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        tasks = write_tasks(Path(folder))
        size = tasks.stat().st_size
        for _ in range(REPEATS):
            begun = time.perf_counter()
            found = audited(tasks, params)
            seconds.append(time.perf_counter() - begun)
    result = {
        "records": N_RECORDS,
        "kept": found.report.kept["tasks"],
        "prompt_chars": PROMPT_CHARS,
        "megabytes": round(size / 1e6, 1),
        "seconds": {"median": round(statistics.median(seconds), 2), "all": [round(x, 2) for x in seconds]},
        "limit_seconds": LIMIT_SECONDS,
        "peak_memory_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "cores_used": 1,
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    write_text(RESULT, json.dumps(result, indent=2, sort_keys=True) + "\n")
    print(json.dumps(result, indent=2, sort_keys=True))


if __name__ == "__main__":
    main()
