"""Copies of the project in .scratch/seeds/, one a training seed: the same stages under the same DVC, off the work tree.

A copy stays. Called again it takes up what changed in the project, and DVC decides what has to run again, which is nothing
where nothing changed. `dvc exp run --temp` would not do: two at a time share the project's stash, one that is killed can
leave it behind, and a task that is not the selected one would be measured before training once for every seed.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.composition import use
from assay.config.settings import PretrainedBase
from assay.console import say
from assay.errors import AssayError, ConfigError, RunningAlready
from assay.stages.project import Project
from assay.storage.files import read_bytes, read_text, write_bytes, write_text
from assay.storage.json import dumps
from assay.storage.locks import hold
from assay.storage.yaml import read_yaml

LOCK, PIPELINE = "dvc.lock", "dvc.yaml"
# What stages read of a project besides each other's outputs; evidence, dvc.lock and models are theirs.
INPUTS = ("src", "configs", "data", "constraints.txt", PIPELINE, ".dvcignore", ".dvc/config", ".dvc/plots")
SHARED = ("fingerprint", "base", "pre_eval")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info")
_FIX = "call this in the project's folder"


def home(root: Path) -> Path:
    """Return the folder of all copies."""
    return root / ".scratch/seeds"


def refresh(
    root: Path, copy: Path, *, grpo: str, task: str, seed: int, base_seed: int | None = None, inputs: Path | None = None
) -> None:
    """Make a copy hold the project's inputs as they are now, with this preset, task and seed; outputs stay as they were.

    With `base_seed` the copy's preset builds its base from that one; with `inputs` they are taken from that copy instead,
    so that all seeds of a call are of one state of the project, whatever is edited meanwhile.

    Raises:
        RecordError: An input is missing.
        ConfigError: The settings are wrong.
    """
    source = root if inputs is None else inputs
    for name in INPUTS:
        _replace(source / name, copy / name)
    # No git of its own; DVC's cache is the project's, so that what is known there is not made again.
    # Relative, since a comma or # in the way to the project would be grammar there.
    cache = os.path.relpath((root / ".dvc/cache").resolve(), (copy / ".dvc").resolve())
    write_text(copy / ".dvc/config.local", f"[core]\n    no_scm = true\n[cache]\n    dir = {cache}\n")
    (copy / ".dvc/tmp/rwlock").unlink(missing_ok=True)  # a killed DVC can leave it empty, which none can read
    if (copy / LOCK).is_file() and not _whole(copy):  # torn, likewise: without it every stage of this copy runs again
        say(f"{copy.name}: dvc.lock cannot be read and is left out")
        (copy / LOCK).unlink()
    if base_seed is not None:
        preset = copy / f"configs/grpo/{grpo}.yaml"
        text, count = re.subn(r"(\n  kind: scratch\n  seed: )\d+", rf"\g<1>{base_seed}", read_text(preset, fix=_FIX))
        if count != 1:
            raise ConfigError(
                "a base that is built from a seed", found="none", where=f"configs/grpo/{grpo}.yaml", fix="no --bases"
            )
        write_text(preset, text)
    use(copy, grpo=grpo, task=task, seed=seed)
    _within_reach(source, copy)


def _whole(copy: Path) -> bool:
    try:
        stages = lock_of(copy).get("stages")
    except AssayError:
        return False
    return isinstance(stages, dict) and all(isinstance(stage, dict) and "cmd" in stage for stage in stages.values())


def _within_reach(root: Path, copy: Path) -> None:
    """Give a copy what its settings name by a path relative to the project, and INPUTS do not hold."""
    params = Project.open(copy).params
    data = params.dataset.root
    if not Path(data).is_absolute() and not data.startswith("data/"):
        _replace(root / data, copy / data)
    model = Path(params.base.model) if isinstance(params.base, PretrainedBase) else Path("~")
    if (root / model).is_dir() and not model.is_absolute() and not os.path.lexists(copy / model):
        # Gigabytes, and told by their digest: a link will do.
        (copy / model).parent.mkdir(parents=True, exist_ok=True)
        (copy / model).symlink_to((root / model).resolve())


def _replace(source: Path, target: Path) -> None:
    if source.is_dir():
        # A file that is gone from the project must go from the copy too: it would count for the digest of its folder.
        known = {path.relative_to(source) for path in source.rglob("*")}
        for path in sorted(target.rglob("*"), reverse=True) if target.is_dir() else []:
            if path.relative_to(target) not in known:
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        shutil.copytree(source, target, ignore=_LEFT_OUT, dirs_exist_ok=True)
    else:
        write_bytes(target, read_bytes(source, fix=_FIX))


def first_outputs(root: Path, copy: Path) -> None:
    """Give a new copy what the project knows: if its last run was of the same settings, DVC has nothing to do."""
    if not (copy / LOCK).is_file() and (root / LOCK).is_file():
        hand_over(root, copy, lock_of(root))


def hand_over(source: Path, copy: Path, lock: Mapping[str, Any], shared: Sequence[str] = SHARED) -> None:
    """Give a copy the outputs of stages, and what dvc.lock says of them; the rest stays its own.

    What is missing in the source is left out, and is made anew.

    Args:
        source: The project that has them.
        copy: Where they go.
        lock: Contents of the source's dvc.lock.
        shared: The stages; those up to the measurement before training if not given.
    """
    stages = lock.get("stages") or {}
    own = (lock_of(copy).get("stages") or {}) if (copy / LOCK).is_file() else {}
    for stage in shared:
        own.pop(stage, None)
        if stage not in stages:
            continue
        own[stage] = stages[stage]
        for out in stages[stage].get("outs", []):
            path = str(out["path"])
            if (source / path).exists():
                _replace(source / path, copy / path)
    # JSON is YAML; DVC writes the file in its own form as soon as it changes something.
    write_text(copy / LOCK, dumps({"schema": "2.0", "stages": own}) + "\n")


def lock_of(project: Path) -> dict[str, Any]:
    """Return what dvc.lock says.

    Raises:
        ConfigError: It is missing or damaged.
    """
    return read_yaml(project / LOCK, fix="git checkout -- dvc.lock, or ./run repro")


def same_baseline(copies: Iterable[Path]) -> bool:
    """Return whether all copies tell of one base and one measurement of it, by the digests in dvc.lock."""
    outs = {
        dumps([lock_of(copy)["stages"][stage].get("outs", []) for stage in ("base", "pre_eval")])
        for copy in copies
    }  # fmt: skip
    return len(outs) <= 1


def await_stages(copy: Path, seconds: float = 120.0) -> None:
    """Wait until no stage of an earlier call that was killed is at work in a copy: each saves its step before it ends.

    Raises:
        RunningAlready: One is still there after so long.
    """
    until, told = time.monotonic() + seconds, False
    for path in sorted((copy / ".scratch").glob("*/*.lock")):
        while True:
            try:
                with hold(path):
                    break
            except RunningAlready:
                if time.monotonic() > until:
                    raise
                if not told:
                    say(f"{copy.name}: a stage of an earlier call is just ending")
                told = True
                time.sleep(0.5)
