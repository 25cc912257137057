"""How often the held-out records of a claim had been tried before, and what that costs it."""

from __future__ import annotations

from pydantic import Field

from assay.core.counting import counted
from assay.core.records import OpenedRecords, Record
from assay.evidence.claim.plan import ClaimPlan
from assay.statistics.openings import opening_level

NOT_KNOWN = "how often the held-out records were opened is not known"
OTHER_OPENING = "openings.json is about another opening than this claim"


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
    sha256: str = Field(description="of openings.json")
    secondary_places: dict[str, int | None] = Field(
        default={}, description="`place` among those that saw the records of each secondary suite"
    )


def openings_of(found: OpenedRecords, sha256: str) -> Openings:
    """Return what a claim holds of openings.json, whose bytes have a digest."""
    return Openings(
        place=found.place,
        recipe_place=found.recipe_place,
        policies_before=len(found.others),
        registered=found.seed in found.seeds and found.first_family == found.family and not found.left_out,
        rolls=found.rolls,
        restored=found.restored,
        put_back=found.put_back,
        sha256=sha256,
        secondary_places=found.secondary_places,
    )


def level_of(opened: Openings, plan: ClaimPlan) -> float:
    """Return the level of a claim; one of unknown place is not evaluable, and its numbers have that of the
    plan."""
    return plan.alpha if opened.place is None else opening_level(opened.place, plan.alpha)


def opening_obstacles(
    found: OpenedRecords, plan: ClaimPlan, *, policy: str, records: str, seed: int
) -> list[tuple[str, str]]:
    """Return why no claim may be made, as (kind, what was found).

    Args:
        found: What openings.json says.
        plan: Of the claim.
        policy: Digest of the trained policy.
        records: Key of the held-out records.
        seed: Of the training.
    """
    if (found.policy_digest, found.records, found.seed, found.seeds) != (policy, records, seed, plan.seeds):
        fix = "./run dvc repro -f post_eval"
        return [(OTHER_OPENING, f"{OTHER_OPENING}: policy, records, seed or seeds of the plan. Fix: {fix}")]
    if found.place is None:
        fix = "./run dvc repro -sf pre_eval post_eval, then ./run repro"
        lost = (
            "the ledger lacks what this run itself opened: an older one was put back, or the base's episodes"
            " came from DVC's cache"
        )
        return [(NOT_KNOWN, f"{NOT_KNOWN}: {lost}. Fix: {fix}")]
    return []


def opening_said(opened: Openings | None, level: float, plan: ClaimPlan) -> str:
    """Return how often the records had been opened, as one sentence."""
    if opened is None or opened.place is None:
        return "Openings: how often the held-out records were opened is not known."
    if opened.place == 1:
        said = "the first try at these held-out records"
    else:
        before = counted(opened.policies_before, "tries")
        said = f"{before} at these held-out records came before, and this one is number {opened.place}"
    return f"Openings: {said}; tested at the level {level:.2g} of {plan.alpha:g}."


def opening_warnings(opened: Openings, found: OpenedRecords) -> list[str]:
    """Return what a reader must be warned of."""
    notes = []
    if opened.policies_before:
        own = sum(each.same_recipe for each in found.others)
        of_plan = f", {own} of them by other seeds of this plan" if own else ""
        notes.append(
            f"{counted(opened.policies_before, 'tries')} at the held-out records came before{of_plan}: this"
            f" one is number {opened.place}, and pays for it with its level."
        )
    if opened.rolls:
        notes.append(
            f"The same plan had trained seed {found.seed} before, to"
            f" {counted(opened.rolls, 'other policies')}."
        )
    if opened.restored:
        notes.append(
            "The ledger of held-out openings was removed, cut, or replaced by an older copy:"
            f" {counted(opened.restored, 'policies')} of it came back from git or this working copy."
        )
    if opened.put_back:
        notes.append(
            "Git had put an older ledger of held-out openings in place (a checkout, a stash, another branch):"
            f" {counted(opened.put_back, 'policies')} that it lacks are known here, and count."
        )
    if found.seed not in found.seeds:
        notes.append(f"Training seed {found.seed} is not among the seeds of the plan.")
    elif found.left_out:
        notes.append(
            "The seeds of the plan are some of those that another plan had shown on these records; left out:"
            f" {', '.join(map(str, found.left_out))}."
        )
    elif not opened.registered:
        notes.append(
            f"Training seed {found.seed} was registered after its policy had seen the held-out records."
        )
    return notes
