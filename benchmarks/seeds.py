"""Does the default recipe work on every seed? Train on several training seeds, build several bases, show all of them.

    ./run python benchmarks/seeds.py --task collider --training 0 1 2 3 4 5 --bases 0 1 2 3 4

Each run happens in a copy of this project, through the same stages and the same `dvc repro`; base and measurement before
are shared by all training seeds of a task, because none of their settings differ. `assay compare` closes the table with
what the seeds show together; with five of them only the one-sided question can be asked. `--bases` with none after it
keeps the bases of the last table. What a seed showed is kept in .scratch/seeds/, so a call that was stopped is gone on with
as long as neither code nor settings changed. Writes seeds_<task>.json and .md into benchmarks/results/.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LEFT_BEHIND = shutil.ignore_patterns(".venv", ".git", "*cache__", ".*_cache", ".hypothesis", ".scratch", "tmp", "dvc_plots")


def run(project: Path, *command: str) -> None:
    """Run a command in a project; show its output only if it fails."""
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")


def copied(folder: Path, source: Path) -> Path:
    """Return a copy of a project, outputs and cache included, in its own git repository."""
    project = folder / "project"
    shutil.copytree(source, project, ignore=LEFT_BEHIND)
    run(project, "git", "init", "-q")
    return project


def result(project: Path, name: str) -> Any:
    """Return a JSON file of evidence/results/."""
    return json.loads((project / "evidence/results" / name).read_text(encoding="utf-8"))


def train(task: str, measured: Path, kept: Path, seed: int) -> dict[str, Any]:
    """Return what one training seed showed on the held-out suite; keep what a comparison of seeds reads."""
    if (kept / f"seed-{seed}/dvc.lock").is_file():  # written last
        return row(kept / f"seed-{seed}", seed)
    with tempfile.TemporaryDirectory(prefix="assay-seed-") as folder:
        project = copied(Path(folder), measured)
        run(project, "assay", "config", "use", f"task={task}", f"seed={seed}")
        run(project, "dvc", "repro", "-q", "render_evidence")
        for name in ("evidence/results", "params.yaml", "dvc.lock"):
            target = kept / f"seed-{seed}" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (project / name).is_dir() else shutil.copy)(project / name, target)
        return row(kept / f"seed-{seed}", seed)


def row(project: Path, seed: int) -> dict[str, Any]:
    """Return the line of the table that a finished run gives."""
    claim, greedy = result(project, "claim.json"), result(project, "post_eval_greedy.json")
    before_greedy, after = result(project, "pre_eval_greedy.json"), result(project, "post_eval.json")
    reward, score = after["measures"]["mean_reward"]["value"], result(project, "metrics.json").get("normalised_score")
    return {
        "training_seed": seed,
        "chosen_step": result(project, "train.json")["chosen_step"],
        "verdict": claim["verdict"], "reason": claim["reason"],
        "before": claim["before"], "after": claim["after"], "difference": claim["difference"], "p": claim["p"],
        "greedy_before": before_greedy["measures"]["success_rate"], "greedy_after": greedy["measures"]["success_rate"],
        "mean_reward_after": reward, "normalised_score": score,
        "parsed_rate_after": after["measures"]["parsed_rate"]["value"], "random_reward": claim["random_reward"],
    }  # fmt: skip


def build(task: str, source: Path, seed: int) -> dict[str, Any]:
    """Return what the check of one base said; a refused base is a row like any other."""
    with tempfile.TemporaryDirectory(prefix="assay-base-") as folder:
        project = copied(Path(folder), source)
        chosen = re.search(r"- grpo: (\w+)", (project / "configs/config.yaml").read_text(encoding="utf-8"))
        assert chosen is not None
        preset = project / f"configs/grpo/{chosen.group(1)}.yaml"
        text = re.sub(r"(base:\n  kind: scratch\n  seed: )\d+", rf"\g<1>{seed}", preset.read_text(encoding="utf-8"))
        preset.write_text(text, encoding="utf-8")
        run(project, "assay", "config", "use", f"task={task}")
        done = subprocess.run(["dvc", "repro", "base"], cwd=project, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = [line for line in done.stderr.split("\n") if line.startswith("assay:")]
            return {"base_seed": seed, "passed": False, "reason": " ".join(reason)}
        return {"base_seed": seed, "passed": True} | result(project, "base.json")


def points(interval: dict[str, Any] | None) -> str:
    """Return an interval in per cent; a run that is not evaluable has none."""
    if interval is None or interval["value"] is None:
        return "missing"
    return f"{100 * interval['value']:.1f} ({100 * interval['low']:.1f} to {100 * interval['high']:.1f})"


def _said(number: float | None, form: str) -> str:
    return "missing" if number is None else format(number, form)


def together(kept: Path, seeds: list[int]) -> dict[str, Any]:
    """Return what `assay compare` says of all training seeds as one recipe."""
    sides = ["--one-sided"] if len(seeds) == 5 else []  # five seeds cannot say more
    run(kept, "assay", "compare", *sides, "--out", "compared", *(f"seed-{seed}" for seed in seeds))
    found: dict[str, Any] = json.loads((kept / "compared/compare.json").read_text(encoding="utf-8"))
    (recipe,) = found["recipes"]
    return recipe


def table(trained: list[dict[str, Any]], bases: list[dict[str, Any]], recipe: dict[str, Any] | None) -> str:
    """Return both tables as Markdown, and between them what the training seeds show together."""
    heads = ("training seed", "step", "before, %", "after, %", "difference, points", "p", "greedy, %", "score", "verdict")
    heads = (*heads, "random rewards, points")
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in trained:
        control = row["random_reward"]
        paid = "not run" if control is None else f"{points(control['difference'])}: {control['verdict']}"
        greedy = f"{100 * row['greedy_before']['value']:.1f} → {100 * row['greedy_after']['value']:.1f}"
        lines.append(
            f"| {row['training_seed']} | {row['chosen_step']} | {points(row['before'])} | {points(row['after'])} | "
            f"{points(row['difference'])} | {_said(row['p'], '.2g')} | {greedy} | {_said(row['normalised_score'], '.3f')} | "
            f"{row['verdict']}{': ' + row['reason'] if row['verdict'] == 'NOT EVALUABLE' else ''} | {paid} |"
        )
    if recipe is not None:
        lines += ["", f"All training seeds together: **{recipe['verdict']}.** {recipe['sentence']}"]
    lines += ["", "| base seed | passed | reads off | parses | success |", "|---|---|---|---|---|"]
    for row in bases:
        if row["passed"]:
            numbers = " | ".join(f"{100 * row[name]:.1f} %" for name in ("copy_accuracy", "parsed_rate", "success_rate"))
            lines.append(f"| {row['base_seed']} | yes | {numbers} |")
        else:
            lines.append(f"| {row['base_seed']} | no: {row['reason']} | | | |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all seeds, two at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="collider")
    parser.add_argument("--training", type=int, nargs="*", default=[0, 1, 2, 3, 4, 5])
    parser.add_argument("--bases", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="assay-measured-") as folder, ThreadPoolExecutor(2) as pool:
        # Base and measurement before once, for all training seeds.
        measured = copied(Path(folder), ROOT)
        run(measured, "assay", "config", "use", f"task={chosen.task}")
        run(measured, "dvc", "repro", "-q", "pre_eval")
        known = hashlib.sha256((measured / "dvc.lock").read_bytes()).hexdigest()[:16]
        kept = ROOT / f".scratch/seeds/{chosen.task}-{known}"
        trained = list(pool.map(partial(train, chosen.task, measured, kept), chosen.training))
        recipe = together(kept, chosen.training) if chosen.training else None
        bases = list(pool.map(partial(build, chosen.task, measured), chosen.bases))
    out = ROOT / "benchmarks/results"
    known = out / f"seeds_{chosen.task}.json"
    if not chosen.bases and known.is_file():
        bases = json.loads(known.read_text(encoding="utf-8"))["base_seeds"]
    record = {"task": chosen.task, "training_seeds": trained, "base_seeds": bases, "recipe": recipe}
    (out / f"seeds_{chosen.task}.json").write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    (out / f"seeds_{chosen.task}.md").write_text(table(trained, bases, recipe), encoding="utf-8")


if __name__ == "__main__":
    main()
