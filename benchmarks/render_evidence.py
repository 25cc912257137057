"""Seconds that `assay render-evidence` takes on 14,500 episodes and ten times the committed training's
steps, one core; writes results/render_evidence.json.

The project is made in a temporary folder: the collider's own data and fingerprint, two scripted players in
the place of the policy before and after (500 items, nine draws sampled and one greedy, each arm; the one
before nine draws more, base against base), and the committed training's rows ten times over. Secondary suites
and the base's rivals are left out. Each run is a process of its own, import of Python included, and all
have to write the same bytes. Usage: PYTHONPATH=src python benchmarks/render_evidence.py
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

from assay.core.config.composition import Selection, compose
from assay.core.evidence_files import place_of
from assay.core.records import ControlFacts, HealthEvent, HealthSummary, TrainFacts
from assay.core.storage.files import read_bytes, sha256_bytes, write_text
from assay.core.storage.json import read_record, read_records, write_json, write_jsonl
from assay.evaluation.replay import play_baseline
from assay.evidence.claim.what_was_run import BaseFacts
from assay.pipeline.inputs import heldout_suite, task_of
from assay.pipeline.note_openings import note_opening, opened_records
from assay.pipeline.project import Project
from assay.pipeline.rival_files import BaseRivals
from assay.stages import fingerprint

ROOT = Path(__file__).resolve().parent.parent
RESULT = Path(__file__).parent / "results" / "render_evidence.json"
ITEMS, DRAWS, TIMES_OVER, REPEATS = 500, 9, 10, 3
BEFORE, AFTER = "random", "adaptive"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def make_project(root: Path) -> Project:
    """Return a project of the collider with the larger suite, fingerprinted."""
    for name in ("configs", "data/collider", "dvc.yaml", "dvc.lock"):
        source, target = ROOT / name, root / name
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    grpo, none = "grpo/tiny.yaml", "{few_shot: 0, best_of_n: 0, constrained: false}"
    for name, section, line, value in (
        (grpo, "evaluation", "items", ITEMS),
        (grpo, "evaluation", "draws", DRAWS),
        (grpo, "evaluation", "rivals", none),
        (grpo, "claim", "controls", "[aa]"),
        ("task/collider.yaml", "dataset", "secondary", "[]"),
    ):
        _set(root / "configs" / name, section, line, value)
    composed = compose(root, Selection("tiny", "collider", 0))
    write_text(root / "params.yaml", composed.text)
    project = Project.open(root)
    fingerprint.run(project)
    return project


def _set(path: Path, section: str, name: str, value: object) -> None:
    """Change one setting of a section in a preset."""
    lines, inside = path.read_text().split("\n"), False
    for k, line in enumerate(lines):
        inside = line.startswith(f"{section}:") or (inside and line.startswith(" "))
        if inside and line.strip().startswith(f"{name}:"):
            lines[k] = f"  {name}: {value}"
    path.write_text("\n".join(lines))


def play(project: Project) -> int:
    """Write the episodes of all arms, and what was opened; return how many episodes they are."""
    task, suite, played = task_of(project), heldout_suite(project), 0
    greedy = heldout_suite(project, draws=1)
    for label, player, asked in (
        ("pre_eval", BEFORE, suite),
        ("pre_eval_greedy", BEFORE, greedy),
        ("post_eval", AFTER, suite),
        ("post_eval_greedy", AFTER, greedy),
        ("base_again", BEFORE, heldout_suite(project, again=True)),
    ):
        episodes = play_baseline(task, task.baselines()[player], asked.plays(), player)
        told = [each.model_copy(update={"policy": _digest(player)}) for each in episodes]
        write_jsonl(project.results(f"{label}.jsonl"), told)
        played += len(episodes)
    base, trained = _digest(BEFORE), _digest(AFTER)
    note_opening(project, "pre_eval", suite, base, base=base)
    note_opening(project, "post_eval", suite, trained, base=base)
    write_json(project.results("openings.json"), opened_records(project, suite, trained, base, secondary={}))
    write_json(project.results("control.json"), ControlFacts(asked=False))
    write_json(project.results("rivals.json"), BaseRivals(rivals={}))
    return played


def _committed(name: str) -> Path:
    return ROOT / place_of(name)


def _digest(player: str) -> str:
    return hashlib.sha256(player.encode()).hexdigest()


def train(project: Project) -> int:
    """Write the logs of a training from the committed one, ten times as long; return its steps."""
    facts = read_record(_committed("train.json"), TrainFacts, fix="./run dvc repro train")
    steps = TIMES_OVER * facts.steps
    for name in ("training_log", "reward_components"):
        rows = pd.concat([pd.read_csv(_committed(f"{name}.csv"))] * TIMES_OVER, ignore_index=True)
        rows["step"] = range(1, len(rows) + 1)
        write_text(project.results(f"{name}.csv"), rows.to_csv(index=False, lineterminator="\n"))
    for name in ("checkpoint_evals", "validation_scores"):
        points = pd.read_csv(_committed(f"{name}.csv"), dtype={"item_id": str, "cluster": str})
        # Step 0 comes once.
        later = [
            points[points["step"] >= int(k > 0)].assign(step=lambda p, k=k: p["step"] + k * facts.steps)
            for k in range(TIMES_OVER)
        ]
        write_text(project.results(f"{name}.csv"), pd.concat(later).to_csv(index=False, lineterminator="\n"))
    events = read_records(_committed("health.jsonl"), HealthEvent, fix="./run dvc repro train")
    copies = [
        e.model_copy(update={"step": e.step + k * facts.steps}) for k in range(TIMES_OVER) for e in events
    ]
    write_jsonl(project.results("health.jsonl"), copies)
    plan = sha256_bytes(read_bytes(project.results("claim_plan.json"), fix="-"))
    changed = {
        "steps": steps,
        "claim_plan_sha256": plan,
        "base_digest": _digest(BEFORE),
        "policy_digest": _digest(AFTER),
        "health": HealthSummary.of(copies, facts.health.unmeasured),
    }
    write_json(project.results("train.json"), facts.model_copy(update=changed))
    base = read_record(_committed("base.json"), BaseFacts, fix="./run dvc repro base")
    write_json(project.results("base.json"), base.model_copy(update={"digest": _digest(BEFORE)}))
    return steps


def seconds(root: Path) -> tuple[float, float, str, str]:
    """Return wall and processor time of one run, a digest of all it wrote, and what it said first."""
    before = {p: p.stat().st_mtime_ns for p in _files(root)}
    environment = os.environ | dict.fromkeys(THREADS, "1") | {"PYTHONPATH": str(ROOT / "src")}
    core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    used, begun = _used(), time.perf_counter()
    ran = subprocess.run(
        [sys.executable, "-m", "assay.cli", "render-evidence"],
        cwd=root,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}),
    )
    took, cpu = time.perf_counter() - begun, _used() - used
    written = [p for p in _files(root) if before.get(p) != p.stat().st_mtime_ns]
    whole = hashlib.sha256()
    for path in written:
        whole.update(f"{path.relative_to(root)}\0{sha256_bytes(path.read_bytes())}\n".encode())
    return (
        took,
        cpu,
        f"{len(written)} files, {whole.hexdigest()}",
        (ran.stdout + ran.stderr).partition("\n")[0],
    )


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _files(root: Path) -> list[Path]:
    return sorted(path for path in (root / "evidence").rglob("*") if path.is_file())


def _summed(values: list[float]) -> dict[str, object]:
    return {"median": round(statistics.median(values), 2), "all": [round(value, 2) for value in values]}


def main() -> None:
    """Measure and write the result."""
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder))
        episodes, steps = play(project), train(project)
        runs = [seconds(Path(folder)) for _ in range(REPEATS)]
    result = {
        "seconds": _summed([run[0] for run in runs]),
        "processor_seconds": _summed([run[1] for run in runs]),
        "goal_seconds": 8,
        "byte_identical": len({digest for *_, digest, _ in runs}) == 1,
        "written": runs[0][2].partition(",")[0],
        "said": runs[0][3],
        "episodes": episodes,
        "steps": steps,
        "repeats": REPEATS,
        "cores_used": 1,
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
