"""The folder in which one training keeps what it needs to go on: outside of everything that DVC removes
before a stage."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.core.config.health import ACCIDENTS
from assay.core.config.settings import CheckpointSettings, Params
from assay.core.console import complain, say
from assay.core.errors import ConfigError, RecordError
from assay.core.evidence_files import folder_of, scratch_of
from assay.core.provenance import now
from assay.core.storage.append_log import AppendLog, read_complete
from assay.core.storage.files import read_bytes, real, write_bytes, write_folder
from assay.core.storage.json import loads, write_json
from assay.core.storage.yaml import read_yaml
from assay.pipeline.dvc_lock import md5_at
from assay.pipeline.resume import RunKey, difference, locked, machine_of, run_key
from assay.training.checkpoints.store import (
    MANIFEST,
    Checkpoint,
    Checkpoints,
    check_contents,
    read_checkpoint,
)

if TYPE_CHECKING:  # torch is not needed to read a folder
    from assay.rollout.policy.processes import Processes

KEY, DONE, EVENTS = "key.json", "done.json", "run_log.jsonl"
# What is kept, and what is done about an accident: a training may go on under other values, which is when
# they are wanted.
NOT_IN_KEY = ("checkpoint", *(f"health.{name}" for name in ACCIDENTS))
PROOF = folder_of("train")  # which dvc.lock names as a whole
MANY = 5  # unfinished trainings of other settings, before it is said what they take


class RunFolder:
    """Checkpoints, events and identity of one training.

    Args:
        folder: Named by the run's key: another setting, other data or other code is another folder.
        key: What the run is a function of.
        machine: What of this machine decides last bits.
        settings: What is kept, and whether a training of another machine may go on here.
        main: Whether this process is the one that writes.
    """

    def __init__(
        self,
        folder: Path,
        key: RunKey,
        machine: Mapping[str, str],
        settings: CheckpointSettings,
        *,
        main: bool,
    ) -> None:
        self.path, self.key, self._main = folder, key, main
        self.checkpoints = Checkpoints(folder, key.digest, settings.keep, main=main)
        self._machine, self._other = dict(machine), settings.other_machine
        self._machines = [self._machine]
        self.events = folder / EVENTS
        self._log: AppendLog | None = None

    def log(self, event: Mapping[str, Any]) -> None:
        """Append an event."""
        if self._log is None:
            self._log = self._opened()
            if self._log.torn_bytes:
                self._log.append({"event": "a torn last line was cut off", "bytes": self._log.torn_bytes})
        self._log.append(dict(event))

    def tell(self, event: str, facts: Mapping[str, Any]) -> None:
        """Append an event with its time; only the main process does."""
        if self._main:
            self.log({"time": now(), "event": event} | dict(facts))

    def _opened(self) -> AppendLog:
        try:
            return AppendLog.open(self.events)
        except RecordError as error:
            # Events are for people; a training whose checkpoints are whole does not end for a damaged line in
            # them.
            aside = self.events.with_suffix(".damaged")
            self.events.replace(aside)
            complain(
                f"{error.where} was damaged ({error.found}); it lies in {aside.name} now, and a new log"
                " begins"
            )
            return AppendLog.open(self.events)

    def start(self, resume_from: Path | None) -> Checkpoint | None:
        """Return where to go on from, None to begin.

        Raises:
            ConfigError: `resume_from` is no checkpoint, or one of another run, or the run was begun on
                another machine and may not go on on this one; names what differs.
        """
        known = _machines(self.path)
        if resume_from is not None and self._main:
            known = self._adopt(resume_from)
        start = self.checkpoints.newest()
        if self._main:
            if start is not None:
                self._machines = self._joined(known, start.folder)
            for damage in self.checkpoints.damaged:
                complain(f"passed over a damaged checkpoint: {damage}")
                self.log({"event": "damaged checkpoint", "found": damage})
            told = {"digest": self.key.digest, "parts": dict(self.key.parts), "machines": self._machines}
            write_json(self.path / KEY, told)
            if start is not None:
                say(f"going on after step {start.step}, from {self.path.name}/{start.folder.name}")
        return start

    @property
    def other_machines(self) -> int:
        """How often this run was gone on with on another machine than before; known to the main process."""
        return len(self._machines) - 1

    def _joined(self, known: list[dict[str, str]], where: Path) -> list[dict[str, str]]:
        """Return the machines of the run so far, this one last.

        Raises:
            ConfigError: This is another one than the last, which is not to be.
        """
        odd = difference(self._machine, known[-1]) if known else []
        if not odd:
            return known or [self._machine]
        found = "; ".join(odd)
        if self._other == "refuse":
            raise ConfigError(
                "to go on on the machine that this training was begun on, since another adds up otherwise in"
                " last bits",
                found=found,
                where=str(where),
                fix=(
                    "go on there; or set checkpoint.other_machine: say in your preset (configs/grpo/), which"
                    f" the claim then tells; or begin anew here: rm -r {shlex.quote(str(where.parent))}"
                ),
            )
        complain(
            f"going on on another machine: {found}; its bytes are promised to nobody from here on, and the"
            " claim says so"
        )
        self.log({"event": "other machine", "found": found})
        return [*known, self._machine]

    def began(self) -> str | None:
        """Return when this run was begun, as its first event says; None if it says nothing."""
        first: Any = next(iter(read_complete(self.events)), None) if self.events.exists() else None
        return None if first is None else first.get("time")

    def finish(self, proof: Path) -> None:
        """Say that the outputs were written: once dvc.lock names the proof, this folder has nothing left to
        do.

        Args:
            proof: The folder of the outputs, as it will stay.
        """
        write_json(self.path / DONE, {"proof": PROOF, "md5": md5_at(proof)})
        self.close()

    def close(self) -> None:
        """Let go of the log of events; the next event opens it again."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _adopt(self, given: Path) -> list[dict[str, str]]:
        """Make a given checkpoint the newest of this folder: bring it here with all it builds on, drop later
        ones.

        Returns the machines that it was made on.
        """
        where = "--resume-from"
        if (given / MANIFEST).is_file():
            chosen = given
        else:
            inside = sorted(given.glob("step-*"), reverse=True)
            if not inside:
                fix = "give a folder such as .scratch/train/<run> or .scratch/train/<run>/step-000100"
                raise ConfigError("a checkpoint or a run folder", found=f"{given}", where=where, fix=fix)
            chosen = next((path for path in inside if _verifies(path)), inside[0])
        checkpoint, validations = read_checkpoint(chosen)
        if checkpoint.run != self.key.digest:
            found = _differs(chosen.parent, self.key)
            fix = "restore what differs, or leave --resume-from out to begin anew"
            raise ConfigError("a checkpoint of this very run", found=found, where=f"{where} {given}", fix=fix)
        check_contents(checkpoint)  # before anything gives way to it
        known = _machines(chosen.parent)
        if self._other == "refuse":
            self._joined(known, chosen)  # refused before anything is touched
        if real(chosen.parent) != real(self.path):
            for name in validations:
                write_bytes(self.path / name, read_bytes(chosen.parent / name, fix="give another checkpoint"))
            files = {path.name: read_bytes(path, fix="give another checkpoint") for path in chosen.iterdir()}
            write_folder(self.path / chosen.name, files, check=lambda _: None)
        for later in self.path.glob("step-*"):
            if later.name > chosen.name or not later.name.removeprefix("step-").isdecimal():
                shutil.rmtree(later)
        return known


