"""What lies beside results and says under which conditions they came about: each tool's own file of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from assay.rollout.tables.lines import Row, json_file, parse_json
from assay.rollout.tasks.wrappings import EVERY
from assay.verdict.judge.conditions import (
    Conditions,
    of_episodes,
    of_lighteval,
    of_lm_eval,
    of_promptfoo,
    of_traces,
    of_verifiers,
    of_whole_file,
)
from assay.verdict.judge.sources import Form


def conditions_beside(path: Path, form: Form, first: Row, metric: str | None) -> Conditions:
    """Return what a first row and the files beside it say.

    Args:
        path: The file of the results.
        form: Its form.
        first: Its first row.
        metric: The score that was asked for, as `--metric` has it; None: the only one.

    Raises:
        DataError: A file beside is no JSON.
    """
    name, _, sieve = (metric or "").partition(",")
    if form == "lm-eval samples":
        task, _, stamp = path.stem.removeprefix("samples_").rpartition("_")
        found = _json(path.with_name(f"results_{stamp}.json"))
        first = {**first, "filter": sieve} if sieve else first
        return of_lm_eval(first, name or str(first["metrics"][0]), task or None, found)
    if form == "lighteval details":
        called = first["doc"].get("task_name")
        name = name or str(next(iter(first["metric"]), ""))
        return of_lighteval(name, called if isinstance(called, str) else None, _of_lighteval(path))
    if form == "verifiers results":
        return of_verifiers(_json(path.with_name("metadata.json")) or {})
    if form == "verifiers traces":
        return of_traces(_json(path.with_name("configs") / "resolved/eval.json") or {}, first)
    if form == "assay episodes":
        return _of_episodes(path)
    whole = json_file(path.read_bytes(), path) if path.suffix.lower() == ".json" else None
    told = of_whole_file(whole) if isinstance(whole, dict) else Conditions()
    return replace(told, measured={**told.measured, **of_promptfoo(first)})


def _of_episodes(path: Path) -> Conditions:
    """Return what report.json or grade.json says, and what was cut off before episodes were graded."""
    for beside in (path.with_name(name) for name in ("grade.json", "report.json")):
        found = _json(beside)
        written = None if found is None else found.get("written")
        cut = written.get("cut") if isinstance(written, Mapping) else None
        if found:
            told = ",".join(name for name in EVERY if isinstance(cut, list) and name in cut)
            return of_episodes(found, told)
    return of_episodes({}, "")


def _of_lighteval(path: Path) -> Mapping[str, Any] | None:
    """Return the results of the run that wrote details: details/MODEL/TIME/details_*.parquet has them in
    results/MODEL/results_TIME.json."""
    time = path.parent.name
    for above in path.parents:
        if above.name == "details":
            folder = above.with_name("results") / path.parent.parent.relative_to(above)
            return _json(folder / f"results_{time}.json")
    return None


def _json(path: Path) -> Mapping[str, Any] | None:
    found = parse_json(path.read_bytes(), str(path)) if path.is_file() else None
    return found if isinstance(found, dict) else None
