"""Stage 6: play the same held-out suite with the trained policy, and with the base once more."""

from __future__ import annotations

from assay.core.evidence_files import folder_of, place_of
from assay.core.storage.json import write_json
from assay.pipeline.heldout import evaluate
from assay.pipeline.inputs import heldout_suite, secondary_suites
from assay.pipeline.note_openings import opened_records
from assay.pipeline.policies import ADAPTER, open_policy
from assay.pipeline.project import Project
from assay.policy.processes import Processes

STAGE = "post_eval"
READS = ("${task.code}", place_of("fingerprint.json"), "${dataset.root}", "models/base", ADAPTER)
WRITES = (folder_of(STAGE),)


def run(project: Project) -> None:
    """Write post_eval.jsonl, post_eval_greedy.jsonl, the episodes of secondary suites, base_again.jsonl and
    openings.json.

    base_again.jsonl is the A/A control: the base after the training, on the same suite with other sampling seeds,
    through everything that the trained policy goes through. What differs there is a fault of the pipeline.
    openings.json says which trained policy this was that saw the held-out records: its claim is tested by it.
    """
    processes = Processes.joined(project.params.distributed, device=project.params.device, any_number=True)
    with processes.as_one():
        policy = open_policy(project, project.root / ADAPTER)
    evaluate(project, policy, STAGE, reads=READS, secondary=True, processes=processes)
    trained = policy.digest
    del policy  # a device holds one of them at a time
    with processes.as_one():
        base = open_policy(project, None)
    evaluate(
        project, base, "base_again", reads=READS, stage=STAGE, greedy=False, again=True, processes=processes
    )
    if processes.main:
        known = opened_records(
            project, heldout_suite(project), trained, base.digest, secondary=secondary_suites(project)
        )
        write_json(project.results("openings.json"), known)
    processes.leave()
