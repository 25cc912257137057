"""Copies of the project in .scratch/seeds/, several at work at a time, off the work tree.

A copy stays. Called again it takes up what changed in the project, and DVC decides what has to run again:
nothing, where nothing changed. `dvc exp run --temp` would not do: two at a time share the project's stash,
one that is killed can leave it behind, and the base would be measured once for every seed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from assay.core.config.composition import Selection, use
from assay.core.config.settings import PretrainedBase
from assay.core.console import progress, say
from assay.core.errors import AssayError, ConfigError, RunningAlready
from assay.core.storage.files import read_bytes, read_text, write_bytes, write_text
from assay.core.storage.json import dumps
from assay.core.storage.locks import hold
from assay.pipeline.project import Project
from assay.tools.recipe.recipe_file import describe, read_stages
from assay.tools.recipe.run_sources import LOCK

HOME = ".scratch/seeds"
# What stages read of a project besides each other's outputs; evidence, dvc.lock and models are theirs.
INPUTS = ("src", "configs", "data", "constraints.txt", "dvc.yaml", ".dvcignore", ".dvc/config", ".dvc/plots")
_OUTPUT = re.compile(r"(models|evidence)(/\w[\w.-]*)+")
_FIX = "call this in the project's folder"


@dataclass(frozen=True, slots=True)
class SeedJob:
    """A copy, its settings, the last stage to run; `source` has its inputs, and outputs of `handed`
    stages."""

    copy: Path
    source: Path
    settings: Selection
    handed: tuple[str, ...]
    stage: str
    base_seed: int | None = None

    @property
    def log(self) -> Path:
        """Where everything goes that DVC and the stages say."""
        return self.copy.with_name(f"{self.copy.name}.log")


def run_jobs(jobs: Sequence[SeedJob], at_once: int, label: str) -> Iterator[tuple[SeedJob, str | None]]:
    """Run `dvc repro` in copies, so many at once; yield each as it ends, with what failed or None.

    Raises:
        ConfigError: DVC is not installed.
    """
    dvc = shutil.which("dvc")
    if dvc is None:
        fix = "./run assay seeds, which knows where it is"
        raise ConfigError("the command dvc", found="none on the PATH", where="assay seeds", fix=fix)
    waiting, going = list(jobs), dict[SeedJob, subprocess.Popen[bytes]]()
    try:
        with progress(label, len(jobs)) as advance:
            while waiting or going:
                while waiting and len(going) < at_once:
                    job = waiting.pop(0)
                    try:
                        prepare_copy(job)
                    except AssayError as error:
                        advance(1, job.copy.name)
                        yield job, describe(error, job.copy)
                    else:
                        going[job] = start_dvc(dvc, job)
                        say(f"{job.copy.name}: at work, see {job.log.name} in {HOME}")
                time.sleep(0.2)
                for job in [job for job, process in going.items() if process.poll() is not None]:
                    code = going.pop(job).returncode
                    advance(1, job.copy.name)
                    yield job, describe(read_failure(job.log, code), job.copy) if code else None
    finally:
        # Ctrl-C reached them as well: a training saves its step and ends.
        for process in going.values():
            process.wait()


def start_dvc(dvc: str, job: SeedJob) -> subprocess.Popen[bytes]:
    """Start `dvc repro` in a copy; it ends with this process."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("DVC_EXP")}
    # The code that DVC hashes in the copy is the code that runs, whatever happens to the project meanwhile.
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [f"{job.copy.resolve()}/src", env.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "assay.core.parent", dvc, "repro", job.stage]
    with job.log.open("wb") as log:
        quiet = subprocess.DEVNULL
        return subprocess.Popen(command, cwd=job.copy, env=env, stdin=quiet, stdout=log, stderr=log)


