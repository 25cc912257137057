"""What stands on disk of a training, as a value: read by anybody while it runs, and never written.

The files are replaced whole by who trains. Copies of them may be torn: a last line without its end is not there yet, and
any other line that cannot be read is said and left out.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, TypeVar

from assay.errors import AssayError, RecordError
from assay.records import HealthEvent
from assay.stages.project import OBSERVED, RESULTS, Project
from assay.storage.files import read_bytes, real
from assay.storage.json import loads
from assay.tools.control_run import EVENTS, KEY, ControlRun, control_run
from assay.tools.torn_files import columns, health_events, objects, one_object

T = TypeVar("T")
Columns = Mapping[str, Sequence[float | None]]
MANIFEST, CONTROL = "manifest.json", ".scratch/control"
MAX_BYTES = 64 * 2**20  # of one file; 200 steps make 23 kB
MAX_SAID = 3  # damaged lines of one file
# The sections of the settings that make a training what it is; `validation` and `claim` choose among its checkpoints.
TRAINED_BY = ("seed", "task", "dataset", "base", "generation", "train", "validation")
LATEST_STEPS = 20  # behind the speed that is shown and the time left
_TURNS = ("started", "resumed", "ended early", "finished")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the files of one training lie; without the folders of evidence only its events are known."""

    name: str
    events: Path
    results: Path | None
    observed: Path | None
    control: Path | None = None  # where the control stage of the same project keeps its runs


def locate(path: Path) -> Place:
    """Return where the files of a project, an evidence folder or a run folder (.scratch/train/<run>) lie.

    Raises:
        RecordError: The path is none of these.
    """
    path = real(path)
    if (path / KEY).is_file() and len(path.parents) > 2:
        project = path.parents[2]
        if _run_of(project / OBSERVED / MANIFEST)[:16] == path.name:
            return Place(project.name, path / EVENTS, project / RESULTS, project / OBSERVED, project / CONTROL)
        return Place(path.name, path / EVENTS, None, None)
    if (path / "params.yaml").is_file() or (path / OBSERVED).is_dir():
        return Place(path.name, path / OBSERVED / EVENTS, path / RESULTS, path / OBSERVED, path / CONTROL)
    if (path / "observed").is_dir():
        parent = path.parent
        return Place(parent.name, path / "observed" / EVENTS, path / "results", path / "observed", parent / CONTROL)
    found = "neither params.yaml nor evidence in it" if path.is_dir() else "no such folder"
    fix = "name a project, its evidence folder, or a run of .scratch/train"
    raise RecordError("a folder of a training", found=found, where=str(path), fix=fix)


def data_of(params: Any) -> str | None:
    """Return what the data of some settings are called.

    >>> data_of({"dataset": {"root": "data/t3_tools"}})
    't3_tools'
    """
    dataset = params.get("dataset") if isinstance(params, Mapping) else None
    root = dataset.get("root") if isinstance(dataset, Mapping) else None
    return PurePath(root).name if isinstance(root, str) else None


def _run_of(manifest: Path) -> str:
    try:
        found = loads(read_bytes(manifest, fix="").decode("utf-8", "replace"), where="", fix="")
    except RecordError:
        return ""
    return str(found.get("run", "")) if isinstance(found, dict) else ""


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
    control: ControlRun | None = None  # of a finished training: the control stage that is at work now
    settings: Mapping[str, Any] = field(default_factory=dict)  # those at hand now; empty where no project stands around

    @property
    def data(self) -> str | None:
        """Return what the data it trained on are called, None if that is not known."""
        return data_of(self.manifest.get("params"))

    @property
    def other_settings(self) -> str | None:
        """Return the first section of the settings at hand that this training did not have; None: it had them all."""
        trained = self.manifest.get("params")
        if not isinstance(trained, Mapping) or not self.settings:
            return None
        return next((name for name in TRAINED_BY if trained.get(name) != self.settings.get(name)), None)

    @property
    def steps(self) -> int | None:
        """Return the steps asked for, None if that is not known."""
        found: Any = self.manifest
        for name in ("params", "train", "steps"):
            found = found.get(name) if isinstance(found, Mapping) else None
        return found if isinstance(found, int) and found > 0 else None

    @property
    def step(self) -> int | None:
        """Return the newest step that any file knows of, None before the training began."""
        known = [value for value in self.log.get("step", ()) if value is not None]
        known += [event["step"] for event in self.events if isinstance(event.get("step"), int | float)]
        return int(max(known)) if known else None

    @property
    def state(self) -> str:
        """Return one of: "none yet", "running", "silent", "ended early", "finished"."""
        last = next((event for event in reversed(self.events) if event.get("event") in _TURNS), None)
        if not self.events and not self.manifest:
            return "none yet"
        if self.manifest.get("finished") is not None or (last is not None and last["event"] == "finished"):
            return "finished"
        if last is not None and last["event"] == "ended early":
            return "ended early"
        patience = max(60.0, 5 * max((value for value in self.step_seconds() if value is not None), default=0.0))
        return "silent" if self.age_s is not None and self.age_s > patience else "running"

    def step_seconds(self) -> list[float | None]:
        """Return the seconds of each step, validations and saves included."""
        wall = [0.0, *self.clock.get("wall_time_s", ())]
        return [None if a is None or b is None else b - a for a, b in pairwise(wall)]

    @property
    def left_s(self) -> float | None:
        """Return the seconds left, by the mean of the latest steps; None if unknown or nothing is left."""
        latest = [value for value in self.step_seconds()[-LATEST_STEPS:] if value is not None]
        if self.state not in ("running", "silent") or not latest or self.steps is None or self.step is None:
            return None
        return max(0, self.steps - self.step) * statistics.fmean(latest)

    @property
    def standing(self) -> list[HealthEvent]:
        """Return for each rule that is not GREEN now the event that made it so, RED first."""
        now = {event.rule: event for event in self.alarms}
        return sorted((event for event in now.values() if event.level != "GREEN"), key=lambda event: event.level != "RED")


