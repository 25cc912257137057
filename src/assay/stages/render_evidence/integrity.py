"""The checks behind a claim as a reader meets them: each with whether it held, and what was looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from assay.core.counting import counted
from assay.core.records import TrainFacts
from assay.rollout.dataset.audit_records import BLOCKING, SAID, Contamination
from assay.rollout.dataset.external import Training
from assay.stages.render_evidence.claim_inputs import OTHER_PLAN, OTHER_POLICY
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.verdict import DRAFT
from assay.verdict.evidence.page.shell import Tick
from assay.verdict.evidence.words.remarks import Remark
from assay.verdict.evidence.words.sentences import control_said, opening_said, random_reward_said

# What bars a claim and belongs to one check.
ALARMS = frozenset({"other_alarms", "alarm_unanswered"})
OPENINGS = frozenset({"openings_lost", "other_opening"})
LEAKS = frozenset({"leak", "of_named_data", "other_records"})


def integrity(
    claim: Claim,
    trained: Training,
    shared: Contamination | None,
    *,
    blockers: Sequence[Remark],
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
    codes = {each.code for each in blockers}
    n = sum(graded.values())
    rows = [
        Tick(
            "Graded again",
            not misgraded,
            f"All {n:,} stored episodes, in {counted(len(graded), 'files')}, were played through the task"
            " once more and have to earn the parts, flags and success that are recorded.",
        ),
        Tick(
            "Same suite",
            claim.difference is not None,
            "Both arms have to hold the items and draws of the suite that the plan names"
            f" ({claim.plan.suite_digest[:12]}), each once, with sampling seeds that differ.",
        ),
        _of_plan(trained, codes, "fresh_kept" in {each.code for each in claim.warnings}),
        Tick(
            "Same policies",
            not codes & set(OTHER_POLICY),
            "The base measured before has to be the base trained; the policy measured after, its chosen"
            " checkpoint."
            if isinstance(trained, TrainFacts)
            else "The base measured before has to be the base of what was brought; the policy measured after,"
            " that.",
        ),
        Tick("Contamination", None if shared is None else not codes & LEAKS, _splits_said(shared)),
        Tick("A/A", None if claim.control is None else claim.control.passed, control_said(claim.control)),
        *([] if claim.verdict == DRAFT else [_of_random_rewards(claim)]),
        Tick(
            "Openings",
            not codes & OPENINGS,
            "A draft: no held-out record was opened."
            if claim.verdict == DRAFT
            else opening_said(claim.opened, claim.level, claim.plan),
        ),
        _of_alarms(trained, codes),
    ]
    told = {*OTHER_PLAN, *OTHER_POLICY, *ALARMS, *OPENINGS, *LEAKS, "misgraded"}
    return rows + [Tick("Found", False, str(each)) for each in blockers if each.code not in told]


def _of_plan(trained: Training, codes: Set[str], fresh: bool) -> Tick:
    own = isinstance(trained, TrainFacts)
    begun = "training began" if own else "what was trained elsewhere was taken"
    return Tick(
        "Plan before training" if own else "Plan before measuring",
        not codes & set(OTHER_PLAN),
        f"claim_plan.json{' beside the fresh records' * fresh} has to have the SHA-256 noted when {begun}"
        f" ({trained.claim_plan_sha256[:12]}) and to be what settings and data ask for"
        f"{'; the plan of this claim, the same with other held-out records' * fresh}.",
    )


def _of_alarms(trained: Training, codes: Set[str]) -> Tick:
    if not isinstance(trained, TrainFacts):
        return Tick("Alarms of the training", None, "Not known: trained elsewhere.")
    red = [rule.rule for rule in trained.health.rules if rule.level == "RED"]
    alarms = counted(len(trained.health.rules), "rules")
    return Tick(
        "Alarms of the training",
        not red and not codes & ALARMS,
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
