"""What a look at held-out records may cost, where they are looked at again and again.

What is bounded is how often any policy that learned nothing is called better. The bound holds where whoever
makes the next policy knows of the earlier ones no more than whether each was called: then all policies that
he may come to before a first false call are fixed beforehand, and the union bound asks for no independence.
It is no bound for policies that are made of what else a report shows: of its episodes the answers can be
read, and a policy that knows them is called at any level. Gains that are read off and used lie in between;
benchmarks/looks.py measures how far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Of alpha, what the first look may use where a test asks for one direction alone; see opening_level.
FIRST_ONE_SIDED = 0.8


def opening_level(
    place: int, alpha: float, *, looks: int | None = None, seeds: int = 1, one_sided: bool = False
) -> float:
    """Return the level at which the policy that opened held-out records at some place is tested.

    Where so many looks were planned, each has an equal share of alpha, and there is none beyond them. A
    statement over the seeds of a plan has the shares of all of them.

    Where no number was planned, a series is spent: a two-sided test at a level calls a policy that learned
    nothing better with half that probability. So the first one is tested at alpha, which spends alpha / 2,
    and the later ones at alpha / (k (k - 1)), which spends the other half over all k from 2 on. A one-sided
    test spends its whole level, so that the first has four fifths of alpha and all later ones share the last.

    Source: alpha spending over a sequence of hypotheses by a summable series, as in Foster and Stine (2008),
    "Alpha-investing", section 2, and Tian and Ramdas (2021), "Online control of the familywise error rate".

    Args:
        place: 1 for the first.
        alpha: Of the plan.
        looks: So many were planned; None: any number.
        seeds: How many policies the statement is about.
        one_sided: Whether the test asks only for better.

    Returns:
        The level; 0 where the looks that were planned are used up.

    >>> [opening_level(k, 0.05, looks=20) for k in (1, 2, 20, 21)]
    [0.0025, 0.0025, 0.0025, 0.0]
    >>> opening_level(1, 0.05, looks=20, seeds=8)
    0.02
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
    if looks is not None:
        return alpha * min(seeds, looks) / looks if place <= looks else 0.0
    first = FIRST_ONE_SIDED if one_sided else 1.0
    rest = 1.0 - FIRST_ONE_SIDED if one_sided else 1.0
    return alpha * (first if place == 1 else rest / (place * (place - 1)))


@dataclass(frozen=True, slots=True)
class Look:
    """An earlier look at some records.

    `looks` is how many its plan had (None: not known, and then it counts as one of those of the plan that
    asks), `called` whether it was called better at its level (None: not known).
    """

    place: int
    looks: int | None = None
    called: bool | None = None


def share_of_look(place: int, looks: int, before: Sequence[Look]) -> float:
    """Return at which share of alpha a look is tested, where a number of looks was planned.

    It is one part of `looks`, and what the look right before hands on: one that was called better has not
    used up its level, and the next one has it too. Where it is not known whether that one was called, or at
    which level, nothing is handed on. The parts of all looks come to 1 at most, also where plans had
    different numbers.

    Source: the online fallback procedure of Tian and Ramdas (2021), section 4, with equal shares; in any
    order and under any dependence it holds the familywise error rate.

    Args:
        place: Of the look, 1 for the first.
        looks: Of its plan.
        before: Earlier ones, in the order of their places.

    Returns:
        The share; 0 where nothing is left.

    >>> called, not_called = (Look(k + 1, 20, k == 0) for k in range(2))
    >>> share_of_look(1, 20, []), share_of_look(2, 20, [called]), share_of_look(3, 20, [called, not_called])
    (0.05, 0.1, 0.05)
    >>> share_of_look(21, 20, []), share_of_look(3, 20, [Look(1, 2), Look(2, 2)])
    (0.0, 0.0)
    """
    parts = [1 / (each.looks or looks) for each in before]
    # Places that are taken and of which no more is known: the other seeds of a plan that are still to come.
    parts += [1 / looks] * (place - 1 - len(before))
    if sum(parts) + 1 / looks > 1 + 1e-9:
        return 0.0
    handed, last = 0.0, 0
    for each in before:
        own = 1 / (each.looks or looks) + (handed if each.place == last + 1 else 0.0)
        handed, last = own if each.called and each.looks is not None else 0.0, each.place
    return 1 / looks + (handed if place == last + 1 else 0.0)
