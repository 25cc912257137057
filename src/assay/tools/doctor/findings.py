"""Who is refused by what the doctor finds, and how long it may look."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.counting import counted
from assay.core.errors import TrainingError
from assay.tools.findings import MOST_SECONDS, Finding


def refuse_faults(
    findings: Sequence[Finding], where: str = "the examination before the first step (health.preflight)"
) -> None:
    """Return if there is no fault.

    Args:
        findings: What was found.
        where: Which look found it.

    Raises:
        TrainingError: There is one; tells all of them.
    """
    faults = [finding for finding in findings if finding.level == "fault"]
    if faults:
        told = "; ".join(f"{each.check} ({each.where}): {each.found}" for each in faults)
        fixes = "\n  ".join(f"{each.check}: {each.fix}" for each in faults)
        raise TrainingError(
            "a set-up that can learn",
            found=f"{counted(len(faults), 'faults')}: {told}",
            where=where,
            fix=f"{fixes}\n  ./run assay doctor looks again; health.preflight: false trains all the same",
        )


AHEAD = 0.4  # of the time, for what is forecast before the base is played with
LEAST = 0.5 * MOST_SECONDS  # for the rest, however long the forecast and loading the base took


class TooSlow(Exception):
    """There is no time for what has to be done at least; says for what."""
