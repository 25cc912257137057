"""What a reader must be warned of where models were asked over an address, one sentence each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from assay.core.counting import counted
from assay.dataset.served import ServedArm
from assay.evidence.escape import visible

SERVED = (
    "Both models were asked over an address. A served model cannot be pinned: the same name may be other"
    " weights tomorrow. Its chat template, and so its prompts, are not known here; nor are token ids,"
    " log-probabilities and entropy."
)


def served_said(arms: Mapping[str, ServedArm]) -> list[str]:
    """Return what a reader must be warned of where models were asked over an address, a sentence each.

    Args:
        arms: What is known of the answers, by the file of episodes.
    """
    found, names = [SERVED], dict[str, dict[str, None]]()
    for arm in arms.values():
        names.setdefault(arm.policy_digest, {}).update(dict.fromkeys(arm.answered_as))
    for policy, told in names.items():
        if len(told) > 1:
            shown = visible("; ".join(sorted(told)))
            found.append(
                f"More than one answered for the policy {policy[:12]}, so it may not be one: {shown}."
            )
    if silent := sum(arm.without_usage for arm in arms.values()):
        said = f"{silent} of {counted(sum(arm.answers for arm in arms.values()), 'answers')}"
        found.append(f"{said} came without counts of tokens, which stand as 0 among the measures.")
    odd = Counter[str]()
    for arm in arms.values():
        odd.update({name: n for name, n in arm.finish_reasons.items() if name not in ("stop", "length")})
    if odd:
        told_of = ", ".join(f"{visible(name) or 'none given'} {n}x" for name, n in sorted(odd.items()))
        found.append(f"Some answers ended neither by themselves nor at the limit: {told_of}.")
    return found
