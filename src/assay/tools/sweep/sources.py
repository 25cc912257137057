"""What `assay runs sweep` was pointed at: a run folder, a project, or a folder of adapters; and what can be
played of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.core.errors import AssayError, ConfigError, RecordError
from assay.core.records import TrainFacts
from assay.core.storage.files import read_bytes, real
from assay.core.storage.json import loads, read_record
from assay.pipeline.dvc_lock import md5_at
from assay.pipeline.policies import ADAPTER
from assay.pipeline.project import Project
from assay.pipeline.run_folder import DONE, KEY
from assay.policy.base.adapter_files import CONFIG
from assay.training.checkpoints.of_run import RunFacts, checkpoint_of, run_facts, total_steps
from assay.training.checkpoints.store import MANIFEST

_STEP = re.compile(r"step-(\d{6,})")
_NUMBER = re.compile(r"(?:.*\D)?0*(\d{1,9})")
FIX = "name a folder of .scratch/train/, a project, or a folder of adapter folders such as checkpoint-100/"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A checkpoint that is there and, as far as one can tell without loading it, whole."""

    step: int
    name: str
    folder: Path
    ours: bool  # a checkpoint of a training here, not a folder that peft wrote
    root: Path  # links may lead anywhere in here


@dataclass(slots=True)
class SweepSource:
    """Everything that was found, steps ascending, without step 0: that is the base itself.

    `facts` says which training of ours it is, `trained` what that published, where it did and can be seen.
    """

    name: str
    folder: Path
    candidates: list[Candidate] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: RunFacts | None = None
    trained: TrainFacts | None = None
    beginning: Path | None = None  # the checkpoint of step 0, which must be the base

    @property
    def steps(self) -> int | None:
        """How many steps the training was to make, None where nobody knows."""
        if self.facts is not None:
            return total_steps(self.facts)
        return None if self.trained is None else self.trained.steps


def open_source(root: Path, path: Path) -> tuple[Project, SweepSource]:
    """Return the project whose settings count, and what there is to sweep.

    Args:
        root: The project one stands in.
        path: What was named.

    Raises:
        AssayError: There is no checkpoint, or the folder is none of the three.
    """
    if not path.is_dir():
        found = "a file" if path.exists() else "nothing there"
        raise ConfigError("a folder with checkpoints", found=found, where=str(path), fix=FIX)
    if (path / "params.yaml").is_file():
        project = Project.open(path)
        return project, _of_project(project, path)
    project = Project.open(root)
    if (path / KEY).is_file() or any(_find_steps(path)):
        return project, _of_run(project, path)
    if (path / MANIFEST).is_file():
        found, fix = "one checkpoint of it", f"assay runs sweep {path.parent}"
        raise ConfigError("a run folder", found=found, where=str(path), fix=fix)
    return project, _of_adapters(path)


def _find_steps(folder: Path) -> Iterator[tuple[int, Path]]:
    for path in sorted(folder.iterdir()):
        found = _STEP.fullmatch(path.name)
        # peft folders of another trainer may have such a name as well
        if found is not None and path.is_dir() and not (path / CONFIG).is_file():
            yield int(found.group(1)), path


def _of_project(project: Project, path: Path) -> SweepSource:
    """Return the newest run folder of a project, and what it published."""

    def newest_step(run: Path) -> int:
        return max((folder.stat().st_mtime_ns for _, folder in _find_steps(run)), default=0)

    runs = [key.parent for key in (project.scratch / "train").glob(f"*/{KEY}") if newest_step(key.parent)]
    adapter, proof = project.root / ADAPTER, project.results("train.json")
    published = adapter.is_dir() and proof.is_file()
    if runs:
        newest = max(runs, key=lambda run: (newest_step(run), run.name))
        source = _of_run(project, newest)
        if len(runs) > 1:
            source.notes.append(f"Of {len(runs)} run folders, {newest.name} is the newest.")
    elif published:
        source = SweepSource(real(path).name, path, trained=_read_facts(proof))
    else:
        where = f"{path}: .scratch/train/ and {ADAPTER}"
        raise ConfigError("checkpoints", found="none", where=where, fix="train first: ./run dvc repro train")
    if published and source.trained is None:
        source.notes.append(f"{ADAPTER} is of another training than {source.name} and is left out.")
    elif published and source.trained is not None:
        chosen = source.trained.chosen_step
        if chosen > 0 and chosen not in {each.step for each in source.candidates}:
            # DVC may link to its cache, wherever that is.
            source.candidates.append(Candidate(chosen, ADAPTER, adapter, ours=False, root=Path("/")))
            source.candidates.sort(key=lambda each: each.step)
    return source


def _read_facts(proof: Path) -> TrainFacts:
    return read_record(proof, TrainFacts, fix="./run dvc repro train")


def _read_json(path: Path, fix: str) -> Any:
    return loads(read_bytes(path, fix=fix).decode("utf-8", "replace"), where=str(path), fix=fix)


def _of_run(project: Project, path: Path) -> SweepSource:
    """Return the checkpoints of a run folder; those that are damaged are named and not among them."""
    fix = "take another run folder; without its key nobody knows what shape its adapters have"
    facts = run_facts(_read_json(path / KEY, fix), str(path / KEY))
    source = SweepSource(real(path).name, path, facts=facts, trained=_find_published(project, path))
    for step, folder in _find_steps(path):
        try:
            checkpoint_of(folder, facts.digest)
        except AssayError as error:
            source.damaged.append(f"{folder.name}: {error.found}")
            continue
        if step == 0:
            source.beginning = folder
        else:
            source.candidates.append(Candidate(step, folder.name, folder, ours=True, root=path))
    source.candidates.sort(key=lambda each: each.step)
    return source


def _find_published(project: Project, folder: Path) -> TrainFacts | None:
    """Return the facts of the training that a run folder has written last, None where they are of another."""
    proof = project.results("train.json")
    if not (folder / DONE).is_file() or not proof.is_file():
        return None
    try:
        told = _read_json(folder / DONE, "")
    except RecordError:
        return None
    same = isinstance(told, dict) and told.get("md5") == md5_at(proof.parent)
    return _read_facts(proof) if same else None


def _of_adapters(path: Path) -> SweepSource:
    """Return the adapters of a folder, each step once; the number a folder's name ends with is its step."""
    source = SweepSource(real(path).name, path)
    seen: dict[int, str] = {}
    for folder in sorted(each for each in path.iterdir() if (each / CONFIG).is_file()):
        found = _NUMBER.fullmatch(folder.name)
        if found is None or int(found.group(1)) == 0:
            said = "its name does not end with a number" if found is None else "step 0 is the base"
            source.notes.append(f"{folder.name} is left out: {said}.")
            continue
        step = int(found.group(1))
        if step in seen:
            both, fix = f"{seen[step]} and {folder.name}", "rename one of them, or move it away"
            raise ConfigError("each step once", found=both, where=str(path), fix=fix)
        seen[step] = folder.name
        source.candidates.append(Candidate(step, folder.name, folder, ours=False, root=path))
    alone = (path / CONFIG).is_file()
    if not source.candidates and alone:
        fix = f"assay evaluate --tasks FILE --policy {path}, or name the folder above it"
        raise ConfigError("a folder of adapter folders", found="one adapter", where=str(path), fix=fix)
    if not source.candidates:
        named = f" ({source.notes[0]})" if source.notes else ""
        raise ConfigError("checkpoints", found=f"none{named}", where=str(path), fix=FIX)
    if alone:
        source.notes.append(f"The adapter in {source.name} itself has no step and is left out.")
    source.candidates.sort(key=lambda each: each.step)
    return source
