"""A whole copy of this project in a folder of its own, with other settings, whose commands are run as a user
runs them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from assay.core.config.composition import preset_values
from assay.core.evidence_files import place_of
from assay.core.storage.yaml import read_yaml
from tests.house import ROOT

TAKEN = ("configs", "constraints.txt", "data", "dvc.yaml", "params.yaml", "src", "tasks")
LEFT_OUT = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "ASSAY_TORCHRUN",
    "DVC_ROOT",
    "DVC_STAGE",
    "TORCHELASTIC_RUN_ID",
)


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a command in a copy: the copy's own code, and nothing that DVC or torchrun
    left."""
    return (
        {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
        | {"PYTHONPATH": "src"}
        | more
    )


def copied_project(folder: Path, preset: str, task: str, changes: Mapping[str, Any]) -> Path:
    """Copy this project with some settings of a preset or task changed, by dotted names, and fingerprint its
    data."""
    folder.mkdir(parents=True)
    for name in TAKEN:
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, folder / name)
    names = (f"grpo/{preset}", f"task/{task}", f"both/{preset}-{task}")
    for file in (folder / f"configs/{name}.yaml" for name in names):
        if not file.is_file():
            continue
        # Whole, so that a change is found also where the preset leaves it to what it starts from.
        group = file.parent.name
        values = read_yaml(file, fix="") if group == "both" else preset_values(folder, group, file.stem)
        for dotted, value in changes.items():
            *path, last = dotted.split(".")
            section: Any = values
            for name in path:
                section = section.get(name, {}) if isinstance(section, dict) else {}
            if last in section:
                section[last] = value
        file.write_text(f"# @package _global_\n{json.dumps(values, indent=1)}\n", encoding="utf-8")
    run(folder, "config", "use", f"grpo={preset}", f"task={task}", "seed=0")
    chosen = read_yaml(folder / "params.yaml", fix="")
    for dotted, value in changes.items():
        found: Any = chosen
        for name in dotted.split("."):
            found = found[name]
        assert found == value, f"{dotted} is {found}, not {value}"
    run(folder, "fingerprint")
    return folder


def copy_of(project: Path, name: str) -> Path:
    """Return a copy beside a project."""
    return Path(shutil.copytree(project, project.parent / name))


def run(project: Path, *arguments: str, codes: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
    """Run a command of assay.

    Raises:
        RuntimeError: It ended with another exit code than one of these; says what it said.
    """
    command = [sys.executable, "-m", "assay.cli", *arguments]
    done = subprocess.run(
        command, cwd=project, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode not in codes:
        said = f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        raise RuntimeError(f"assay {' '.join(arguments)} ended with {done.returncode}:\n{said}")
    return done


def killed_when(project: Path, *arguments: str, when: Callable[[], bool], seconds: float = 600.0) -> int:
    """Run a command and kill it with SIGKILL as soon as something is true; return its exit code, -9 if it was
    killed."""
    command = [sys.executable, "-m", "assay.cli", *arguments]
    with (project / "killed.txt").open("w") as stream:
        running = subprocess.Popen(
            command, cwd=project, env=environment(), stdout=stream, stderr=subprocess.STDOUT
        )
        begun = time.monotonic()
        while running.poll() is None and not when():
            if time.monotonic() - begun > seconds:
                running.kill()
                raise RuntimeError(
                    f"not within {seconds:.0f} s:\n{(project / 'killed.txt').read_text()[-3000:]}"
                )
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
        return running.wait()


def steps_saved(project: Path) -> list[int]:
    """Return the steps at which the training of a project has a checkpoint."""
    return sorted(int(path.name.split("-")[1]) for path in (project / ".scratch/train").glob("*/step-*"))


def facts(project: Path) -> dict[str, Any]:
    """Return train.json of a finished training."""
    found: dict[str, Any] = json.loads(
        (project / "evidence/results/train/train.json").read_text(encoding="utf-8")
    )
    return found


def left_by_training(project: Path) -> dict[str, bytes]:
    """Return all that a training gives that is no clock, by name."""
    names = ("training_log.csv", "train_log.jsonl", "health.jsonl", "checkpoint_evals.csv", "train.json")
    files = [project / place_of(name) for name in names] + sorted((project / "models/adapter").iterdir())
    return {path.name: path.read_bytes() for path in files}
