"""What bears on a claim about a fresh held-out suite: whether it is the one that plan and policy draw, and
whether the plan before the training is today's but for its records."""

from __future__ import annotations

from assay.core.storage.files import read_bytes, sha256_bytes
from assay.core.storage.json import read_record
from assay.pipeline.inputs import read_fingerprint
from assay.pipeline.project import Project
from assay.rollout.dataset.external import Training
from assay.rollout.dataset.fingerprint import dataset_sha256
from assay.rollout.dataset.fresh import FILE, PLAN, FreshSuite
from assay.verdict.evidence.claim.plan import ClaimPlan, differs_beyond_suite, plan_digest
from assay.verdict.evidence.words.remarks import Remark, remark

FIX = "restore the data"


def fresh_suite(project: Project, trained: Training) -> tuple[list[Remark], list[Remark]]:
    """Return why the held-out suite is not the fresh one that it is said to be, and what is to be known of
    it; nothing where it is none."""
    found = _said(project)
    if found is None:
        return [], []
    notes = [remark("fresh_suite", n=found.number - 1)]
    if sha256_bytes(read_bytes(project.results(PLAN), fix=FIX)) != trained.claim_plan_sha256:
        notes.append(remark("fresh_kept"))
    if found.policy_digest != trained.policy_digest:
        return [remark("fresh_of_other_policy")], notes
    # What was written down of a task's code would only say again what stands in the file.
    odd = None if project.recorded is not None else found.differs(project.task(), project.data(""))
    if odd is None:
        notes.append(remark("fresh_not_checked"))
    return [remark("fresh_not_derived")] if odd else [], notes


def planned_before(project: Project, plan: ClaimPlan, trained: Training) -> bool:
    """Return whether a policy was trained by a plan and data that differ from today's in held-out records
    alone, which were drawn fresh for it."""
    made, path = _said(project), project.data(PLAN)
    if made is None or not path.is_file():
        return False
    if sha256_bytes(read_bytes(path, fix=FIX)) != trained.claim_plan_sha256:
        return False
    before = read_record(path, ClaimPlan, fix=FIX)
    found = read_fingerprint(project.root)
    records = {name: split.records_sha256 for name, split in found.splits.items()}
    records["heldout"] = records.pop(made.former, "")
    return (
        plan_digest(before) == made.plan_digest
        and not differs_beyond_suite(plan, before)
        and dataset_sha256(records, found.blocklist) == before.dataset_sha256
    )


def _said(project: Project) -> FreshSuite | None:
    path = project.data(FILE)
    return read_record(path, FreshSuite, fix=FIX) if path.is_file() else None
