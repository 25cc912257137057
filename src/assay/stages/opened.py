"""Every opening of the held-out suite, by whom: kept beside the results, since how often something was done is no result."""

from __future__ import annotations

from pydantic import Field

from assay.records import Record
from assay.stages.project import Project
from assay.storage.json import read_record, write_json

LEDGER = "heldout_openings.json"
FIX = "git checkout -- evidence/observed, or remove the file: the count then begins anew, and the report says so"


class Opening(Record):
    """One policy that was let loose on one held-out suite."""

    stage: str
    suite_digest: str
    policy_digest: str
    times: int = Field(ge=1, description="calls that opened the suite; playing again with the same policy tells nothing new")


class Ledger(Record):
    """All openings, in the order of the first of each."""

    openings: tuple[Opening, ...]


def openings(project: Project) -> tuple[Opening, ...] | None:
    """Return the openings that were noted, None where no note was kept.

    Raises:
        RecordError: The ledger is damaged.
    """
    path = project.observed(LEDGER)
    return read_record(path, Ledger, fix=FIX).openings if path.exists() else None


def note_opening(project: Project, stage: str, suite_digest: str, policy_digest: str) -> None:
    """Write down an opening before it happens, so that one which was broken off counts as well.

    Raises:
        RecordError: The ledger is damaged.
    """
    found = list(openings(project) or ())
    for k, each in enumerate(found):
        if (each.stage, each.suite_digest, each.policy_digest) == (stage, suite_digest, policy_digest):
            found[k] = each.model_copy(update={"times": each.times + 1})
            break
    else:
        found.append(Opening(stage=stage, suite_digest=suite_digest, policy_digest=policy_digest, times=1))
    write_json(project.observed(LEDGER), Ledger(openings=tuple(found)))
