"""What stands on disk of a training, as a value: read by anybody while it runs, and never written.

The files are replaced whole by who trains. Copies of them may be torn: a last line without its end is not there yet, and
any other line that cannot be read is said and left out.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from assay.errors import RecordError
from assay.records import HealthEvent
from assay.stages.project import OBSERVED, RESULTS
from assay.storage.files import read_bytes
from assay.storage.json import loads
from assay.tools.control_run import EVENTS, KEY, ControlRun, control_run
from assay.tools.torn_files import columns, health_events, objects, one_object

T = TypeVar("T")
Columns = Mapping[str, Sequence[float | None]]
MANIFEST, CONTROL = "manifest.json", ".scratch/control"
MAX_BYTES = 64 * 2**20  # of one file; 200 steps make 23 kB
MAX_SAID = 3  # damaged lines of one file
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
    path = path.resolve()
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
            self.place.name, manifest, log, components, checkpoints, clock, alarms, events, facts, faults, age
        )  # fmt: skip
        if self.place.control is None or seen.state != "finished":
            return seen
        return replace(seen, control=control_run(self.place.control, manifest.get("params")))

    def marks(self) -> dict[Path, tuple[int, int, int] | None]:
        """Return what changes whenever one of the files does."""
        return {path: kept.mark for path, kept in self._kept.items()}

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
