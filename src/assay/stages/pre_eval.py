"""Stage 3: play the held-out suite with the base policy, and as its user might without a training. Raw
episodes; evidence computes what they say."""

from __future__ import annotations

from dataclasses import replace

from assay.core.evidence_files import folder_of, place_of
from assay.pipeline.heldout import open_suites
from assay.pipeline.inputs import secondary_file
from assay.pipeline.policies import BASE, open_policy, tell_control_tokens
from assay.pipeline.project import Project
from assay.pipeline.rivals import play_rivals
from assay.rollout.policy.processes import Processes

STAGE = "pre_eval"
READS = ("${task.code}", place_of("fingerprint.json"), "${dataset.root}", BASE)
WRITES = (folder_of(STAGE),)


def run(project: Project) -> None:
    """Write pre_eval.jsonl, pre_eval_greedy.jsonl, and the episodes of secondary suites and of rivals."""
    params, root = project.params, project.root
    processes = Processes.joined(params.distributed, device=params.device, any_number=True)
    with processes.as_one():
        inputs = project.inputs("train", "heldout", "secondary")
        policy = open_policy(params, root / BASE)
        if processes.main:
            for split in params.played:
                tell_control_tokens(inputs, policy.tokenizer, split)
    suites = [inputs.heldout, *inputs.secondary.values()]
    with open_suites(root, inputs, policy, STAGE, READS, suites=suites, processes=processes) as measurement:
        measurement.play(STAGE, inputs.heldout)
        measurement.play(f"{STAGE}_greedy", replace(inputs.heldout, draws=1), greedy=True)
        for name, suite in inputs.secondary.items():
            measurement.play(secondary_file(STAGE, name), suite)
        play_rivals(measurement)
    processes.leave()
