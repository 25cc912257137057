"""Stage 6: play the same held-out suite with the trained policy, and with the base once more."""

from __future__ import annotations

from assay.audit.contamination import contamination
from assay.core.console import complain
from assay.core.evidence_files import NAMED_DATA, folder_of, place_of
from assay.core.storage.files import remove
from assay.core.storage.json import write_json
from assay.dataset.audit_records import SAID
from assay.dataset.external import NamedFound, NamedRecords, kept_record, named_records
from assay.pipeline.heldout import evaluate
from assay.pipeline.inputs import heldout_suite, items_of, secondary_suites
from assay.pipeline.note_openings import opened_records
from assay.pipeline.policies import ADAPTER, open_policy, tell_control_tokens
from assay.pipeline.project import Project
from assay.policy.base.pretrained import POINTER
from assay.policy.processes import Processes

STAGE = "post_eval"
READS = ("${task.code}", place_of("fingerprint.json"), "${dataset.root}", "models/base", ADAPTER)
WRITES = (folder_of(STAGE),)


def run(project: Project) -> None:
    """Write post_eval.jsonl, post_eval_greedy.jsonl, the episodes of secondary suites, base_again.jsonl and
    openings.json; of a policy that was trained elsewhere on data that were named, named_data.json.

    base_again.jsonl is the A/A control: the base after the training, on the same suite with other sampling
    seeds, through everything that the trained policy goes through. What differs there is a fault of the
    pipeline. openings.json says which trained policy this was that saw the held-out records: its claim is
    tested by it. A draft opens nothing, and has none.
    """
    processes = Processes.joined(project.params.distributed, device=project.params.device, any_number=True)
    if processes.main:
        search_named(project)
    with processes.as_one():
        policy = open_policy(project, project.root / ADAPTER)
        if processes.main and (project.root / ADAPTER / POINTER).is_file():  # its tokenizer is its own
            tell_control_tokens(project, policy.tokenizer, project.params.played[0])
    evaluate(project, policy, STAGE, reads=READS, secondary=True, processes=processes)
    trained = policy.digest
    del policy  # a device holds one of them at a time
    with processes.as_one():
        base = open_policy(project, None)
    evaluate(
        project, base, "base_again", reads=READS, stage=STAGE, greedy=False, again=True, processes=processes
    )
    if processes.main:
        _tell_openings(project, trained, base.digest)
    processes.leave()


def _tell_openings(project: Project, trained: str, base: str) -> None:
    if not project.params.evaluation.open:
        remove(project.results("openings.json"))
        return
    known = opened_records(
        project, heldout_suite(project), trained, base, secondary=secondary_suites(project)
    )
    write_json(project.results("openings.json"), known)


def search_named(project: Project) -> None:
    """Write named_data.json where a training was external: what the data that it is said to have seen share
    with ours.

    Raises:
        DataError: A file that was named is missing, or another.
    """
    external = project.params.external
    if external is None:
        remove(project.results(NAMED_DATA))
        return
    named = {each.file: named_records(project.root, each) for each in external.data}
    splits = {"train": [record for records in named.values() for record in records]}
    for split in project.params.played:
        items = enumerate(items_of(project, split), start=1)
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
