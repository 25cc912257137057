"""The A/A control: the base policy against itself on other draws.

Two sets of draws of one policy can be exchanged, so that sign flips are exact here whatever the distribution.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from assay.core.errors import EvidenceError
from assay.core.records import Episode, Interval, Record
from assay.rollout.dataset.suite import FEWEST_CLUSTERS
from assay.rollout.evaluation.measures import check_complete
from assay.verdict.evidence.claim.differences import paired
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.statistics.tests import sign_flip

# The control guards against broken pipelines, which show at any level; at 0.05 it would bar one sound claim
# in twenty.
AA_LEVEL = 0.01


class Control(Record):
    """Base against base. `passed` is null where the control could not be run; the reason says why."""

    kind: Literal["second base run", "halves of the base draws", "not run"]
    verdict: Literal["NO EVIDENCE", "EVIDENCE OF A DIFFERENCE", "NOT RUN"]
    passed: bool | None
    reason: Remark
    difference: Interval | None
    p: float | None
    level: float = Field(gt=0, lt=1, description="p at or below it counts as a difference")
    draws: int = Field(ge=0, description="draws per item on each side")


def _renumbered(episodes: Sequence[Episode]) -> list[Episode]:
    by_item: dict[str, list[Episode]] = defaultdict(list)
    for episode in sorted(episodes, key=lambda e: (e.item_id, e.draw)):
        by_item[episode.item_id].append(episode)
    return [e.model_copy(update={"draw": k}) for draws in by_item.values() for k, e in enumerate(draws)]


def _not_run(code: str, **values: object) -> Control:
    return Control(
        kind="not run",
        verdict="NOT RUN",
        passed=None,
        reason=remark(code, **values),
        difference=None,
        p=None,
        level=AA_LEVEL,
        draws=0,
    )


def aa_control(
    base: Sequence[Episode],
    base_again: Sequence[Episode] | None,
    *,
    measure: str,
    draws: int,
    rng: np.random.Generator,
    level: float = AA_LEVEL,
) -> Control:
    """Return the A/A control: base against `base_again`, or the first half of the base's draws against the
    second.

    With an odd number of draws the last one is left out of the halves. A sound pipeline is flagged with
    probability `level`; where so few clusters are there that none could ever be, the control counts as not
    run.
    """
    if base_again is None:
        half = draws // 2
        if half == 0:
            return _not_run("aa_one_draw")
        sides = [[e for e in base if e.draw < half], [e for e in base if half <= e.draw < 2 * half]]
        kind: Literal["second base run", "halves of the base draws"] = "halves of the base draws"
    else:
        half, sides, kind = draws, [list(base), list(base_again)], "second base run"
        if {(e.item_id, e.seed) for e in base} & {(e.item_id, e.seed) for e in base_again}:
            return _not_run("aa_same_draws")
    sides = [_renumbered(side) for side in sides]
    try:
        for side in sides:
            check_complete(side, half, "aa_control")
        sums = paired(sides[0], sides[1], measure)
    except EvidenceError as error:
        return _not_run("aa_not_whole", expected=error.expected, found=error.found)
    if sums is None or len(sums.names) < FEWEST_CLUSTERS:
        return _not_run("aa_few_clusters", needed=FEWEST_CLUSTERS)
    if 2.0 ** (1 - len(sums.names)) > level:
        return _not_run("aa_never_flags", n=len(sums.names), level=level)
    p, difference = sign_flip(sums, rng)
    passed = p > level
    return Control(
        kind=kind,
        verdict="NO EVIDENCE" if passed else "EVIDENCE OF A DIFFERENCE",
        passed=passed,
        reason=remark("aa_passed" if passed else "aa_failed", level=level),
        difference=difference,
        p=p,
        level=level,
        draws=half,
    )
