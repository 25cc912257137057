"""What stands on disk of a training, as one value: read by anybody while it runs, and never written.

The files are replaced whole by who trains. Copies of them may be torn: see `partial_reads`.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any, TypeVar

from assay.cli.tools.watch.partial_reads import (
    Columns,
    Ends,
    add_ends,
    read_alarms,
    read_columns,
    read_groups,
    read_object,
    read_objects,
    read_scores,
)
from assay.core.errors import AssayError, RecordError
from assay.core.evidence_files import LOGS, folder_of, place_of
from assay.core.records import HealthEvent
from assay.core.storage.files import read_bytes, real
from assay.pipeline.project import Project

T = TypeVar("T")
Mark = tuple[int, int, int] | None  # what changes when a file is replaced; None: it is not there
MANIFEST, PARAMS, KEY, EVENTS = "manifest.json", "params.yaml", "key.json", "run_log.jsonl"
MAX_BYTES = 64 * 2**20  # of one file; 200 steps make 23 kB
MAX_SAID = 3  # damaged lines of one file
# The settings that make a training what it is; `claim` only chooses among its checkpoints.
TRAINED_BY = ("seed", "task", "dataset", "base", "generation", "train", "validation")
# What a training needs, and what it writes.
UP_TO_TRAINING = (*map(folder_of, ("data", "base", "pre_eval", "train")), LOGS, "models")
LATEST_STEPS = 20  # behind the speed that is shown and the time left
TURNS = ("started", "resumed", "ended early", "finished")


@dataclass(frozen=True, slots=True)
class TrainingPlace:
    """Where the files of one training lie; without the folder of evidence only its events are known."""

    name: str
    events: Path
    evidence: Path | None


def find_place(path: Path) -> TrainingPlace:
    """Return where the files of a project, an evidence folder or a run folder (.scratch/train/<run>) lie.

    Raises:
        RecordError: The path is none of these.
    """
    path = real(path)
    if (path / KEY).is_file() and len(path.parents) > 2:
        evidence = path.parents[2] / "evidence"
        manifest = read_object(_read_whole(evidence / "observed" / MANIFEST), [])
        if str(manifest.get("run", ""))[:16] == path.name:  # the latest
            return TrainingPlace(evidence.parent.name, path / EVENTS, evidence)
        return TrainingPlace(path.name, path / EVENTS, None)
    if (path / PARAMS).is_file() or (path / "evidence/observed").is_dir():
        path = path / "evidence"
    elif not (path / "observed").is_dir():
        found = "neither params.yaml nor evidence in it" if path.is_dir() else "no such folder"
        fix = "name a project, its evidence folder, or a run of .scratch/train"
        raise RecordError("a folder of a training", found=found, where=str(path), fix=fix)
    return TrainingPlace(path.parent.name, path / "observed" / EVENTS, path)


def _find(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A training at one moment. Missing columns and None are values that nobody has measured yet."""

    name: str
    manifest: Mapping[str, Any]
    log: Columns
    components: Columns
    checkpoints: Columns
    clock: Columns
    alarms: Sequence[HealthEvent]
    events: Sequence[Mapping[str, Any]]
    facts: Mapping[str, Any]
    faults: Sequence[str]
    age_s: float | None = None  # since any of the files was written
    settings: Mapping[str, Any] = field(default_factory=dict)  # at hand now; empty: no project around
    at_work: str | None = None  # of a training that ended: the output that DVC makes now

    @property
    def data(self) -> str | None:
        """What the data it trained on are called, None if that is not known."""
        root = _find(self.manifest, "params", "dataset", "root")
        return PurePath(root).name if isinstance(root, str) else None

    @property
    def other_settings(self) -> str | None:
        """The first section of the settings at hand that this training did not have, None if it had all."""
        trained = _find(self.manifest, "params")
        if not isinstance(trained, Mapping) or not self.settings:
            return None
        return next((name for name in TRAINED_BY if trained.get(name) != self.settings.get(name)), None)

    @property
    def is_followed(self) -> bool:
        """Whether what DVC makes now is for the next training, not of this one."""
        return any(f"{self.at_work}/".startswith(f"{each}/") for each in UP_TO_TRAINING)

    @property
    def steps(self) -> int | None:
        """The steps asked for, None if that is not known."""
        found = _find(self.manifest, "params", "train", "steps")
        return found if isinstance(found, int) and found > 0 else None

    @property
    def step(self) -> int | None:
        """The newest step that any file knows of, None before the training began."""
        known = [value for value in self.log.get("step", ()) if value is not None]
        known += [event["step"] for event in self.events if isinstance(event.get("step"), int | float)]
        return int(max(known)) if known else None

    @property
    def state(self) -> str:
        """One of: "none yet", "running", "silent", "ended early", "finished"."""
        last = next((event["event"] for event in reversed(self.events) if event.get("event") in TURNS), None)
        if not self.events and not self.manifest:
            return "none yet"
        if self.manifest.get("finished") is not None or last == "finished":
            return "finished"
        if last == "ended early":
            return "ended early"
        patience = max(60.0, 5 * max(self.step_seconds(), default=0.0))
        return "silent" if self.age_s is not None and self.age_s > patience else "running"

    def step_seconds(self, latest: int = 0) -> list[float]:
        """Return the known seconds of the latest steps, 0 for all; validations and saves included."""
        wall = [0.0, *self.clock.get("wall_time_s", ())]
        return [b - a for a, b in list(pairwise(wall))[-latest:] if a is not None and b is not None]

    @property
    def left_s(self) -> float | None:
        """The seconds left, by the mean of the latest steps; None if unknown or nothing is left."""
        latest = self.step_seconds(LATEST_STEPS)
        if self.state not in ("running", "silent") or not latest or self.steps is None or self.step is None:
            return None
        return max(0, self.steps - self.step) * statistics.fmean(latest)

    @property
    def raised(self) -> list[HealthEvent]:
        """For each rule that is not GREEN now the event that made it so, RED first."""
        now = {event.rule: event for event in self.alarms}
        found = [event for event in now.values() if event.level != "GREEN"]
        return sorted(found, key=lambda event: event.level != "RED")


