"""How often the held-out records of a claim had been tried before, and what that costs it."""

from __future__ import annotations

from pydantic import Field

from assay.core.records import OpenedRecords, Record
from assay.verdict.evidence.claim.plan import ClaimPlan
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.statistics.openings import Look, opening_level, share_of_look


class Openings(Record):
    """What a claim says of the openings of its held-out records; all of it follows from openings.json."""

    place: int | None = Field(description="which try at any of them it was; null: not known")
    recipe_place: int | None = Field(description="the same with the seeds of one plan counted as one")
    policies_before: int = Field(
        ge=0, description="tries at any of these records before: a policy in a suite is one"
    )
    registered: bool = Field(
        description="whether the plan named this training seed before the policy saw the records"
    )
    rolls: int = Field(
        default=0, ge=0, description="policies that this seed was trained to before, by the same plan"
    )
    restored: int = Field(
        ge=0, description="policies that the ledger's file had lost, and git or .scratch/ still knew"
    )
    put_back: int = Field(
        default=0, ge=0, description="the same where git had put an older version of the file in its place"
    )
    share: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="of alpha, at which it is tested: one planned look, and what the look right before handed"
        " on; 0: none is left; null: no number of looks was planned",
    )
    sha256: str = Field(description="of openings.json")
    secondary_places: dict[str, int | None] = Field(
        default={}, description="`place` among those that saw the records of each secondary suite"
    )


def openings_of(found: OpenedRecords, sha256: str, looks: int | None = None) -> Openings:
    """Return what a claim holds of openings.json, whose bytes have a digest.

    Args:
        found: What it says.
        sha256: Its digest.
        looks: How many the plan has.
    """
    share = None
    if looks is not None and found.place is not None:
        before = [Look(each.place or 0, each.looks, each.called) for each in found.others]
        # Who saw the records when more looks were planned has no larger share by planning fewer.
        share = share_of_look(found.place, max(looks, found.looks or 0), before)
    return Openings(
        place=found.place,
        recipe_place=found.recipe_place,
        policies_before=len(found.others),
        registered=found.seed in found.seeds and found.first_family == found.family and not found.left_out,
        rolls=found.rolls,
        restored=found.restored,
        put_back=found.put_back,
        share=share,
        sha256=sha256,
        secondary_places=found.secondary_places,
    )


def level_of(opened: Openings, plan: ClaimPlan) -> float:
    """Return the level of a claim; one of unknown place, or for which no look is left, is not evaluable, and
    its numbers have that of a first look."""
    if opened.share:
        return plan.alpha * opened.share
    place = opened.place if opened.share is None else None
    return opening_level(place or 1, plan.alpha, looks=plan.looks)


def opening_obstacles(
    found: OpenedRecords, plan: ClaimPlan, *, policy: str, records: str, seed: int
) -> list[Remark]:
    """Return why no claim may be made.

    Args:
        found: What openings.json says.
        plan: Of the claim.
        policy: Digest of the trained policy.
        records: Key of the held-out records.
        seed: Of the training.
    """
    if (found.policy_digest, found.records, found.seed, found.seeds) != (policy, records, seed, plan.seeds):
        return [remark("other_opening")]
    if found.place is None:
        return [remark("openings_lost")]
    if openings_of(found, "", plan.looks).share == 0:
        return [remark("looks_used_up", place=found.place, looks=plan.looks)]
    return []


def opening_warnings(opened: Openings, found: OpenedRecords) -> list[Remark]:
    """Return what a reader must be warned of."""
    notes = []
    if n := opened.policies_before:
        own = sum(each.same_recipe for each in found.others)
        notes.append(remark("tries_before", n=n, of_plan=own, place=opened.place))
    if opened.rolls:
        notes.append(remark("rolled_before", seed=found.seed, n=opened.rolls))
    if opened.restored:
        notes.append(remark("ledger_restored", n=opened.restored))
    if opened.put_back:
        notes.append(remark("ledger_put_back", n=opened.put_back))
    if found.seed not in found.seeds:
        notes.append(remark("seed_not_planned", seed=found.seed))
    elif found.left_out:
        notes.append(remark("seeds_left_out", seeds=found.left_out))
    elif not opened.registered:
        notes.append(remark("seed_planned_late", seed=found.seed))
    return notes
