"""What a copy of the project shows once its stages have run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.evaluation.report import Report
from assay.evidence.claim import Claim
from assay.evidence.seed_records import BaseBuilt, SeedRun, finished
from assay.records import TrainFacts
from assay.stages.project import RESULTS
from assay.storage.files import read_text
from assay.storage.json import loads, read_record

FIX = "call assay seeds again; if it stays so, remove the folder first"


def finished_run(copy: Path, name: str) -> SeedRun:
    """Return what a finished run showed; one that is NOT EVALUABLE has its reason and may lack numbers.

    Raises:
        RecordError: A file is missing or damaged.
    """
    results = copy / RESULTS
    claim = read_record(results / "claim.json", Claim, fix=FIX)
    trained = read_record(results / "train.json", TrainFacts, fix=FIX)
    arms = [read_record(results / f"{arm}_eval_greedy.json", Report, fix=FIX) for arm in ("pre", "post")]
    greedy = [arm.measures["success_rate"].value for arm in arms]
    return finished(name, claim, trained, (greedy[0], greedy[1]), _json(results / "metrics.json"))


def base_built(copy: Path, seed: int, why: str | None) -> BaseBuilt:
    """Return what the gates said of a base, or why it was refused."""
    if why is not None:
        return BaseBuilt(base_seed=seed, passed=False, reason=why, copy_accuracy=None, parsed_rate=None, success_rate=None)
    facts = _json(copy / RESULTS / "base.json")
    numbers: dict[str, Any] = {name: facts.get(name) for name in ("copy_accuracy", "parsed_rate", "success_rate")}
    return BaseBuilt(base_seed=seed, passed=True, reason="", **numbers)


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = loads(read_text(path, fix=FIX), where=str(path), fix=FIX)
    return found
