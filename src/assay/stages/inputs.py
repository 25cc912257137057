"""What stages read before they compute: the task, verified items, and the suites made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.dataset.fingerprint import Fingerprint
from assay.errors import DataError
from assay.evaluation.suite import Suite, choose
from assay.policy.decoding import Decoding
from assay.records import Split
from assay.stages.project import Project
from assay.storage.files import read_bytes, sha256_bytes
from assay.storage.json import loads, read_record
from assay.tasks.catalogue import build
from assay.tasks.protocol import Item, Task


def task_of(project: Project, *, shaping: bool = False) -> Task:
    """Return the chosen task; shaping rewards are a matter of training alone."""
    return build(project.params.task, project.params.generation, shaping=shaping)


def decoding_of(project: Project, *, greedy: bool = False) -> Decoding:
    """Return how tokens are chosen."""
    generation = project.params.generation
    return Decoding(0.0 if greedy else generation.temperature, generation.max_new_tokens)


def fingerprint_of(project: Project) -> Fingerprint:
    """Return the fingerprint that the first stage wrote."""
    return read_record(project.results("fingerprint.json"), Fingerprint, fix="./run dvc repro fingerprint")


def items_of(project: Project, split: Split) -> list[Item]:
    """Return the items of a split, from exactly the bytes that were fingerprinted.

    Raises:
        DataError: The file changed since.
    """
    path = project.data(f"{split}.jsonl")
    fix = "./run dvc repro fingerprint   (or restore the file: git checkout -- " + str(project.params.dataset.root) + ")"
    content = read_bytes(path, fix=fix)
    expected = fingerprint_of(project).splits[split].file_sha256
    found = sha256_bytes(content)
    if found != expected:
        where = f"{project.params.dataset.root}/{split}.jsonl"
        raise DataError(f"the fingerprinted bytes ({expected[:16]}…)", found=f"{found[:16]}…", where=where, fix=fix)
    task = task_of(project)
    return [task.item(row) for row in rows(content, path, fix)]


def heldout_suite(project: Project, *, draws: int | None = None) -> Suite:
    """Return the held-out suite."""
    chosen = project.params.evaluation
    items = items_of(project, "heldout")
    return choose(items, chosen.items, split="heldout", draws=draws or chosen.draws, seed=chosen.seed)


def validation_suite(project: Project) -> Suite:
    """Return the validation suite."""
    chosen = project.params.validation
    items = items_of(project, "validation")
    return choose(items, chosen.items, split="validation", draws=chosen.draws, seed=chosen.seed)


def rows(content: bytes, path: Path, fix: str) -> list[dict[str, Any]]:
    """Return the rows of a JSONL file's bytes, strictly.

    Raises:
        DataError: A line is not a JSON object.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError("UTF-8 text", found=error.reason, where=f"{path.name}, byte {error.start}", fix=fix) from None
    parsed = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            value = loads(line, where=f"{path.name}, line {number}", fix=fix)
            if not isinstance(value, dict):
                kind = type(value).__name__
                raise DataError("a JSON object", found=kind, where=f"{path.name}, line {number}", fix=fix)
            parsed.append(value)
    return parsed
