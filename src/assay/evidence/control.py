"""The A/A control: the base policy against itself on other draws, through the very test that decides the claim."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from assay.errors import EvidenceError
from assay.evaluation.report import check_complete
from assay.evidence.differences import FEWEST_CLUSTERS, compare_measure
from assay.records import Episode, Interval, Record


class Control(Record):
    """Base against base. `passed` is null where the control could not be run; the reason says why."""

    kind: Literal["second base run", "halves of the base draws", "not run"]
    verdict: Literal["NO EVIDENCE", "EVIDENCE OF A DIFFERENCE", "NOT RUN"]
    passed: bool | None
    reason: str
    difference: Interval | None
    p: float | None
    draws: int = Field(ge=0, description="draws per item on each side")


def _renumbered(episodes: Sequence[Episode]) -> list[Episode]:
    by_item: dict[str, list[Episode]] = defaultdict(list)
    for episode in sorted(episodes, key=lambda e: (e.item_id, e.draw)):
        by_item[episode.item_id].append(episode)
    return [e.model_copy(update={"draw": k}) for draws in by_item.values() for k, e in enumerate(draws)]


def _not_run(reason: str) -> Control:
    return Control(kind="not run", verdict="NOT RUN", passed=None, reason=reason, difference=None, p=None, draws=0)


def aa_control(
    base: Sequence[Episode],
    base_again: Sequence[Episode] | None,
    *,
    measure: str,
    draws: int,
    alpha: float,
    rng: np.random.Generator,
) -> Control:
    """Return the A/A control: base against `base_again`, or the first half of the base's draws against the second.

    With an odd number of draws the last one is left out of the halves. A sound control rejects with probability alpha.
    """
    if base_again is None:
        half = draws // 2
        if half == 0:
            return _not_run("one draw per item cannot be split in two; no second base run was given")
        sides = [[e for e in base if e.draw < half], [e for e in base if half <= e.draw < 2 * half]]
        kind: Literal["second base run", "halves of the base draws"] = "halves of the base draws"
    else:
        half, sides, kind = draws, [list(base), list(base_again)], "second base run"
        if {(e.item_id, e.seed) for e in base} & {(e.item_id, e.seed) for e in base_again}:
            return _not_run("the second base run repeats sampling seeds of the first: not other draws")
    sides = [_renumbered(side) for side in sides]
    try:
        for side in sides:
            check_complete(side, half, "aa_control")
        result = compare_measure(sides[0], sides[1], measure, rng)
    except EvidenceError as error:
        return _not_run(f"expected {error.expected}, found {error.found}")
    if result.p is None:
        return _not_run(f"under {FEWEST_CLUSTERS} clusters nothing can be tested")
    passed = result.p > alpha
    return Control(
        kind=kind,
        verdict="NO EVIDENCE" if passed else "EVIDENCE OF A DIFFERENCE",
        passed=passed,
        reason=f"p {'>' if passed else '<='} {alpha:g} between two sets of draws of the same policy",
        difference=result.difference,
        p=result.p,
        draws=half,
    )