@contextmanager
def open_run(
    root: Path, params: Params, stage: str, reads: Sequence[str], *, main: bool
) -> Iterator[RunFolder]:
    """Open the run folder of a project's training; nobody else trains in it meanwhile.

    A folder whose outputs dvc.lock holds is finished business and removed: what is asked for then is a fresh
    training.

    Raises:
        AssayError: Another process trains this very run.
    """
    key = run_key(root, params, stage, reads, NOT_IN_KEY)
    runs = scratch_of(root) / stage
    folder = runs / key.digest[:16]
    with locked(folder) if main else nullcontext():
        if main:
            for finished in runs.glob(f"*/{DONE}"):
                if _recorded(root, finished):
                    shutil.rmtree(finished.parent, ignore_errors=True)
            _say_others(runs, folder, key)
            _say_how_much(runs, folder)
            folder.mkdir(parents=True, exist_ok=True)
        yield RunFolder(folder, key, machine_of(params.device), params.checkpoint, main=main)


def start_together(
    folder: RunFolder, processes: Processes, resume_from: Path | None = None
) -> Checkpoint | None:
    """Return where all processes of a training go on from, None to begin: what the main one brings in is
    there before the others look.

    Raises:
        ConfigError: As `RunFolder.start`, or they do not agree.
    """
    start = None
    with processes.as_one():
        if processes.main:
            start = folder.start(resume_from)
    start = start if processes.main else folder.start(None)
    processes.agree("run and checkpoint", (folder.key.digest, start and start.step))
    return start


