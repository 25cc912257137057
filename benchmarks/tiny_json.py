"""What the preset tiny_json comes to: a base of a million parameters that is told and writes a task's JSON.

    ./run python benchmarks/tiny_json.py [--task collider] [--work DIR]

Clones the project, selects the preset, runs every stage and `assay verify`, and reads what came of it. What a
dialogue costs in tokens stands beside the compact surface of `tiny`. A stage that ended is not run again. One
seed and one run of a task: n = 1.

Writes results/tiny_json.json, beside the trials of tokens and drills that are there.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, ROOT, machine, options, written

from assay.core.config.composition import Selection, compose
from assay.core.config.reading import parse_params
from assay.core.config.settings import ScratchBase
from assay.core.seeds import rng
from assay.pipeline.policies import tokenizer_of
from assay.pipeline.project import Project
from assay.policy.renderer import Dialogue

STAGES = ("fingerprint", "base", "pre_eval", "train", "control", "post_eval", "render_evidence", "package")
TALKS = 200


def run(root: Path, task: str) -> dict[str, dict[str, float]]:
    """Run every stage in a clone and return the seconds of each; those of stages that ended before are
    kept."""
    clock = root.with_name(f"{root.name}_seconds.json")
    if not root.is_dir():
        subprocess.run(["git", "clone", "-q", str(ROOT), str(root)], check=True)
        call(root, "assay", "config", "use", "grpo=tiny_json", f"task={task}")
    seconds: dict[str, dict[str, float]] = json.loads(clock.read_text()) if clock.is_file() else {}
    for stage in STAGES:
        if stage not in seconds:
            seconds[stage] = call(root, "dvc", "repro", "-q", stage)
            clock.write_text(json.dumps(seconds), encoding="utf-8")
            print(f"{task}, {stage}: {seconds[stage]}", file=sys.stderr, flush=True)
    call(root, "assay", "verify", "dist/assay-package.tar")
    return seconds


def call(root: Path, *command: str) -> dict[str, float]:
    """Run a command in a project, and return how long it took, and its processors."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=root, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(time.perf_counter() - begun, 1), "processor_seconds": round(used, 1)}


def lengths(project: Project) -> dict[str, float]:
    """Return the mean tokens of a demonstration, and of one action in it."""
    assert isinstance(project.params.base, ScratchBase)
    task = project.task()
    dialogue = Dialogue(tokenizer_of(project.params.base, task))
    talks = task.demonstrations(rng("tiny json", "lengths"), TALKS)
    whole = [dialogue.whole(talk) for talk in talks]
    actions = sum(said["role"] == "assistant" for talk in talks for said in talk)
    return {
        "a_dialogue": round(sum(len(ids) for ids, _ in whole) / TALKS, 1),
        "an_action": round(sum(sum(mask) for _, mask in whole) / actions, 1),
    }


def found_in(project: Project, task: str) -> dict[str, Any]:
    """Return what a finished project says."""

    def told(name: str) -> Any:
        return json.loads(project.results(name).read_text(encoding="utf-8"))

    claim, base, reports = told("claim.json"), told("base.json"), told("reports.json")["arms"]
    compact = Project(ROOT, parse_params(compose(ROOT, Selection("tiny", task, 0)).values))
    return {
        "parameters": base["parameters"],
        "base_on_train_items": {
            name: base[name] for name in ("copy_accuracy", "parsed_rate", "success_rate")
        },
        "tokens": {"tiny_json": lengths(project), "tiny": lengths(compact)},
        "chosen_step": told("train.json")["chosen_step"],
        "steps": told("train.json")["steps"],
        "success": {name: claim[name] for name in ("before", "after", "difference")},
        "parsed": {name: reports[name]["measures"]["parsed_rate"] for name in ("pre_eval", "post_eval")},
        "scenarios": claim["n_clusters"],
        "draws": claim["draws"],
        "verdict": claim["verdict"],
        "reason": claim["reason"],
        "level": claim["level"],
        "p": claim["p"],
        "random_reward": claim["random_reward"],
        "rivals": {name: row["difference"] for name, row in claim["rivals"].items()},
        "warnings": claim["warnings"],
    }


def main() -> None:
    """Run, read and write."""
    parser = options(__doc__)
    parser.add_argument("--task", choices=("collider", "structured"), action="append")
    parser.add_argument("--work", type=Path, help="folder of the clones, kept; a temporary one if not given")
    parser.add_argument("--out", type=Path, default=RESULTS / "tiny_json.json")
    chosen = parser.parse_args()
    known = json.loads(chosen.out.read_text(encoding="utf-8")) if chosen.out.is_file() else {"tasks": {}}
    with tempfile.TemporaryDirectory() as spare:
        for task in chosen.task or ("collider", "structured"):
            root = (chosen.work or Path(spare)).resolve() / task
            seconds = run(root, task)
            row = found_in(Project.open(root), task) | {"stages": seconds}
            row |= {
                name: round(sum(each[name] for each in seconds.values()), 1)
                for name in ("seconds", "processor_seconds")
            }
            known |= {"machine": machine(), "runs_of_each_task": 1}
            known["tasks"][task] = row
            written(chosen.out, known, indent=1, sort_keys=False)


if __name__ == "__main__":
    main()
