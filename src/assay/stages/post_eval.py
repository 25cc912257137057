"""Stage 6: play the same held-out suite with the trained policy, and with the base once more."""

from __future__ import annotations

from dataclasses import replace

from assay.core.console import complain
from assay.core.evidence_files import NAMED_DATA, folder_of, place_of
from assay.core.storage.files import remove
from assay.core.storage.json import write_json
from assay.pipeline.heldout import open_suites
from assay.pipeline.inputs import Inputs, secondary_file
from assay.pipeline.note_openings import opened_records
from assay.pipeline.policies import ADAPTER, BASE, open_policy, tell_control_tokens
from assay.pipeline.project import Project
from assay.rollout.audit.contamination import contamination
from assay.rollout.dataset.audit_records import SAID
from assay.rollout.dataset.external import NamedFound, NamedRecords, kept_record, named_records
from assay.rollout.dataset.suite import SAMPLING_AGAIN
from assay.rollout.policy.base.pretrained import POINTER
from assay.rollout.policy.processes import Processes

STAGE, AGAIN = "post_eval", "base_again"
READS = ("${task.code}", place_of("fingerprint.json"), "${dataset.root}", BASE, ADAPTER)
WRITES = (folder_of(STAGE),)


def run(project: Project) -> None:
    """Write post_eval.jsonl, post_eval_greedy.jsonl, the episodes of secondary suites, base_again.jsonl and
    openings.json; of a policy that was trained elsewhere on data that were named, named_data.json.

    base_again.jsonl is the A/A control: the base after the training, on the same suite with other sampling
    seeds, through everything that the trained policy goes through. What differs there is a fault of the
    pipeline. openings.json says which trained policy this was that saw the held-out records: its claim is
    tested by it. A draft opens nothing, and has none.
    """
    params, root = project.params, project.root
    processes = Processes.joined(params.distributed, device=params.device, any_number=True)
    with processes.as_one():
        inputs = project.inputs("heldout", "secondary")
        if processes.main:
            search_named(project, inputs)
        policy = open_policy(params, root / BASE, root / ADAPTER)
        if processes.main and (root / ADAPTER / POINTER).is_file():  # its tokenizer is its own
            tell_control_tokens(inputs, policy.tokenizer, params.played[0])
    suites = [inputs.heldout, *inputs.secondary.values()]
    with open_suites(root, inputs, policy, STAGE, READS, suites=suites, processes=processes) as measurement:
        measurement.play(STAGE, inputs.heldout)
        measurement.play(f"{STAGE}_greedy", replace(inputs.heldout, draws=1), greedy=True)
        for name, suite in inputs.secondary.items():
            measurement.play(secondary_file(STAGE, name), suite)
    trained = policy.digest
    del policy, measurement  # a device holds one of them at a time
    with processes.as_one():
        base = open_policy(params, root / BASE)
    again = replace(inputs.heldout, sampling=SAMPLING_AGAIN)
    with open_suites(root, inputs, base, STAGE, READS, suites=[again], processes=processes) as measurement:
        measurement.play(AGAIN, again)
    if processes.main and params.evaluation.open:
        known = opened_records(root, params, inputs.heldout, trained, base.digest, secondary=inputs.secondary)
        write_json(project.results("openings.json"), known)
    elif processes.main:
        remove(project.results("openings.json"))
    processes.leave()


def search_named(project: Project, inputs: Inputs) -> None:
    """Write named_data.json where a training was external: what the data that it is said to have seen share
    with ours.

    Raises:
        DataError: A file that was named is missing, or another.
    """
    external = inputs.params.external
    if external is None:
        remove(project.results(NAMED_DATA))
        return
    named = {each.file: named_records(project.root, each) for each in external.data}
    splits = {"train": [record for records in named.values() for record in records]}
    for split in inputs.params.played:
        items = enumerate(inputs.items[split], start=1)
        splits[split] = [kept_record(line, item.row or {}, item) for line, item in items]
    found = contamination(splits)
    # What our own data share with each other stands in contamination.json.
    shared = tuple(each for each in found.overlaps if "train" in each.splits)
    files = tuple(
        NamedRecords(file=each.file, sha256=each.sha256, n_records=len(named[each.file]))
        for each in external.data
    )
    told = NamedFound(files=files, shared=found.model_copy(update={"overlaps": shared}))
    write_json(project.results(NAMED_DATA), told)
    for each in shared:
        complain(
            f"named training data: {SAID[each.kind]} in common with {' and '.join(each.splits)}: {each.count}"
        )
