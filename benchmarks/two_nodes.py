"""Do two machines give what one gives? The whole pipeline; writes results/two_nodes.json.

Two launches on this machine play two machines, in three ways:
* by hand: each has its own copy of the project and its own torchrun; they know of each other by address and
  port alone and share the folder of checkpoints (DVC_ROOT). What one writes is copied to the other between
  stages, as rsync would.
* the same for the training alone, where the second machine is told to stop in the middle, and both are
  called again.
* by configs/launch/slurm.sh on a Slurm of small programs (tests/fake_slurm.py) and one folder, told to stop
  in the middle.
All of them must give, byte by byte, what one machine with two processes gives by `dvc repro`. The base is
made once for all. Usage: ./run bench two_nodes (eight minutes)
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, ROOT, machine, written
from tests import fake_slurm
from tests.training.whole_project import copied_project, copy_of, environment, steps_saved

TAKEN = (
    ".dvc/config",
    ".dvc/plots",
    ".dvcignore",
    ".gitignore",
    "LICENSE",
    "pyproject.toml",
    "requirements.txt",
)
NODES, STEPS, STOP_AT = 2, 10, 2
# In the preset of the smoke run: each process has half of a step's 16 episodes, and a suite is several units.
CHANGES = {
    "distributed.processes": NODES,
    "train.micro_batch_size": 8,
    "train.steps": STEPS,
    "generation.batch_size": 8,
}
SHARED_OUT = ("pre-eval", "train", "control", "post-eval")
# After those that make the base, and before DVC packs what it was told of.
STAGES = (*SHARED_OUT, "render-evidence")
PRODUCTS = ("evidence/results", "evidence/logs", "evidence/README.md", "models", "dist")
OF_TRAIN = ("evidence/results/train/", "evidence/logs/train/", "models/adapter/adapter_model")
ASSAY = [sys.executable, "-m", "assay.cli"]


def around(**more: str) -> dict[str, str]:
    """Return the environment of a stage, without what Slurm left."""
    own = {name: value for name, value in environment().items() if not name.startswith("SLURM_")}
    own["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), own["PATH"]])
    own |= {"SHELL": shutil.which("bash") or "/bin/sh", "ASSAY_REDRAW_SECONDS": "0", "DVC_NO_ANALYTICS": "1"}
    return own | more


def run(project: Path, *command: str, **more: str) -> None:
    """Run a command; show its output only if it fails."""
    done = subprocess.run(
        command, cwd=project, env=around(**more), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")


def prepared(folder: Path) -> Path:
    """Return a copy of this project with settings for two processes, and a base."""
    project = copied_project(folder / "prepared", "tiny_smoke", "collider", CHANGES)
    for name in TAKEN:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, project / name)
    (project / ".dvc/config.local").write_text("[core]\n    no_scm = true\n", encoding="utf-8")
    (project / "run").write_text('#!/bin/sh\nexec "$@"\n', encoding="utf-8")  # without setting anything up
    (project / "run").chmod(0o755)
    run(project, "dvc", "repro", "base")
    return project


def reached(folder: Path) -> bool:
    """Return whether a training is so far that it is to be stopped."""
    return max(steps_saved(folder), default=0) >= STOP_AT


def waited_for(running: Sequence[subprocess.Popen[bytes]], stop: Callable[[], bool]) -> bool:
    """Wait for all to end; once `stop` is true tell the last one to stop, and return whether that was so."""
    told = False
    while any(process.poll() is None for process in running):
        if not told and stop():
            told = True
            running[-1].send_signal(signal.SIGTERM)
        time.sleep(0.05)
    return told


def on_nodes(
    nodes: Sequence[Path],
    stage: str,
    shared: Path,
    *may_end: tuple[int, ...],
    stop: Callable[[], bool] = lambda: False,
) -> list[int]:
    """Run a stage on all nodes at once; return the exit code of each.

    Args:
        nodes: The project of each node.
        stage: Which stage.
        shared: The folder of .scratch.
        may_end: The exit codes that each node may end with; 0 if not given.
        stop: Once this is true, the last node is told to stop.
    """
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    running = []
    for rank, node in enumerate(nodes):
        launch = f"--nnodes={len(nodes)} --node-rank={rank} --nproc-per-node=1 --master-addr=127.0.0.1"
        own = around(ASSAY_TORCHRUN=f"{launch} --master-port={port}", DVC_ROOT=str(shared))
        with node.with_suffix(".txt").open("w") as said:
            running.append(
                subprocess.Popen([*ASSAY, stage], cwd=node, env=own, stdout=said, stderr=subprocess.STDOUT)
            )
    waited_for(running, stop)
    codes = [process.returncode for process in running]
    for node, code, may in zip(nodes, codes, may_end or [(0,)] * len(nodes), strict=True):
        if code not in may:
            text = node.with_suffix(".txt").read_text()[-3000:]
            raise SystemExit(f"{node.name} ended {stage} with {code} instead of {may}:\n{text}")
    return codes


def by_hand(nodes: Sequence[Path], shared: Path, stages: Sequence[str]) -> None:
    """Run stages one after another: what is shared out on all nodes, the rest on the first; hand on what was
    written."""
    for stage in stages:
        if stage in SHARED_OUT:
            on_nodes(nodes, stage, shared)
        else:
            run(nodes[0], *ASSAY, stage, DVC_ROOT=str(shared))
        for other in nodes[1:]:
            for name in ("evidence/results", "evidence/logs", "models"):
                shutil.rmtree(other / name, ignore_errors=True)
                if (nodes[0] / name).is_dir():
                    shutil.copytree(nodes[0] / name, other / name)


def packed(project: Path) -> None:
    """Tell DVC what was run without it, and let it do what is left: the package."""
    run(project, "dvc", "commit", "--force", *(stage.replace("-", "_") for stage in STAGES))
    run(project, "dvc", "repro")


def stopped_and_again(nodes: Sequence[Path], shared: Path) -> dict[str, Any]:
    """Stop the training of the second node in the middle, and call both again."""
    by_hand(nodes, shared, ["pre-eval"])
    codes = on_nodes(nodes, "train", shared, (128, 143), (143,), stop=lambda: reached(shared))
    found = {"after_step": max(steps_saved(shared)), "exit_codes": codes}
    by_hand(nodes, shared, ["train"])
    return found


def by_slurm(project: Path, number: int, stop: Callable[[], bool] = lambda: False) -> None:
    """Run the batch script as a job of two nodes; once `stop` is true it is told to stop, as sbatch does
    before the time is up."""
    commands, output = project.parent / f"slurm {number}", project.parent / f"job {number}.txt"
    own = around(**fake_slurm.job(project, NODES, number))
    own["PATH"] = os.pathsep.join([str(fake_slurm.write(commands)), own["PATH"]])
    script = ["bash", str(project / "configs/launch/slurm.sh")]
    with output.open("w") as said:
        job = subprocess.Popen(script, cwd="/", env=own, stdout=said, stderr=subprocess.STDOUT)
    told, queued = waited_for([job], stop), commands / "requeued"
    # The last line of the second is the verdict's, which may be that there is none.
    if told:
        right = not job.returncode and queued.read_text() == f"requeue {number}\n"
    else:
        right = not queued.exists() and (project / "dist/assay-package.tar").exists()
    if not right:
        raise SystemExit(f"job {number} ended with {job.returncode}:\n{output.read_text()[-3000:]}")


def products(project: Path, only: Sequence[str] = ("",)) -> dict[str, bytes]:
    """Return every file that is a function of data, settings and code, or those whose names begin so."""
    places = [project / name for name in PRODUCTS]
    files = [path for place in places for path in (place, *place.rglob("*")) if path.is_file()]
    named = {path.relative_to(project).as_posix(): path for path in files}
    return {name: path.read_bytes() for name, path in named.items() if name.startswith(tuple(only))}


def differing(one: Path, other: Path, only: Sequence[str] = ("",)) -> list[str]:
    """Return which products differ or are missing on a side."""
    ours, theirs = products(one, only), products(other, only)
    return sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))


def main() -> None:
    """Run the pipeline in all ways and write what was found."""
    seconds: dict[str, float] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        start = time.monotonic()
        found = work()
        seconds[name] = round(time.monotonic() - start, 1)
        print(f"{name}: {seconds[name]} s", flush=True)
        return found

    with tempfile.TemporaryDirectory(prefix="assay-nodes-") as name:
        folder = Path(name)
        source = prepared(folder)
        two, slurm = copy_of(source, "two processes"), copy_of(source, "slurm")
        whole, halted = (
            [copy_of(source, f"{kind} {k}") for k in range(NODES)] for kind in ("whole", "halted")
        )
        timed("one machine, two processes", lambda: run(two, "dvc", "repro"))
        timed("two machines by hand", lambda: (by_hand(whole, folder / "shared", STAGES), packed(whole[0])))
        stopped = timed(
            "their training, stopped and called again", lambda: stopped_and_again(halted, folder / "again")
        )
        timed("a job until it is stopped", lambda: by_slurm(slurm, 1, lambda: reached(slurm)))
        stopped["job_after_step"] = max(steps_saved(slurm))
        timed("the job, queued again", lambda: by_slurm(slurm, 2))
        result = {
            "world_size": NODES,
            "steps": STEPS,
            "products": len(products(two)),
            "differ_from_one_machine_with_two_processes": {
                "two machines by hand": differing(two, whole[0]),
                "their training, stopped and called again": differing(two, halted[0], OF_TRAIN),
                "a Slurm job, stopped and queued again": differing(two, slurm),
            },
            "stopped": stopped,
            "seconds": seconds,
            "machine": machine(),
        }
    written(RESULTS / "two_nodes.json", result)


if __name__ == "__main__":
    main()
