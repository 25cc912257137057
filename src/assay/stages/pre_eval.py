"""Stage 3: play the held-out suite with the base policy. Raw episodes; evidence computes what they say."""

from __future__ import annotations

from assay.core.evidence_files import folder_of, place_of
from assay.pipeline.heldout import evaluate
from assay.pipeline.policies import open_policy, tell_control_tokens
from assay.pipeline.project import Project
from assay.policy.processes import Processes

READS = (place_of("fingerprint.json"), "${dataset.root}/heldout.jsonl", "models/base")
WRITES = (folder_of("pre_eval"),)


def run(project: Project) -> None:
    """Write pre_eval.jsonl and pre_eval_greedy.jsonl."""
    processes = Processes.joined(project.params.distributed, device=project.params.device, any_number=True)
    with processes.as_one():
        policy = open_policy(project, None)
        if processes.main:
            tell_control_tokens(project, policy.tokenizer, "heldout")
    evaluate(project, policy, "pre_eval", reads=READS, processes=processes)
    processes.leave()
