"""The checks behind a claim as a reader meets them: each with whether it held, and what was looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from assay.core.counting import counted
from assay.core.records import TrainFacts
from assay.dataset.audit_records import BLOCKING, SAID, Contamination
from assay.dataset.external import Training
from assay.evidence.claim.aa_test import control_said
from assay.evidence.claim.claim import Claim
from assay.evidence.claim.openings import NOT_KNOWN, OTHER_OPENING, opening_said
from assay.evidence.claim.random_reward import random_reward_said
from assay.evidence.claim.verdict import DRAFT
from assay.evidence.claim.warnings import UNACKNOWLEDGED
from assay.evidence.page.shell import Tick
from assay.stages.render_evidence.claim_inputs import OTHER_ALARMS, OTHER_PLAN, OTHER_POLICY, OTHER_RECORDS

Blockers = Sequence[str | tuple[str, str]]
LEAK = "a leak between splits"


def integrity(
    claim: Claim,
    trained: Training,
    shared: Contamination | None,
    *,
    blockers: Blockers,
    graded: Mapping[str, int],
    misgraded: Sequence[str],
) -> list[Tick]:
    """Return every check; what bars the claim and belongs to none of them has a line of its own.

    Args:
        claim: With its controls.
        trained: Of the training.
        shared: What the splits share; None: contamination.json is missing.
        blockers: Reasons why no claim may be made.
        graded: Episodes that were graded again, by arm.
        misgraded: What grading again found.
    """
    found = [(each, each) if isinstance(each, str) else each for each in blockers]
    kinds = {kind for kind, _ in found}
    n = sum(graded.values())
    arms = ", ".join(f"{name} {count:,}" for name, count in graded.items())
    leaks = {kind for kind in kinds if kind.startswith(LEAK)} | (kinds & {OTHER_RECORDS})
    rows = [
        Tick(
            "Graded again",
            not misgraded,
            f"All {n:,} stored episodes ({arms}) were played through the task once more and have to earn the"
            " parts, flags and success that are recorded.",
        ),
        Tick(
            "Same suite",
            claim.difference is not None,
            "Both arms have to hold the items and draws of the suite that the plan names"
            f" ({claim.plan.suite_digest[:12]}), each once, with sampling seeds that differ.",
        ),
        _of_plan(trained, kinds),
        Tick(
            "Same policies",
            not kinds & set(OTHER_POLICY),
            "The base measured before has to be the base trained; the policy measured after, its chosen"
            " checkpoint."
            if isinstance(trained, TrainFacts)
            else "The base measured before has to be the base of what was brought; the policy measured after,"
            " that.",
        ),
        Tick("Contamination", None if shared is None else not leaks, _splits_said(shared)),
        Tick("A/A", None if claim.control is None else claim.control.passed, control_said(claim.control)),
        *([] if claim.verdict == DRAFT else [_of_random_rewards(claim)]),
        Tick(
            "Openings",
            not kinds & {NOT_KNOWN, OTHER_OPENING},
            "A draft: no held-out record was opened."
            if claim.verdict == DRAFT
            else opening_said(claim.opened, claim.level, claim.plan),
        ),
        _of_alarms(trained, kinds),
    ]
    told = {*OTHER_PLAN, *OTHER_POLICY, OTHER_ALARMS, UNACKNOWLEDGED, NOT_KNOWN, OTHER_OPENING, *leaks}
    rows += [Tick("Found", False, text) for kind, text in found if kind not in told and text not in misgraded]
    return rows


def _of_plan(trained: Training, kinds: Set[str]) -> Tick:
    own = isinstance(trained, TrainFacts)
    begun = "training began" if own else "what was trained elsewhere was taken"
    return Tick(
        "Plan before training" if own else "Plan before measuring",
        not kinds & set(OTHER_PLAN),
        f"claim_plan.json has to have the SHA-256 noted when {begun} ({trained.claim_plan_sha256[:12]}) and"
        " to be what settings and data ask for.",
    )


def _of_alarms(trained: Training, kinds: Set[str]) -> Tick:
    if not isinstance(trained, TrainFacts):
        return Tick("Alarms of the training", None, "Not known: trained elsewhere.")
    red = [rule.rule for rule in trained.health.rules if rule.level == "RED"]
    alarms = counted(len(trained.health.rules), "rules")
    return Tick(
        "Alarms of the training",
        not red and not kinds & {OTHER_ALARMS, UNACKNOWLEDGED},
        f"Worst level {trained.health.worst}; {alarms} left GREEN"
        + (f"; RED: {', '.join(red)}." if red else ", none reached RED."),
    )


def _of_random_rewards(claim: Claim) -> Tick:
    found = claim.random_reward
    held = None
    if found is not None and found.comparable:
        held = found.trained_is_ahead
    return Tick("Random rewards", held, random_reward_said(found))


def _splits_said(found: Contamination | None) -> str:
    """Return what splits were compared for; a check that had nothing to read is named as such."""
    if found is None:
        return "Whether splits share what they must not is not known: contamination.json is missing."
    read = [SAID[kind] for kind in BLOCKING if found.compared.get(kind)]
    idle = [SAID[kind] for kind in BLOCKING if not found.compared.get(kind)]
    said = f"Splits were compared for {', '.join(read) or 'nothing'}"
    return f"{said}; the records hold nothing to compare for: {', '.join(idle)}." if idle else f"{said}."
