"""Stage 1: say exactly what the data are, refuse what they must not be, and write down what will be
claimed."""

from __future__ import annotations

from assay.core.evidence_files import folder_of
from assay.core.storage.files import sha256_bytes
from assay.core.storage.json import write_json
from assay.pipeline.first_look import say_what_changed, say_what_data_are
from assay.pipeline.inputs import Inputs, blocklist_of, keep_copy, requires_of, rules_at, splits_of, task_with
from assay.pipeline.project import Project
from assay.rollout.audit import drift
from assay.rollout.audit.audit import audit, refuse_unusable, require_records
from assay.rollout.audit.contamination import contamination
from assay.rollout.audit.sources import checked_sums, read_sources, require_covered, require_named
from assay.rollout.dataset.fingerprint import enforce, fingerprint
from assay.rollout.tasks.protocol import reward_range
from assay.rollout.tasks.rivals import rivals_of
from assay.verdict.evidence.claim.plan import plan_of

READS = ("${task.code}", "${dataset.root}")
WRITES = (folder_of("data"),)


def run(project: Project) -> None:
    """Verify the data against their checksums, audit and fingerprint them, fix the claim."""
    params, root = project.params, project.root
    dataset, data = params.dataset, params.dataset.root
    sums = checked_sums(root, data)
    blocklist = blocklist_of(root, params)
    task = task_with(root, params, blocklist, recorded=project.recorded)
    sources = read_sources(root, data, sums)

    audited = audit(task, sources, dataset.audit)
    refuse_unusable(audited.report, data)
    require_records(audited.report, splits_of(params), data)
    require_named(sources, dataset.secondary, splits_of(params), data)
    require_records(audited.report, dataset.secondary, data)

    terms = None if blocklist is None else sha256_bytes(blocklist)
    found = fingerprint(task.name, sources, audited.kept, audited.dropped, terms, dataset.near_duplicates)
    require_covered(found, sums, data, params.task.blocklist_file)
    enforce(found, dataset.expected_dataset_sha256, data)
    cached = keep_copy(root, dataset, found, audited.kept, blocklist)
    requires = requires_of(params.task, project.recorded)
    found = found.model_copy(update={"cached": cached, "requires": requires})
    shared = contamination(audited.kept)

    items = {split: [member.item for member in members] for split, members in audited.kept.items()}
    inputs = Inputs(params, task, found, items, rules_at(root, params))
    plan = plan_of(
        params,
        inputs.heldout,
        inputs.validation,
        cluster_name=task.cluster_name,
        data=found,
        rivals=rivals_of(task, params.evaluation.rivals),
        reward_range=reward_range(task),
        secondary=inputs.secondary,
    )

    write_json(project.results("fingerprint.json"), found)
    write_json(project.results("audit.json"), audited.report)
    write_json(project.results("contamination.json"), shared)
    write_json(project.results("claim_plan.json"), plan)
    say_what_changed(root, data, drift.index_of(audited.kept, found.schemas))
    say_what_data_are(inputs, audited.report, shared)
