"""Several `dvc repro` at a time, each in a copy with a log of its own; one that fails ends no other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.console import Advance, progress, say
from assay.errors import AssayError, ConfigError

_RUNNING = re.compile(r"^Running stage '(\w+)'")
_TICK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Job:
    """A copy, and the stage up to which it is to be up to date; `prepare` is called right before it starts."""

    copy: Path
    stage: str
    prepare: Callable[[], None]

    @property
    def log(self) -> Path:
        """Where everything goes that DVC and the stages say."""
        return self.copy.with_name(f"{self.copy.name}.log")


@dataclass(slots=True)
class _Going:
    job: Job
    process: subprocess.Popen[bytes]
    read: int = 0

    def stages(self) -> list[str]:
        """Return the stages that began since the last look."""
        with self.job.log.open("rb") as stream:
            stream.seek(self.read)
            whole, newline, _ = stream.read().rpartition(b"\n")
        self.read += len(whole) + len(newline)
        lines = whole.decode("utf-8", "replace").split("\n")
        return [found.group(1) for found in map(_RUNNING.match, lines) if found]


def run_all(label: str, jobs: Sequence[Job], at_once: int, done: Callable[[Job, str | None], None]) -> None:
    """Run the jobs in order, so many at once; `done` hears of each what failed, or None.

    Raises:
        ConfigError: DVC is not installed.
    """
    waiting, going = list(jobs), list[_Going]()
    try:
        with progress(label, len(jobs)) as advance:
            while waiting or going:
                while waiting and len(going) < at_once:
                    job = waiting.pop(0)
                    try:
                        job.prepare()
                    except AssayError as error:
                        done(job, f"{error.where}: expected {error.expected}, found {error.found}")
                        advance(1, job.copy.name)
                    else:
                        going.append(_started(job))
                time.sleep(_TICK_SECONDS)
                going = [each for each in going if not _over(each, advance, done)]
    finally:
        # Ctrl-C reached them as well: a training saves its step and ends.
        for each in going:
            each.process.wait()


def _over(going: _Going, advance: Advance, done: Callable[[Job, str | None], None]) -> bool:
    code = going.process.poll()
    for stage in going.stages():
        say(f"{going.job.copy.name}: {stage}")
        advance(0, f"{going.job.copy.name}: {stage}")
    if code is None:
        return False
    done(going.job, None if code == 0 else why(going.job.log, code))
    advance(1, going.job.copy.name)
    return True


def _started(job: Job) -> _Going:
    dvc = shutil.which("dvc")
    if dvc is None:
        raise ConfigError("the command dvc", found="none on the PATH", where="assay seeds", fix="./run assay seeds ...")
    # The code that DVC hashes in the copy is the code that runs, whatever happens to the project meanwhile.
    path = os.pathsep.join(filter(None, [str(job.copy.resolve() / "src"), os.environ.get("PYTHONPATH")]))
    own = {name: value for name, value in os.environ.items() if not name.startswith("DVC_EXP")}
    command = [sys.executable, "-m", "assay.parent", dvc, "repro", job.stage]
    with job.log.open("wb") as log:
        process = subprocess.Popen(
            command, cwd=job.copy, env=own | {"PYTHONPATH": path}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    return _Going(job, process)


def why(log: Path, code: int) -> str:
    """Return in one line why DVC ended with a code: what assay said last, else what DVC said."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    for start in ("assay: ", "ERROR: "):
        found = [line for line in lines if line.startswith(start)]
        if found:
            return found[-1 if start == "assay: " else 0].removeprefix(start).rstrip(".")
    return f"DVC ended with {code}" if code > 0 else f"DVC was ended by signal {-code}"
