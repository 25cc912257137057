"""V3, the openings: what openings.json says follows from the ledger in the package."""

from __future__ import annotations

from typing import Any

from assay.core.counting import counted
from assay.core.records import OpenedRecords
from assay.core.storage.files import read_bytes, sha256_bytes
from assay.core.storage.json import read_record
from assay.evidence.claim.openings import level_of, openings_of
from assay.package.layout import OPENINGS
from assay.pipeline.heldout_ledger import HeldoutLedger
from assay.pipeline.note_openings import opened_records
from assay.verify.checks import LookResult
from assay.verify.unpacked import FIX, Unpacked


def openings_follow(package: Unpacked) -> LookResult:
    """Check that the claim's place among the tries at its records, by which it is tested, is what the notes
    of these tries come to."""
    read_record(package.root / OPENINGS, HeldoutLedger, fix=FIX)
    trained, told = package.told, package.opened
    found = opened_records(package.project, package.heldout, trained.policy_digest, trained.base_digest)
    wrong = [
        f"openings.json, {name}: {before!r}; the ledger in the package gives {now!r}"
        for (name, before), now in zip(_facts(told).items(), _facts(found).values(), strict=True)
        if before != now
    ]
    claim, path = package.claim, package.results("openings.json")
    opened = openings_of(told, sha256_bytes(read_bytes(path, fix=FIX)))
    if claim["verdict"] != "NOT EVALUABLE" and claim["level"] != level_of(opened, package.plan):
        wrong.append(
            f"claim.json, level: {claim['level']}; place {told.place} leaves {level_of(opened, package.plan)}"
        )
    if claim["opened"] is not None and claim["opened"] != opened.model_dump(mode="json"):
        wrong.append("claim.json, opened: not what openings.json says")
    of = counted(len(told.others), "tries")
    return LookResult(f"place {told.place} of the claim, behind {of} that the ledger names", wrong)


def _facts(of: OpenedRecords) -> dict[str, Any]:
    # Of the others who they were and when; in which stages they played may have grown since, and decides
    # nothing.
    others = [(each.policy_digest[:16], each.place, each.same_recipe) for each in of.others]
    facts = of.model_dump(exclude={"others", "secondary_places"})
    return {**facts, "others": others}
