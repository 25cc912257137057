"""Stage 6: play the same held-out suite with the trained policy."""

from __future__ import annotations

from assay.stages.heldout import evaluate
from assay.stages.policies import ADAPTER, open_policy
from assay.stages.project import RESULTS, Project
from assay.training.processes import Processes

READS = (f"{RESULTS}/fingerprint.json", "${dataset.root}/heldout.jsonl", "models/base", ADAPTER)
WRITES = (
    f"{RESULTS}/post_eval.jsonl", f"{RESULTS}/post_eval.json", f"{RESULTS}/post_eval_greedy.jsonl",
    f"{RESULTS}/post_eval_greedy.json",
)  # fmt: skip


def run(project: Project) -> None:
    """Write post_eval.jsonl and post_eval.json."""
    processes = Processes.joined(project.params.distributed, device=project.params.device, any_number=True)
    with processes.as_one():
        policy = open_policy(project, project.root / ADAPTER)
    evaluate(project, policy, "post_eval", reads=READS, processes=processes)
    processes.leave()
