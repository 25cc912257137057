"""Stage 5: play the same held-out suite with the trained policy."""

from __future__ import annotations

from assay.stages.heldout import evaluate
from assay.stages.policies import open_policy
from assay.stages.project import RESULTS, Project

READS = (f"{RESULTS}/fingerprint.json", "${dataset.root}/heldout.jsonl", "models/base", "models/adapter")
WRITES = (
    f"{RESULTS}/post_eval.jsonl", f"{RESULTS}/post_eval.json", f"{RESULTS}/post_eval_greedy.jsonl",
    f"{RESULTS}/post_eval_greedy.json",
)  # fmt: skip


def run(project: Project) -> None:
    """Write post_eval.jsonl and post_eval.json."""
    evaluate(project, open_policy(project, adapter=True), "post_eval", reads=READS)