@dataclass(slots=True)
class SnapshotReader:
    """Looks at a training again and again; a file that was not replaced is not read again."""

    place: TrainingPlace
    # Of each file its mark, what it held, and its faults; of each suite and validation what it gives.
    _kept: dict[Path, tuple[Mark, Any, list[str]]] = field(default_factory=dict)
    _scores: dict[tuple[str, str], Ends | str] = field(default_factory=dict)

    def read(self) -> Snapshot:
        """Return what stands there now. Nothing that a file holds makes this fail."""
        evidence = self.place.evidence or Path("/nonexistent/evidence")
        observed, project = evidence / "observed", evidence.parent
        names = ("training_log", "reward_components", "checkpoint_evals")
        tables = [project / place_of(f"{name}.csv") for name in names]
        log, components, checkpoints, clock = (
            self._read(path, read_columns) or {} for path in (*tables, observed / "training_clock.csv")
        )
        facts = self._read(project / place_of("train.json"), read_object) or {}
        scores = self._read(project / place_of("validation_scores.csv"), read_groups) or {}
        validations, faults = self._validations(scores, str(facts.get("validation_suite", "")))
        settings = self._read(project / PARAMS, lambda *_: _read_settings(project)) or {}
        snapshot = Snapshot(
            name=self.place.name,
            manifest=self._read(observed / MANIFEST, read_object) or {},
            log=log,
            components=components,
            checkpoints=add_ends(checkpoints, validations),
            clock=clock,
            alarms=self._read(project / place_of("health.jsonl"), read_alarms) or [],
            events=self._read(self.place.events, read_objects) or [],
            facts=facts,
            faults=[*(said for _, _, known in self._kept.values() for said in known), *faults[:MAX_SAID]],
            settings=settings,
        )
        times = [mark[1] for path, mark in self.marks().items() if mark and path.name != PARAMS]
        snapshot = replace(snapshot, age_s=max(0.0, time.time() - max(times) / 1e9) if times else None)
        if self.place.evidence is None or snapshot.state not in ("finished", "ended early"):
            return snapshot
        return replace(snapshot, at_work=find_output_at_work(project))

    def marks(self) -> dict[Path, Mark]:
        """Return what changes whenever one of the files does."""
        return {path: mark for path, (mark, _, _) in self._kept.items()}

    def _validations(self, scores: Mapping[str, str], suite: str) -> tuple[list[Ends], list[str]]:
        """Return what the episodes of each validation give, and what is wrong; each is computed once."""
        found, faults = list[Ends](), list[str]()
        for step, table in scores.items():
            if (suite, table) not in self._scores:
                self._scores[suite, table] = read_scores(table, suite)
            known = self._scores[suite, table]
            if isinstance(known, str):
                faults.append(f"validation_scores.csv: step {step}: {known}")
            else:
                found.append(known)
        return found, faults

    def _read(self, path: Path, parse: Callable[[bytes, list[str]], T]) -> T | None:
        try:
            found = path.stat()
        except OSError:
            self._kept[path] = (None, None, [])
            return None
        mark = (found.st_ino, found.st_mtime_ns, found.st_size)
        if path not in self._kept or self._kept[path][0] != mark:
            faults: list[str] = []
            value = None
            try:
                if found.st_size > MAX_BYTES:
                    size = f"{found.st_size:,}"
                    raise RecordError(f"at most {MAX_BYTES:,} bytes", found=size, where="", fix="")
                value = parse(read_bytes(path, fix=""), faults)
            except RecordError as error:
                faults.append(f"expected {error.expected}, found {error.found}")
            more = [f"and {len(faults) - MAX_SAID} more"] if len(faults) > MAX_SAID else []
            said = [f"{path.name}: {'; '.join(faults[:MAX_SAID] + more)}"] if faults else []
            self._kept[path] = (mark, value, said)
        known: T | None = self._kept[path][1]
        return known


def _read_settings(project: Path) -> Mapping[str, Any]:
    """Return the settings of a project; what cannot be read says nothing here, and every stage refuses it."""
    with suppress(AssayError):
        return Project.open(project).params.model_dump(mode="json")
    return {}


def find_output_at_work(project: Path) -> str | None:
    """Return the output that DVC is making in a project since its last training was written down; None where
    it makes none.

    It names itself and what it writes in `.dvc/tmp/rwlock`, which a killed one leaves behind.
    """
    lock = project / ".dvc/tmp/rwlock"
    with suppress(OSError):
        if lock.stat().st_mtime_ns < (project / "evidence/observed" / MANIFEST).stat().st_mtime_ns:
            return None
    written = read_object(_read_whole(lock), []).get("write")
    for path, by in written.items() if isinstance(written, Mapping) else ():
        if _is_alive(str(_find(by, "pid"))):
            return os.path.relpath(str(path), real(project))
    return None


def _read_whole(path: Path) -> bytes:
    with suppress(RecordError):
        return read_bytes(path, fix="")
    return b""


def _is_alive(process: str) -> bool:
    if not process.isdecimal() or len(process) > 9 or int(process) < 1:
        return False
    try:
        os.kill(int(process), 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)  # somebody else's, and alive
    return True
