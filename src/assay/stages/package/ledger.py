"""What of the ledger of openings a claim rests on, so that strangers can tell its place again."""

from __future__ import annotations

from assay.core.errors import PackageError
from assay.core.records import OpenedRecords
from assay.core.storage.json import read_record
from assay.dataset.external import read_training
from assay.pipeline.heldout_ledger import NOTHING, HeldoutLedger, HeldoutOpening, merged, openings
from assay.pipeline.inputs import heldout_suite
from assay.pipeline.note_openings import BASE_STAGE, TRAINED_STAGE
from assay.pipeline.project import Project

AGAIN = "./run dvc repro -f post_eval"


def ledger_of(project: Project) -> HeldoutLedger:
    """Return the openings that openings.json names, as they were when it was written: without how often they
    were made, in which working copy, and what came later. So a package stays a function of its run.

    Raises:
        PackageError: Neither ledger nor git nor this working copy knows one of them any more.
        RecordError: A file is missing or damaged.
    """
    found = read_record(project.results("openings.json"), OpenedRecords, fix=AGAIN)
    base = read_training(project.results("train.json"), fix=AGAIN).base_digest
    suite = heldout_suite(project)
    known, asked = openings(project) or NOTHING, frozenset(suite.contents)
    stages = {each.policy_digest: frozenset(each.stages) for each in found.others}
    stages |= dict.fromkeys((found.policy_digest, base), frozenset({BASE_STAGE, TRAINED_STAGE}))

    def belongs(each: HeldoutOpening) -> bool:
        if asked.isdisjoint(known.record_sets[each.records]):
            return False
        later = (each.place or 0) > (found.place or 0)
        of_claim = each.policy_digest == base and each.suite_digest == suite.digest
        return each.stage in stages.get(each.policy_digest, ()) and (of_claim or not later)

    kept = [each.model_copy(update={"times": 1, "copy_id": None}) for each in known.openings if belongs(each)]
    if missing := sorted(stages.keys() - {each.policy_digest for each in kept}):
        raise PackageError(
            "every opening that openings.json names",
            found=f"none of policy {missing[0][:16]}",
            where="the ledger of held-out openings",
            fix=f"git checkout -- evidence/observed, or {AGAIN}",
        )
    return merged(NOTHING, known.model_copy(update={"openings": tuple(kept)}))
