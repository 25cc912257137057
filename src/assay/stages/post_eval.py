"""Stage 6: play the same held-out suite with the trained policy."""

from __future__ import annotations

from assay.core.evidence_files import folder_of, place_of
from assay.pipeline.heldout import evaluate
from assay.pipeline.policies import ADAPTER, open_policy
from assay.pipeline.project import Project
from assay.policy.processes import Processes

READS = (place_of("fingerprint.json"), "${dataset.root}/heldout.jsonl", "models/base", ADAPTER)
WRITES = (folder_of("post_eval"),)


def run(project: Project) -> None:
    """Write post_eval.jsonl and post_eval_greedy.jsonl."""
    processes = Processes.joined(project.params.distributed, device=project.params.device, any_number=True)
    with processes.as_one():
        policy = open_policy(project, project.root / ADAPTER)
    evaluate(project, policy, "post_eval", reads=READS, processes=processes)
    processes.leave()
