"""What a difference shows: its direction and its size are two questions, and each has its own answer.

Direction is what the deciding test says, at every size: more data find a true gain more often, however small
it is. Size is where the interval at the level of that test lies against the margin, the smallest change that
matters: what was called after many looks is the luckiest of them, and its 95 % interval too short. The margin
never reaches further than half of what the base could still gain, or has to lose: beyond that every policy
would be equivalent.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from assay.core.records import Interval, Record
from assay.verdict.evidence.claim.differences import Comparison
from assay.verdict.evidence.claim.plan import ClaimPlan

Direction = Literal["better", "worse", "not shown"]
Size = Literal["matters", "less than matters", "equivalent", "not shown"]


class Effect(Record):
    """Direction and size of one difference; margins are shares of the measure."""

    direction: Direction
    size: Size
    fall_that_matters: float = Field(ge=0, le=1)
    rise_that_matters: float = Field(ge=0, le=1)


def margins_of(points: float, base: float | None) -> tuple[float, float]:
    """Return the smallest fall and the smallest rise that matter, as shares, for a base with this rate.

    Args:
        points: The smallest change that matters to whoever made the plan, percentage points.
        base: The rate of the base; unknown: it bounds nothing.

    >>> margins_of(10, 0.5), margins_of(95, 0.2), margins_of(10, 0.98)[1] < 0.011
    ((0.1, 0.1), (0.1, 0.4), True)
    """
    wanted = points / 100
    if base is None:
        return min(1.0, wanted), min(1.0, wanted)
    return min(wanted, round(base / 2, 10)), min(wanted, round((1 - base) / 2, 10))


def effect_of(
    difference: Interval,
    p: float | None,
    *,
    base: float | None,
    points: float,
    higher: bool,
    alpha: float,
    alpha_worse: float | None = None,
    at_level: Interval | None = None,
) -> Effect:
    """Return what a difference of rates shows.

    Args:
        difference: After - before with its interval, shares.
        p: Of the two-sided test whose inversion the interval is; None: nothing was tested.
        base: Rate before.
        points: The smallest change that matters, percentage points.
        higher: Whether more is better.
        alpha: Level of the test.
        alpha_worse: That of a loss, if another: what earlier openings cost is paid for calling something
            better, and hides no loss.
        at_level: The difference with its interval at the level `alpha`; None: that is the first one.
    """
    fall, rise = margins_of(points, base)
    direction: Direction = "not shown"
    if p is not None and difference.value:
        better = (difference.value > 0) == higher
        if p <= (alpha if better or alpha_worse is None else alpha_worse):
            direction = "better" if better else "worse"
    judged = difference if direction == "worse" or at_level is None else at_level
    return Effect(
        direction=direction,
        size=_size(judged, fall, rise, shown=direction != "not shown"),
        fall_that_matters=fall,
        rise_that_matters=rise,
    )


def effect_in(
    found: Comparison, plan: ClaimPlan, *, alpha: float, alpha_worse: float | None = None
) -> Effect:
    """Return what a comparison of rates shows under a plan; levels as of `effect_of`."""
    return effect_of(
        found.difference,
        found.p,
        base=found.before,
        points=plan.smallest_effect_points,
        higher=plan.direction == "higher",
        alpha=alpha,
        alpha_worse=alpha_worse,
        at_level=found.at_level,
    )


def _size(difference: Interval, fall: float, rise: float, *, shown: bool) -> Size:
    low, high = difference.low, difference.high
    if low is None or high is None:
        return "not shown"
    if low >= rise or high <= -fall:
        # Beyond the margin is beyond zero too; where the test is stricter than the interval, it has the word.
        return "matters" if shown else "not shown"
    if -fall < low and high < rise and (shown or low <= 0.0 <= high):
        return "less than matters" if shown else "equivalent"
    return "not shown"


def effect_words(direction: Direction | None, size: Size | None) -> str:
    """Return direction and size in a few words.

    >>> effect_words("better", "matters"), effect_words("not shown", "equivalent")
    ('a gain that matters', 'no change that matters')
    >>> effect_words("worse", "not shown"), effect_words("better", "less than matters")
    ('a loss', 'a gain too small to matter')
    """
    if direction in (None, "not shown"):
        return "no change that matters" if size == "equivalent" else "no change shown"
    called = "a gain" if direction == "better" else "a loss"
    more = {"matters": " that matters", "less than matters": " too small to matter"}
    return called + more.get(str(size), "")