def read_failure(log: Path, code: int) -> str:
    """Return in one line why DVC ended with a code: what assay said last, else what DVC said first."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    ours, theirs = ([line for line in lines if line.startswith(start)] for start in ("assay: ", "ERROR: "))
    if ours or theirs:
        return (ours[-1:] or theirs)[0].partition(": ")[2].rstrip(".")
    return f"DVC ended with {code}" if code > 0 else f"DVC was ended by signal {-code}"


def prepare_copy(job: SeedJob) -> None:
    """Make a copy hold its source's inputs as they are now, and what is handed to it; other outputs stay."""
    source, copy = job.source, job.copy
    wait_for_stages(copy)
    for name in INPUTS:
        _replace(source / name, copy / name)
    # No git of its own; DVC's cache is the project's, so that what is known there is not made again.
    # Relative, since a comma or # in the way to the project would be grammar there.
    cache = os.path.relpath((copy.parents[2] / ".dvc/cache").resolve(), (copy / ".dvc").resolve())
    write_text(copy / ".dvc/config.local", f"[core]\n    no_scm = true\n[cache]\n    dir = {cache}\n")
    (copy / ".dvc/tmp/rwlock").unlink(missing_ok=True)  # a killed DVC can leave it empty, which none can read
    if job.base_seed is not None:
        preset = f"configs/grpo/{job.settings.grpo}.yaml"
        line = r"(\n  kind: scratch\n  seed: )\d+"
        text, count = re.subn(line, rf"\g<1>{job.base_seed}", read_text(copy / preset, fix=_FIX))
        if count != 1:
            expected = "a base that is built from a seed"
            raise ConfigError(expected, found="none", where=preset, fix="no --bases")
        write_text(copy / preset, text)
    use(copy, grpo=job.settings.grpo, task=job.settings.task, seed=job.settings.seed)
    params = Project.open(copy).params
    data = params.dataset.root
    if not Path(data).is_absolute() and not data.startswith("data/"):
        _replace(source / data, copy / data)
    model = Path(params.base.model) if isinstance(params.base, PretrainedBase) else Path("~")
    if (source / model).is_dir() and not model.is_absolute() and not os.path.lexists(copy / model):
        # Gigabytes, and told by their digest: a link will do.
        (copy / model).parent.mkdir(parents=True, exist_ok=True)
        (copy / model).symlink_to((source / model).resolve())
    hand_over(source, copy, job.handed)


def has_stages(copy: Path) -> bool:
    """Return whether a copy has a dvc.lock that is whole; one torn by a kill is none."""
    with suppress(AssayError):
        return bool(read_stages(copy))
    return False


def hand_over(source: Path, copy: Path, handed: Sequence[str]) -> None:
    """Give a copy the outputs of stages, and what dvc.lock says of them; what is lacking is made anew."""
    before = read_stages(copy) if has_stages(copy) else {}
    known = {name: stage for name, stage in read_stages(source).items() if name in handed}
    for out in [out for stage in known.values() for out in stage.get("outs", [])]:
        path = str(out["path"])
        if _OUTPUT.fullmatch(path) and (source / path).exists():
            _replace(source / path, copy / path)
    after = {name: stage for name, stage in before.items() if name not in handed} | known
    if not after:
        (copy / LOCK).unlink(missing_ok=True)
    elif after != before:  # otherwise it keeps its bytes, and so its digest; JSON is YAML
        write_text(copy / LOCK, dumps({"schema": "2.0", "stages": after}) + "\n")


def wait_for_stages(copy: Path, seconds: float = 120.0) -> None:
    """Wait until no stage of a killed call is at work in a copy: each saves its step. At last RunningAlready."""
    until, locks = time.monotonic() + seconds, sorted((copy / ".scratch").glob("*/*.lock"))
    while locks:
        try:
            with hold(locks[0]):
                locks.pop(0)
        except RunningAlready:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def _replace(source: Path, target: Path) -> None:
    """Put a file or a folder in the place of another: a file that the source lost would count for DVC."""
    if not source.is_dir():
        write_bytes(target, read_bytes(source, fix=_FIX))
        return
    if target.is_dir():
        shutil.rmtree(target)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info"))
