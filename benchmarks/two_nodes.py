"""Does training on two machines give what two processes of one machine give? Writes results/two_nodes.json.

Two launches on this machine play two machines: each has its own copy of the project and its own torchrun, they know of each
other by address and port alone, and share the folder of checkpoints (DVC_ROOT). They train whole once; then a second time,
where the second machine is told to stop in the middle, and both are called again. Both times the chain over every prompt,
completion, reward, gradient and weight must be that of one machine with two processes.
Usage: ./run bench two_nodes
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULT = Path(__file__).parent / "results" / "two_nodes.json"
TAKEN = ("configs", "constraints.txt", "data", "dvc.yaml", "params.yaml", "src")
NODES, STEPS, STOP_AT = 2, 20, 4
# In the preset of the smoke run: each process has half of a step's 16 episodes.
CHANGES = {
    "distributed: {processes: 1,": f"distributed: {{processes: {NODES},",
    "micro_batch_size: 16": "micro_batch_size: 8",
    "  steps: 6\n": f"  steps: {STEPS}\n",
}
RESULTS_OF_TRAIN = ("training_log.csv", "train_log.jsonl", "health.jsonl", "checkpoint_evals.csv", "train.json")
COMMAND = [sys.executable, "-m", "assay.cli", "train"]


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a stage: the copy's own code, and nothing that DVC or torchrun left."""
    left_out = ("RANK", "WORLD_SIZE", "ASSAY_TORCHRUN", "DVC_ROOT", "DVC_STAGE")
    return {name: value for name, value in os.environ.items() if name not in left_out} | {"PYTHONPATH": "src"} | more


def run(project: Path, *arguments: str, **more: str) -> None:
    """Run a stage; show its output only if it fails."""
    command = [sys.executable, "-m", "assay.cli", *arguments]
    done = subprocess.run(command, cwd=project, env=environment(**more), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")


def prepared(folder: Path) -> Path:
    """Return a copy of this project with a base, and settings for two processes."""
    project = folder / "prepared"
    project.mkdir()
    for name in TAKEN:
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, project / name)
    preset = project / "configs/grpo/tiny_smoke.yaml"
    text = preset.read_text(encoding="utf-8")
    for old, new in CHANGES.items():
        if text.count(old) != 1:
            raise SystemExit(f"{preset.name} no longer has one line {old!r}")
        text = text.replace(old, new)
    preset.write_text(text, encoding="utf-8")
    run(project, "config", "use", "grpo=tiny_smoke", "task=collider", "seed=0")
    run(project, "fingerprint")
    run(project, "base")
    run(project, "pre-eval")
    return project


def copied(source: Path, name: str) -> Path:
    """Return a copy beside a project."""
    return Path(shutil.copytree(source, source.parent / name))


def port() -> int:
    """Return a free port."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def on_nodes(nodes: list[Path], shared: Path, stop: Callable[[], bool] = lambda: False) -> list[tuple[int, str]]:
    """Train on all nodes at once; return the exit code of each and what it said.

    Args:
        nodes: The project of each node.
        shared: The folder of .scratch.
        stop: Once this is true, the last node is told to stop.
    """
    chosen = port()
    outputs = [node.parent / f"{node.name}.txt" for node in nodes]
    running = []
    for rank, (node, output) in enumerate(zip(nodes, outputs, strict=True)):
        told = f"--nnodes={len(nodes)} --node-rank={rank} --nproc-per-node=1 --master-addr=127.0.0.1 --master-port={chosen}"
        own = environment(ASSAY_TORCHRUN=told, DVC_ROOT=str(shared))
        with output.open("w") as stream:
            running.append(subprocess.Popen(COMMAND, cwd=node, env=own, stdout=stream, stderr=subprocess.STDOUT))
    told_to_stop = False
    while any(process.poll() is None for process in running):
        if not told_to_stop and stop():
            told_to_stop = True
            running[-1].terminate()
        time.sleep(0.05)
    return [(process.returncode, output.read_text()) for process, output in zip(running, outputs, strict=True)]


def chain(project: Path) -> str:
    """Return the chain of a finished training."""
    return str(json.loads((project / "evidence/results/train.json").read_text(encoding="utf-8"))["chain"])


def evidence(project: Path) -> list[str]:
    """Return what a training left in a project."""
    names = [f"evidence/results/{name}" for name in RESULTS_OF_TRAIN]
    return [name for name in [*names, "evidence/observed", "models/adapter"] if (project / name).exists()]


def steps_saved(shared: Path) -> list[int]:
    """Return the steps at which there is a checkpoint."""
    return sorted(int(path.name.split("-")[1]) for path in (shared / ".scratch/train").glob("*/step-*"))


def equal_files(one: Path, other: Path) -> bool:
    """Return whether two trainings wrote the same results, byte by byte."""
    names = [f"evidence/results/{name}" for name in RESULTS_OF_TRAIN]
    names += [f"models/adapter/{path.name}" for path in (one / "models/adapter").iterdir()]
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


def expect(ended: list[tuple[int, str]], *codes: tuple[int, ...]) -> None:
    """Give up if a node ended with another exit code than one of those that it may."""
    for rank, ((code, said), may) in enumerate(zip(ended, codes, strict=True)):
        if code not in may:
            raise SystemExit(f"node {rank} ended with {code} instead of {may}:\n{said[-3000:]}")


def main() -> None:
    """Train in all ways and write what was found."""
    with tempfile.TemporaryDirectory(prefix="assay-nodes-") as folder:
        source = prepared(Path(folder))
        shutil.rmtree(source / "evidence/observed", ignore_errors=True)
        seconds: dict[str, float] = {}

        def timed(name: str, work: Callable[[], Any]) -> Any:
            start = time.monotonic()
            found = work()
            seconds[name] = round(time.monotonic() - start, 1)
            print(f"{name}: {seconds[name]} s", flush=True)
            return found

        one = copied(source, "one machine")
        timed("one machine, two processes", lambda: run(one, "train"))
        whole = [copied(source, f"whole {rank}") for rank in range(NODES)]
        expect(timed("two machines", lambda: on_nodes(whole, Path(folder) / "shared")), (0,), (0,))
        halted, shared = [copied(source, f"halted {rank}") for rank in range(NODES)], Path(folder) / "shared again"
        stopped = timed(
            "two machines until one is stopped",
            lambda: on_nodes(halted, shared, stop=lambda: any(step >= STOP_AT for step in steps_saved(shared))),
        )
        expect(stopped, (128, 143), (143,))
        after = max(steps_saved(shared))
        expect(timed("two machines, called again", lambda: on_nodes(halted, shared)), (0,), (0,))
        result = {
            "world_size": NODES,
            "steps": STEPS,
            "chains_equal": chain(one) == chain(whole[0]),
            "results_equal_byte_by_byte": equal_files(one, whole[0]),
            "stopped_after_step": after,
            "exit_codes_when_stopped": [code for code, _ in stopped],
            "chains_equal_after_stop": chain(one) == chain(halted[0]),
            "results_equal_byte_by_byte_after_stop": equal_files(one, halted[0]),
            "written_by_second_machine": sorted({*evidence(whole[1]), *evidence(halted[1])}),
            "chain": chain(one),
            "seconds": seconds,
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "versions": {
                "python": platform.python_version(),
                **{name: importlib.metadata.version(name) for name in ("torch", "trl", "transformers", "accelerate", "peft")},
            },
        }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2, sort_keys=True))


if __name__ == "__main__":
    main()
