"""RED alarms of a training: each bars the claim until somebody answers for it with a reason, which is then
quoted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.core.records import RuleSummary
from assay.evaluation.alarms import rule_said
from assay.evidence.escape import visible

UNACKNOWLEDGED = "a red alarm of the training is not acknowledged"


def answer_for(
    rules: Sequence[RuleSummary], acknowledged: Mapping[str, str]
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return what bars the claim, as (kind, what was found), and what to warn of.

    Args:
        rules: Those that left GREEN during the training.
        acknowledged: Reasons by rule.
    """
    red = {found.rule: found for found in rules if found.level == "RED"}
    blockers, notes = [], []
    for rule, found in red.items():
        said = rule_said(found)
        if rule in acknowledged:
            notes.append(f"{said} Acknowledged: {_quoted(acknowledged[rule])}.")
        else:
            fix = f"look at it, then give a reason under evidence.acknowledged_alarms (rule: {rule})"
            blockers.append((UNACKNOWLEDGED, f"{UNACKNOWLEDGED}: {said} Fix: {fix}"))
    notes += [
        f"Acknowledged alarm {rule} did not ring RED: the reason {_quoted(reason)} answers for nothing."
        for rule, reason in acknowledged.items()
        if rule not in red
    ]
    return blockers, notes


def _quoted(reason: str) -> str:
    r"""Return a stranger's text on one line, in quotes that it cannot close.

    >>> ascii(_quoted("line\n\u201d fine\u202e")) == ascii("\u201cline '' fine\\u202e\u201d")
    True
    """
    text = visible(" ".join(reason.split())).replace("\u201c", "''").replace("\u201d", "''")
    return f"\u201c{text}\u201d"
