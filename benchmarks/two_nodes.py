"""Do two processes, and two machines, give what one gives? The whole pipeline; writes results/two_nodes.json.

Two launches on this machine play two machines, in three ways:
* by hand: each has its own copy of the project and its own torchrun; they know of each other by address and
  port alone and share the folder of checkpoints (DVC_ROOT). What one writes is copied to the other between
  stages, as rsync would.
* the same for the training alone, where the second machine is told to stop in the middle, and both are
  called again.
* by configs/launch/slurm.sh on a Slurm of small programs (tests/fake_slurm.py) and one folder, told to stop
  in the middle.
All of them must give, byte by byte, what one machine with two processes gives by `dvc repro`. One process
does the same work up to the training; where its training parts from that of two processes is written down.
The base is made once for all. Usage: ./run bench two_nodes
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests import fake_slurm

RESULT = Path(__file__).parent / "results" / "two_nodes.json"
TAKEN = (
    *(".dvc/config", ".dvc/plots", ".dvcignore", ".gitignore", "LICENSE", "configs", "constraints.txt"),
    *("data", "dvc.yaml", "params.yaml", "pyproject.toml", "requirements.txt", "src"),
)
NODES, STEPS, STOP_AT = 2, 10, 2
LIBRARIES = ("torch", "trl", "transformers", "accelerate", "peft")
PROCESSES = f"distributed: {{processes: {NODES},"
# In the preset of the smoke run: each process has half of a step's 16 episodes, and a suite is several units.
CHANGES = {
    "distributed: {processes: 1,": PROCESSES,
    "micro_batch_size: 16": "micro_batch_size: 8",
    "  batch_size: 256\n": "  batch_size: 8\n",
    "  steps: 6\n": f"  steps: {STEPS}\n",
}
SHARED_OUT = ("pre-eval", "train", "control", "post-eval")
STAGES = (
    *SHARED_OUT,
    "render-evidence",
)  # after those that make the base, and before DVC packs what it was told of
LOG = "evidence/logs/train/train_log.jsonl"
OF_TRAIN = (
    *(f"evidence/results/train/{name}.csv" for name in ("training_log", "reward_components")),
    "evidence/results/train/validation_scores.csv",
    *(f"evidence/results/train/{name}" for name in ("health.jsonl", "train.json")),
    *(LOG, "evidence/logs/train/validation.jsonl", "models/adapter/adapter_model.safetensors"),
)
PRODUCTS = ("evidence/results", "evidence/logs", "evidence/README.md", "models", "dist")
ASSAY = [sys.executable, "-m", "assay.cli"]


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a stage: the copy's own code, and nothing that DVC, torchrun or Slurm
    left."""
    left_out = ("RANK", "WORLD_SIZE", "ASSAY_TORCHRUN", "ASSAY_ON_NODES", "DVC_ROOT", "DVC_STAGE")
    own = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    own = {name: value for name, value in own.items() if name not in left_out}
    own["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), own["PATH"]])
    own |= {"SHELL": shutil.which("bash") or "/bin/sh", "PYTHONPATH": "src"}
    return own | {"ASSAY_REDRAW_SECONDS": "0", "DVC_NO_ANALYTICS": "1"} | more


def run(project: Path, *command: str, **more: str) -> None:
    """Run a command; show its output only if it fails."""
    done = subprocess.run(
        command, cwd=project, env=environment(**more), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")


def prepared(folder: Path) -> Path:
    """Return a copy of this project with settings for two processes, and a base."""
    project = folder / "prepared"
    for name in TAKEN:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, project / name)
    (project / ".dvc/config.local").write_text("[core]\n    no_scm = true\n", encoding="utf-8")
    (project / "run").write_text('#!/bin/sh\nexec "$@"\n', encoding="utf-8")  # without setting anything up
    (project / "run").chmod(0o755)
    change(project, CHANGES)
    run(project, "dvc", "repro", "base")
    return project


def change(project: Path, changes: dict[str, str]) -> None:
    """Change lines of the preset, and choose it."""
    preset = project / "configs/grpo/tiny_smoke.yaml"
    text = preset.read_text(encoding="utf-8")
    for old, new in changes.items():
        if text.count(old) != 1:
            raise SystemExit(f"{preset.name} no longer has one {old!r}")
        text = text.replace(old, new)
    preset.write_text(text, encoding="utf-8")
    run(project, *ASSAY, "config", "use", "grpo=tiny_smoke", "task=collider", "seed=0")


def copied(source: Path, name: str) -> Path:
    """Return a copy beside a project."""
    return Path(shutil.copytree(source, source.parent / name))


def port() -> int:
    """Return a free port."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def on_nodes(
    nodes: Sequence[Path], stage: str, shared: Path, stop: Callable[[], bool] = lambda: False
) -> list[tuple[int, str]]:
    """Run a stage on all nodes at once; return the exit code of each and what it said.

    Args:
        nodes: The project of each node.
        stage: Which stage.
        shared: The folder of .scratch.
        stop: Once this is true, the last node is told to stop.
    """
    chosen = port()
    outputs = [node.parent / f"{node.name}.txt" for node in nodes]
    running = []
    for rank, (node, output) in enumerate(zip(nodes, outputs, strict=True)):
        told = (
            f"--nnodes={len(nodes)} --node-rank={rank} --nproc-per-node=1 --master-addr=127.0.0.1"
            f" --master-port={chosen}"
        )
        own = environment(ASSAY_TORCHRUN=told, DVC_ROOT=str(shared))
        with output.open("w") as stream:
            running.append(
                subprocess.Popen([*ASSAY, stage], cwd=node, env=own, stdout=stream, stderr=subprocess.STDOUT)
            )
    told_to_stop = False
    while any(process.poll() is None for process in running):
        if not told_to_stop and stop():
            told_to_stop = True
            running[-1].terminate()
        time.sleep(0.05)
    return [
        (process.returncode, output.read_text()) for process, output in zip(running, outputs, strict=True)
    ]


def by_hand(nodes: Sequence[Path], shared: Path, stages: Sequence[str]) -> None:
    """Run stages one after another: what is shared out on all nodes, the rest on the first; hand on what was
    written."""
    for stage in stages:
        if stage in SHARED_OUT:
            expect(on_nodes(nodes, stage, shared), (0,), (0,))
        else:
            run(nodes[0], *ASSAY, stage, DVC_ROOT=str(shared))
        for other in nodes[1:]:
            hand_on(nodes[0], other)


def packed(project: Path) -> None:
    """Tell DVC what was run without it, and let it do what is left: the package."""
    run(project, "dvc", "commit", "--force", *(stage.replace("-", "_") for stage in STAGES))
    run(project, "dvc", "repro")


def hand_on(source: Path, target: Path) -> None:
    """Copy what stages wrote to another machine."""
    for name in ("evidence/results", "evidence/logs", "models"):
        shutil.rmtree(target / name, ignore_errors=True)
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name)


def stopped_and_again(nodes: Sequence[Path], shared: Path) -> dict[str, Any]:
    """Stop the training of the second node in the middle, and call both again."""
    ended = on_nodes(
        nodes, "train", shared, stop=lambda: any(step >= STOP_AT for step in steps_saved(shared))
    )
    expect(ended, (128, 143), (143,))
    found = {"after_step": max(steps_saved(shared)), "exit_codes": [code for code, _ in ended]}
    by_hand(nodes, shared, ["train"])
    return found


def by_slurm(project: Path, number: int, stop: Callable[[], bool] = lambda: False) -> str:
    """Run the batch script as a job of two nodes; return what it said.

    Args:
        project: The folder that all nodes see.
        number: Of the job.
        stop: Once this is true, the script is told to stop, as sbatch does before the time is up.
    """
    commands = project.parent / f"slurm {number}"
    own = environment(**fake_slurm.job(project, NODES, number))
    own["PATH"] = os.pathsep.join([str(fake_slurm.write(commands)), own["PATH"]])
    script = project / "configs/launch/slurm.sh"
    output = project.parent / f"job {number}.txt"
    with output.open("w") as stream:
        job = subprocess.Popen(["bash", script], cwd="/", env=own, stdout=stream, stderr=subprocess.STDOUT)
    told_to_stop = False
    while job.poll() is None:
        if not told_to_stop and stop():
            told_to_stop = True
            job.send_signal(signal.SIGTERM)
        time.sleep(0.05)
    said, queued = output.read_text(), commands / "requeued"
    # The last line of the second is the verdict's, which may be that there is none.
    if told_to_stop and (job.returncode or queued.read_text() != f"requeue {number}\n"):
        raise SystemExit(f"the job was not queued again:\n{said[-3000:]}")
    if not told_to_stop and (queued.exists() or not (project / "dist/assay-package.tar").exists()):
        raise SystemExit(f"the job ended with {job.returncode}:\n{said[-3000:]}")
    return said


def steps_saved(shared: Path) -> list[int]:
    """Return the steps at which there is a checkpoint."""
    return sorted(int(path.name.split("-")[1]) for path in (shared / ".scratch/train").glob("*/step-*"))


def products(project: Path) -> dict[str, bytes]:
    """Return every file that is a function of data, settings and code."""
    files = []
    for place in (project / name for name in PRODUCTS):
        files += [path for path in (place, *place.rglob("*")) if path.is_file()]
    return {path.relative_to(project).as_posix(): path.read_bytes() for path in files}


def differing(one: Path, other: Path, names: Sequence[str] = ()) -> list[str]:
    """Return which products, or which of those with a name, differ or are missing on a side."""
    ours, theirs = products(one), products(other)
    every = names or {*ours, *theirs}
    return sorted(name for name in every if name not in ours or ours[name] != theirs.get(name))


def clocks(project: Path) -> dict[str, int]:
    """Return how many processes the clocks of a project say that they measured."""
    names = ("pre_eval", "pre_eval_greedy", "post_eval", "post_eval_greedy")
    return {
        name: json.loads((project / f"evidence/observed/{name}_clock.json").read_text())["processes"]
        for name in names
    }


def parting(one: Path, other: Path) -> list[str]:
    """Return what `assay runs diff` says of two trainings."""
    command = [*ASSAY, "runs", "diff", str(one / LOG), str(other / LOG)]
    done = subprocess.run(command, cwd=one, env=environment(), capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).replace(str(one.parent), "…").splitlines()
    return [line for line in lines if line.strip()]


def equal_steps(one: Path, other: Path) -> dict[str, int]:
    """Return for each link of the chain how many first steps have it equal in both trainings."""
    texts = [(project / LOG).read_text() for project in (one, other)]
    logs = [[json.loads(line) for line in text.splitlines()] for text in texts]
    found = {}
    for name in ("prompts", "completions", "rewards", "gradients", "weights"):
        same = [a["digests"][name] == b["digests"][name] for a, b in zip(*logs, strict=True)]
        found[name] = same.index(False) if False in same else len(same)
    return found


def expect(ended: list[tuple[int, str]], *codes: tuple[int, ...]) -> None:
    """Give up if a node ended with another exit code than one of those that it may."""
    for rank, ((code, said), may) in enumerate(zip(ended, codes, strict=True)):
        if code not in may:
            raise SystemExit(f"node {rank} ended with {code} instead of {may}:\n{said[-3000:]}")


def main() -> None:
    """Run the pipeline in all ways and write what was found."""
    with tempfile.TemporaryDirectory(prefix="assay-nodes-") as name:
        folder, seconds = Path(name), dict[str, float]()
        source = prepared(folder)

        def timed(name: str, work: Callable[[], Any]) -> Any:
            start = time.monotonic()
            found = work()
            seconds[name] = round(time.monotonic() - start, 1)
            print(f"{name}: {seconds[name]} s", flush=True)
            return found

        two, one = copied(source, "two processes"), copied(source, "one process")
        timed("one machine, two processes", lambda: run(two, "dvc", "repro"))
        change(one, {PROCESSES: "distributed: {processes: 1,"})
        timed("one machine, one process, up to its training", lambda: run(one, "dvc", "repro", "train"))
        whole = [copied(source, f"whole {rank}") for rank in range(NODES)]
        timed("two machines by hand", lambda: (by_hand(whole, folder / "shared", STAGES), packed(whole[0])))
        print("differ:", differing(two, whole[0]), flush=True)
        halted, again = [copied(source, f"halted {rank}") for rank in range(NODES)], folder / "shared again"
        for node in halted:
            hand_on(one, node)
        stopped = timed("their training, stopped and called again", lambda: stopped_and_again(halted, again))
        slurm = copied(source, "slurm")
        timed(
            "a job until it is stopped",
            lambda: by_slurm(slurm, 1, lambda: any(s >= STOP_AT for s in steps_saved(slurm))),
        )
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
            "written_by_second_machine": sorted(
                path.relative_to(node).as_posix()
                for node in (whole[1], halted[1])
                for path in (node / "evidence/observed").rglob("*")
            ),
            "processes_by_clock": clocks(two),
            "one_process_beside_two": {
                "equal_up_to_the_training": sorted(
                    name for name in products(one) if name not in differing(one, two)
                ),
                "products_that_differ": [name for name in differing(one, two) if name in products(one)],
                "first_steps_that_are_equal": equal_steps(one, two),
                "diff_runs": parting(one, two),
            },
            "seconds": seconds,
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "versions": {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}},
        }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2, sort_keys=True))


if __name__ == "__main__":
    main()
