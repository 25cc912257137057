"""Warnings by which a claim may show nothing at all: where somebody waits for a yes or no, they make a no."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from assay.core.records import Interval
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.verdict import GATE, NO_GAIN
from assay.verdict.evidence.words.remarks import Remark

# When a warning voids: always; if what it names is as large as what the interval shows; if a tenth of the
# items or more are left out, or as many as the interval shows; if nothing is shown without what it warns of;
# if it is said of one of the two arms alone.
When = Literal[
    "always",
    "as large as the gain",
    "a tenth of the items, or as large as the gain",
    "nothing is shown then",
    "of one arm alone",
]
VOIDS: Mapping[str, When] = {
    "same_results": "always",
    "one_answer": "always",
    "rival_no_result": "always",
    "bounds_not_reached": "always",
    "target_in_prompt": "always",
    "target_repeated": "always",
    "draws_picked": "always",
    "failed_in_one_arm": "as large as the gain",
    "failed_counts_as_right": "as large as the gain",
    "scores_edited": "as large as the gain",
    "cut_off_in_one_arm": "as large as the gain",
    "scored_twice": "as large as the gain",
    "target_counts_as_wrong": "as large as the gain",
    "missing_left_out": "a tenth of the items, or as large as the gain",
    "best_of_answers": "of one arm alone",
    "answers_not_scored": "of one arm alone",
    "items_share_passages": "nothing is shown then",
}
MANY = 0.1


def voided(claim: Claim, margin: float = 0.0) -> tuple[Remark, ...]:
    """Return the warnings that void a claim of a gain, or of no loss of `margin`, a share."""
    return tuple(each for each in claim.warnings if each.code in VOIDS and _voids(each, claim, margin))


def _voids(warning: Remark, claim: Claim, margin: float) -> bool:
    when, told = VOIDS[warning.code], warning.values
    if when.startswith("a tenth of the items") and _number(told["n"]) >= MANY * _number(told["of"]):
        return True
    if when == "of one arm alone":
        arms = {each.values["arm"] for each in claim.warnings if VOIDS.get(each.code) == when}
        return len(arms & {"before", "after"}) == 1 and told["arm"] in ("before", "after")
    if when == "nothing is shown then":
        if told["p"] is None or margin == 0.0:
            return told["p"] is None or _number(told["p"]) > claim.level
        return _end(Interval.model_validate(told["difference"]), claim) <= -margin
    return when == "always" or _excess(warning, claim) >= _end(claim.difference, claim) + margin


def _end(gap: Interval | None, claim: Claim) -> float:
    """Return the end of an interval that is nearest to a loss, a share; below 0 for a loss."""
    if gap is None or gap.low is None or gap.high is None:
        return 0.0
    return gap.low if claim.plan.direction == "higher" else -gap.high


def _excess(warning: Remark, claim: Claim) -> float:
    """Return by how much, a share, the arm after is ahead for what a warning names."""
    told: Mapping[str, Any] = warning.values
    if "shares" in told:
        return float(told["shares"][0] - told["shares"][1])
    if warning.code in ("failed_in_one_arm", "failed_counts_as_right"):
        before, after = (n / of for n, of in zip(told["counts"], told["of"], strict=True))
        return float(before - after) * (1 if warning.code == "failed_in_one_arm" else -1)
    if warning.code in ("missing_left_out", "scores_edited"):
        return _number(told["n"]) / _number(told["of"])
    sign = 1 if claim.plan.direction == "higher" else -1
    return sign * float(told["points"]) / 100


def _number(value: object) -> float:
    return float(str(value))


def gate_code(claim: Claim, *, strict: bool) -> int:
    """Return the exit code that follows from a claim's word, and from what voids it; not strict: 0 for
    whatever could be evaluated."""
    code = GATE.get(claim.verdict, NO_GAIN)
    if not strict:
        return code if code in (GATE["NOT EVALUABLE"], GATE["DRAFT"]) else 0
    return NO_GAIN if code == 0 and voided(claim) else code