@dataclass(slots=True)
class _Kept:
    mark: tuple[int, int, int] | None
    value: Any
    faults: list[str]


@dataclass(slots=True)
class Follower:
    """Looks at a training again and again; a file that was not replaced is not read again."""

    place: Place
    _kept: dict[Path, _Kept] = field(default_factory=dict)
    _settings: tuple[tuple[int, int], Mapping[str, Any]] = ((0, 0), MappingProxyType({}))

    def look(self) -> Snapshot:
        """Return what stands there now. Nothing that a file holds makes this fail."""
        results, observed, nowhere = self.place.results, self.place.observed, Path("/nonexistent")
        results, observed = results or nowhere, observed or nowhere
        log, components, checkpoints, clock = (
            self._read(path, columns) or {}
            for path in (
                results / "training_log.csv", results / "reward_components.csv", results / "checkpoint_evals.csv",
                observed / "training_clock.csv",
            )
        )  # fmt: skip
        manifest, facts = (self._read(path, one_object) or {} for path in (observed / MANIFEST, results / "train.json"))
        alarms = self._read(results / "health.jsonl", health_events) or []
        events = self._read(self.place.events, objects) or []
        times = [kept.mark[1] for kept in self._kept.values() if kept.mark is not None]
        age = max(0.0, time.time() - max(times) / 1e9) if times else None
        faults = [said for kept in self._kept.values() for said in kept.faults]
        seen = Snapshot(
            self.place.name, manifest, log, components, checkpoints, clock, alarms, events, facts, faults, age,
            settings=self._settings_at_hand(),
        )  # fmt: skip
        if self.place.control is None or seen.state != "finished":
            return seen
        return replace(seen, control=control_run(self.place.control, manifest.get("params")))

    def marks(self) -> dict[Path, tuple[int, int, int] | None]:
        """Return what changes whenever one of the files does."""
        return {path: kept.mark for path, kept in self._kept.items()}

    def _settings_at_hand(self) -> Mapping[str, Any]:
        """Return the settings of the project around; what cannot be read says nothing here, and every stage refuses it."""
        root = None if self.place.results is None else self.place.results.parent.parent
        try:
            found = (Path("/nonexistent") if root is None else root / "params.yaml").stat()
        except OSError:
            return {}
        mark = (found.st_mtime_ns, found.st_size)
        if root is not None and self._settings[0] != mark:
            settings: Mapping[str, Any] = {}
            with suppress(AssayError):
                settings = Project.open(root).params.model_dump(mode="json")
            self._settings = (mark, settings)
        return self._settings[1]

    def _read(self, path: Path, parse: Callable[[bytes, list[str]], T]) -> T | None:
        try:
            found = path.stat()
        except OSError:
            self._kept[path] = _Kept(None, None, [])
            return None
        mark, kept = (found.st_ino, found.st_mtime_ns, found.st_size), self._kept.get(path)
        if kept is None or kept.mark != mark:
            faults: list[str] = []
            value = None
            try:
                if found.st_size > MAX_BYTES:
                    raise RecordError(f"at most {MAX_BYTES:,} bytes", found=f"{found.st_size:,}", where=path.name, fix="")
                value = parse(read_bytes(path, fix=""), faults)
            except RecordError as error:
                faults.append(f"expected {error.expected}, found {error.found}")
            more = [f"and {len(faults) - MAX_SAID} more"] if len(faults) > MAX_SAID else []
            said = [f"{path.name}: {'; '.join(faults[:MAX_SAID] + more)}"] if faults else []
            kept = self._kept[path] = _Kept(mark, value, said)
        known: T | None = kept.value
        return known
