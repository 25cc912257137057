"""Stage 3: play the held-out suite with the base policy, and as its user might without a training. Raw
episodes; evidence computes what they say."""

from __future__ import annotations

from functools import partial

from assay.core.evidence_files import folder_of, place_of
from assay.pipeline.heldout import evaluate
from assay.pipeline.policies import open_policy, tell_control_tokens
from assay.pipeline.project import Project
from assay.pipeline.rivals import play_rivals
from assay.policy.processes import Processes

STAGE = "pre_eval"
READS = ("${task.code}", place_of("fingerprint.json"), "${dataset.root}", "models/base")
WRITES = (folder_of(STAGE),)


def run(project: Project) -> None:
    """Write pre_eval.jsonl, pre_eval_greedy.jsonl, and the episodes of secondary suites and of rivals."""
    processes = Processes.joined(project.params.distributed, device=project.params.device, any_number=True)
    with processes.as_one():
        policy = open_policy(project, None)
        if processes.main:
            for split in project.params.played:
                tell_control_tokens(project, policy.tokenizer, split)
    beside = partial(play_rivals, project, policy, processes)
    evaluate(project, policy, STAGE, reads=READS, secondary=True, processes=processes, beside=beside)
    processes.leave()
