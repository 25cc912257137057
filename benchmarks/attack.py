"""One attack on the verdict, and what counts as an answer to it: shared by all lists of attacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.words.remarks import Remark

GAINS = ("IMPROVED", "BETTER")  # the words that say a gain without a but

# What a claim says: its verdict and its remarks.
Said = tuple[str, Sequence[Remark]]


@dataclass(frozen=True, slots=True)
class Attack:
    """A way to get a gain called for a policy that learned nothing, or that does harm.

    `own` are the codes that name just this attack; a warning of anything else is no answer to it. Empty: only
    another verdict is.
    """

    kind: str  # pipeline, judge, contamination, control …
    name: str
    make: Callable[[], Said]
    own: frozenset[str] = frozenset()


def said_of(claim: Claim) -> Said:
    """Return what a claim says: verdict, reasons and warnings."""
    return claim.verdict, [*claim.reasons, *claim.warnings]


def row_of(attack: Attack) -> dict[str, Any]:
    """Return one attack as it is recorded: verdict, the codes that were said, and whether it was answered by
    the verdict or by a code of its own."""
    verdict, remarks = attack.make()
    codes = list(dict.fromkeys(each.code for each in remarks))
    told = [str(each) for each in remarks if each.code in attack.own]
    remarked = verdict not in GAINS or bool(told)
    return {
        "kind": attack.kind,
        "name": attack.name,
        "verdict": verdict,
        "codes": codes,
        "said": told,
        "remarked": remarked,
    }


def rows_of(attacks: Iterable[Attack]) -> list[dict[str, Any]]:
    """Try every attack; return and print the rows."""
    rows = []
    for attack in attacks:
        row = row_of(attack)
        mark = "  " if row["remarked"] else "! "
        print(f"{mark}{attack.kind}: {attack.name}: {row['verdict']}", *row["said"], sep="\n      ")
        rows.append(row)
    return rows
