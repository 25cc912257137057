"""What the k-th look at the same held-out records may cost: alpha spent by a series that was fixed
beforehand."""

from __future__ import annotations

# Of alpha, what the first look may use where a test asks for one direction alone; see opening_level.
FIRST_ONE_SIDED = 0.8


def opening_level(place: int, alpha: float, *, one_sided: bool = False) -> float:
    """Return the level at which the policy that opened held-out records at some place is tested.

    A two-sided test at a level calls a policy that learned nothing better with half that probability. So the
    first one is tested at alpha, which spends alpha / 2, and the later ones at alpha / (k (k - 1)), which
    spends the other half over all k from 2 on: however often records are opened, and whatever is done with
    what was seen, the probability that any policy that learned nothing is called better stays at alpha (the
    union bound, which asks for no independence). A one-sided test spends its whole level, so that the first
    has four fifths of alpha and all later ones share the last.

    Source: alpha spending over a sequence of hypotheses by a summable series, as in Foster and Stine (2008),
    "Alpha-investing", section 2, and Tian and Ramdas (2021), "Online control of the familywise error rate".

    Args:
        place: 1 for the first.
        alpha: Of the plan.
        one_sided: Whether the test asks only for better.

    >>> [round(opening_level(k, 0.05), 5) for k in (1, 2, 3, 10)]
    [0.05, 0.025, 0.00833, 0.00056]
    >>> sum(opening_level(k, 0.05) / 2 for k in range(1, 10_000)) < 0.05
    True
    >>> [round(opening_level(k, 0.05, one_sided=True), 5) for k in (1, 2, 3)]
    [0.04, 0.005, 0.00167]

    Raises:
        ValueError: There is no such place.
    """
    if place < 1:
        raise ValueError(f"places begin with 1, found {place}")
    first = FIRST_ONE_SIDED if one_sided else 1.0
    rest = 1.0 - FIRST_ONE_SIDED if one_sided else 1.0
    return alpha * (first if place == 1 else rest / (place * (place - 1)))
