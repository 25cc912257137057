"""Results as other tools write them, made up for tests: two arms of the same items in every form that is
read."""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from assay.core.seeds import rng

Result = dict[str, Any]  # item, draw, score, prompt, target, completion


def results(arm: str, rate: float, *, items: int = 60, draws: int = 2) -> list[Result]:
    """Return an arm with about this rate of success."""
    found = []
    for item in range(items):
        luck = rng("judged", arm, item)
        for draw in range(draws):
            won = bool(luck.random() < rate)
            found.append(
                {
                    "item": f"q{item:03d}",
                    "draw": draw,
                    "score": float(won),
                    "prompt": f"What is {item}?",
                    "target": str(item),
                    "completion": f"{arm} says {item if won else 'no'}, {draw}",
                }
            )
    return found


def as_csv(path: Path, rows: Sequence[Result]) -> Path:
    """Write a CSV with the columns of the first row."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def as_jsonl(path: Path, rows: Sequence[Result]) -> Path:
    """Write an object a line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def as_parquet(path: Path, rows: Sequence[Result]) -> Path:
    """Write a table of Arrow."""
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    return path


def _log(
    rows: Sequence[Result], metadata: Callable[[Result], object] | None = None, **head: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    samples = [
        {
            "id": row["item"],
            "epoch": row["draw"] + 1,
            "input": row["prompt"],
            "target": row["target"],
            "messages": [{"role": "user", "content": row["prompt"]}],
            "output": {"choices": [{"message": {"content": row["completion"]}, "stop_reason": "stop"}]},
            **({"metadata": metadata(row)} if metadata else {}),
            "scores": {"match": {"value": "C" if row["score"] else "I"}},
        }
        for row in rows
    ]
    about = {"task": "sums", "model": "a/model", "scorers": [{"name": "match"}]}
    return {"version": 2, "status": "success", "eval": about, **head}, samples


def as_inspect_json(path: Path, rows: Sequence[Result], **head: Any) -> Path:
    """Write a log of inspect, all in one."""
    top, samples = _log(rows, **head)
    path.write_text(json.dumps({**top, "samples": samples}), encoding="utf-8")
    return path


def as_inspect_eval(path: Path, rows: Sequence[Result], **head: Any) -> Path:
    """Write a log of inspect, a zip with a file for each sample."""
    top, samples = _log(rows, **head)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as log:
        for sample in samples:
            log.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
        log.writestr("header.json", json.dumps(top))
    return path


def as_verifiers(path: Path, rows: Sequence[Result]) -> Path:
    """Write results.jsonl of vf-eval: an example stands there once for each rollout."""
    named = {"example_id": "item", "prompt": "prompt", "completion": "completion", "answer": "target"}
    told = [
        {**{name: row[key] for name, key in named.items()}, "reward": row["score"], "task": "default"}
        for row in rows
    ]
    return as_jsonl(path, told)


TRACE = json.loads((Path(__file__).parent / "trace_of_verifiers.json").read_text(encoding="utf-8"))


def as_traces(path: Path, rows: Sequence[Result]) -> Path:
    """Write traces.jsonl of vf-eval 0.4: the pattern is a trace that it wrote."""
    told = []
    for row in rows:
        data = TRACE["task"]["data"] | {"prompt": row["prompt"], "answer": row["target"]}
        user, said = TRACE["nodes"]
        user = user | {"message": user["message"] | {"content": row["prompt"]}}
        said = said | {"message": said["message"] | {"content": row["completion"]}}
        trace = TRACE | {"nodes": [user, said], "rewards": {"exact": {"score": row["score"], "weight": 1.0}}}
        task = TRACE["task"] | {"key": row["item"], "data": data}
        told.append({"env": {"id": "sums"}, "task": task, "ok": True, "traces": [trace | {"ok": True}]})
    return as_jsonl(path, told)


FORMS: dict[str, tuple[str, Callable[[Path, Sequence[Result]], Path]]] = {
    "csv": ("csv", as_csv),
    "jsonl": ("jsonl", as_jsonl),
    "parquet": ("parquet", as_parquet),
    "inspect json": ("json", as_inspect_json),
    "inspect eval": ("eval", as_inspect_eval),
    "verifiers": ("jsonl", as_verifiers),
    "traces of verifiers": ("jsonl", as_traces),
}
