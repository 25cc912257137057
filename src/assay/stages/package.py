"""Stage 8: one archive with checksums: adapter, base, episodes, logs, claim, report and the settings behind them."""

from __future__ import annotations

import shutil

from assay.console import say
from assay.dataset.checksums import SUMS, sums_text
from assay.stages.project import RESULTS, Project
from assay.storage.archive import tar_bytes
from assay.storage.files import read_bytes, sha256_bytes, write_bytes, write_text

RESULT_FILES = (
    "fingerprint.json", "audit.json", "contamination.json", "claim_plan.json", "base.json", "plan_power.json",
    "pre_eval.jsonl", "pre_eval.json", "pre_eval_greedy.jsonl", "pre_eval_greedy.json", "baselines.json",
    "training_log.csv", "reward_components.csv", "checkpoint_evals.csv", "train_log.jsonl", "health.jsonl", "train.json",
    "control", "post_eval.jsonl", "post_eval.json", "post_eval_greedy.jsonl", "post_eval_greedy.json",
    "before_after_metrics.json", "claim.json", "metrics.json", "report.html", "sample_trajectories.md", "summary.md",
    "figures", "plots",
)  # fmt: skip
READS = (
    "params.yaml", "constraints.txt", "models/base", "models/adapter", *(f"{RESULTS}/{name}" for name in RESULT_FILES),
)  # fmt: skip
WRITES = ("dist",)
NAME = "assay-package"


def run(project: Project) -> None:
    """Write dist/assay-package.tar and its sha256."""
    fix = "./run dvc repro"
    members = {}
    for entry in READS:
        path = project.root / entry
        for file in sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]:
            if file.name == "pointer.json":  # where a pretrained base lies on this machine; base.json has its digest
                continue
            members[file.relative_to(project.root).as_posix()] = read_bytes(file, fix=fix)
    members[SUMS] = sums_text({name: sha256_bytes(content) for name, content in members.items()}).encode()
    content = tar_bytes(members, root=NAME)
    shutil.rmtree(project.root / "dist", ignore_errors=True)
    write_bytes(project.root / f"dist/{NAME}.tar", content)
    write_text(project.root / f"dist/{NAME}.tar.sha256", f"{sha256_bytes(content)}  {NAME}.tar\n")
    say(f"dist/{NAME}.tar: {len(members)} files, {len(content) / 1e6:.1f} MB, sha256 {sha256_bytes(content)[:16]}…")