def _recorded(root: Path, done: Path) -> bool:
    lock = root / "dvc.lock"
    if not lock.is_file():
        return False
    outs = (
        (read_yaml(lock, fix="git checkout -- dvc.lock").get("stages") or {}).get("train", {}).get("outs", [])
    )
    told = _read(done)
    return any(out.get("path") == told.get("proof") and out.get("md5") == told.get("md5") for out in outs)


def _read(path: Path) -> dict[str, Any]:
    """Return a file of ours as a mapping; one that is damaged says nothing, and no training has to end for
    that."""
    try:
        found = loads(read_bytes(path, fix="").decode("utf-8", "replace"), where=str(path), fix="")
    except RecordError:
        return {}
    return found if isinstance(found, dict) else {}


def _say_others(root: Path, folder: Path, key: RunKey) -> None:
    """Say which unfinished training this is not, and why, since its checkpoints will not be used."""
    if any(folder.glob("step-*")):
        return
    for other in sorted(root.glob(f"*/{KEY}")):
        if any(other.parent.glob("step-*")) and not (other.parent / DONE).exists():
            say(f"not the unfinished training in {other.parent.name}: {_differs(other.parent, key)}")


def _say_how_much(root: Path, folder: Path) -> None:
    """Say what the unfinished trainings of other settings take once they are many; nothing is removed without
    being asked."""
    runs = sorted(each.parent for each in root.glob(f"*/{KEY}"))
    others = [run for run in runs if run != folder and not (run / DONE).exists()]
    if len(others) > MANY:
        size = sum(path.lstat().st_size for other in others for path in other.rglob("*") if path.is_file())
        names = " ".join(other.name for other in others)
        say(f"{len(others)} unfinished trainings of other settings take {size / 2**20:.1f} MiB in {root}")
        say(f"to remove those that will not be gone on with: (cd {shlex.quote(str(root))} && rm -r {names})")


def _differs(folder: Path, key: RunKey) -> str:
    known = folder / KEY
    if not known.is_file():
        return "a checkpoint of another run, which does not say of which"
    parts = _read(known).get("parts")
    if not isinstance(parts, dict):
        return "a checkpoint of another run, which no longer says of which"
    told = difference(key.parts, {name: str(value) for name, value in parts.items()})
    return "; ".join(told[:3]) + (f" (and {len(told) - 3} more)" if len(told) > 3 else "")


def _machines(folder: Path) -> list[dict[str, str]]:
    """Return the machines a run was computed on, in order; none where its folder does not say."""
    told = _read(folder / KEY).get("machines") if (folder / KEY).is_file() else None
    if not isinstance(told, list) or not all(isinstance(each, dict) for each in told):
        return []
    return [{str(name): str(value) for name, value in each.items()} for each in told]


def _verifies(folder: Path) -> bool:
    try:
        check_contents(read_checkpoint(folder)[0])
    except RecordError:
        return False
    return True
