"""What a reader should see before any table: which items moved, what is solved that never was, where the gain
is smallest, how far it carries, and what an episode costs now. Counts and means; nothing is tested here."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from assay.core.records import Episode
from assay.rollout.evaluation.measures import reader_of
from assay.verdict.evidence.claim.differences import ROUNDING, Comparison
from assay.verdict.evidence.claim.secondary_suites import SecondarySuite
from assay.verdict.evidence.words.remarks import Remark, remark

Wins = Mapping[str, Sequence[float]]  # by item, what each of its draws has of a rate


def wins_of(arm: Sequence[Episode], measure: str) -> dict[str, list[float]]:
    """Return what each draw of an item has of a rate, by item, draws in their order; draws of which it is not
    asked are left out."""
    value, found = reader_of(measure), defaultdict[str, list[float]](list)
    for episode in sorted(arm, key=lambda each: (each.item_id, each.draw)):
        if (share := value(episode)) is not None:
            found[episode.item_id].append(share)
    return dict(found)


def yes_or_no(*arms: Wins) -> bool:
    """Return whether every draw is wholly right or wholly wrong."""
    return all(each in (0.0, 1.0) for arm in arms for wins in arm.values() for each in wins)


def first_lines(
    base: Sequence[Episode],
    trained: Sequence[Episode],
    base_again: Sequence[Episode] | None,
    measure: str,
    *,
    higher: bool,
    strata: Mapping[str, Comparison],
    suites: Mapping[str, SecondarySuite],
) -> tuple[Remark, ...]:
    """Return what to read first.

    Args:
        base: Episodes before.
        trained: Episodes after, of the same items.
        base_again: Further draws of the base as it was measured.
        measure: The primary one.
        higher: Whether more of it is better.
        strata: The primary metric within each.
        suites: The same beyond the held-out suite.
    """
    found = list[Remark]()
    if higher:
        before, again, after = (wins_of(arm or (), measure) for arm in (base, base_again, trained))
        before, after = ({item: arm[item] for item in before if item in after} for arm in (before, after))
        found += _of_items(before, after)
        if before and yes_or_no(before, again, after):
            together = {item: [*wins, *again.get(item, ())] for item, wins in before.items()}
            found += [*_in_draws(before, after), *_never_solved(together, after)]
    known = {name: each.difference for name, each in strata.items() if each.difference.value is not None}
    if len(known) > 1:
        name = min(known, key=lambda each: (known[each].value or 0.0) * (1 if higher else -1))
        found.append(remark("weakest_stratum", stratum=name, difference=known[name]))
    if suites:
        told = [{"name": name, "difference": each.difference} for name, each in suites.items()]
        found.append(remark("beyond_heldout", suites=told))
    return (*found, *_costs(base, trained))


def _of_items(before: Wins, after: Wins) -> list[Remark]:
    gains = [
        math.fsum(after[item]) / len(after[item]) - math.fsum(wins) / len(wins)
        for item, wins in before.items()
    ]
    better, worse = sum(gain > ROUNDING for gain in gains), sum(gain < -ROUNDING for gain in gains)
    return [remark("items_moved", better=better, worse=worse, n=len(gains))] if gains else []


def _in_draws(before: Wins, after: Wins) -> list[Remark]:
    draws = min(len(each) for arm in (before, after) for each in arm.values())
    if draws < 2:
        return []
    ends = {
        f"{name}_{when}": round(sum(rule(each) for each in arm.values()) / len(arm), 10)
        for name, rule in (("any", any), ("all", all))
        for when, arm in (("before", before), ("after", after))
    }
    return [remark("any_and_all", k=draws, **ends)]


def _never_solved(base: Wins, after: Wins) -> list[Remark]:
    """Return of the items that the base solved in none of its draws how many are solved now, beside how many
    it would solve itself, were it drawn as often again.

    Of that an item without a success says less than it seems: the rate is that of `k` draws where all others
    fail, over all ways to choose them, which is no less than where further ones fail too.
    """
    never = [item for item, wins in base.items() if not any(wins)]
    if not never:
        return []
    draws, k = min(map(len, base.values())), min(map(len, after.values()))
    least = min(k, draws)
    ways = [
        math.comb(len(wins) - won, least - won) / math.comb(len(wins), least)
        for wins in base.values()
        if (won := round(sum(wins))) <= least
    ]
    solved, luck = sum(any(after[item]) for item in never), 1 - len(never) / math.fsum(ways)
    return [
        remark(
            "never_solved", n=len(never), draws=draws, solved=solved, k=k, by_luck=round(max(0.0, luck), 10)
        )
    ]


def costs_of(arm: Sequence[Episode]) -> tuple[float, float]:
    """Return tokens and turns an episode; 0 where they are not known."""
    return tuple(
        math.fsum(each) / max(1, len(arm))
        for each in ([e.n_tokens for e in arm], [len(e.turns) for e in arm])
    )  # type: ignore[return-value]


def _costs(base: Sequence[Episode], trained: Sequence[Episode]) -> list[Remark]:
    before, after = costs_of(base), costs_of(trained)
    if not all((*before, *after)):
        return []
    told = {"tokens_before": before[0], "tokens_after": after[0]}
    told |= {"turns_before": before[1], "turns_after": after[1]}
    return [remark("cost_of_episode", **{name: round(value, 10) for name, value in told.items()})]
