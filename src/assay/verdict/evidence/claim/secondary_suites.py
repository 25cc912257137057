"""What the trained policy does beyond the held-out suite: the primary metric on the secondary suites of the
plan, such as items unlike those of the training. A gain there is none of the verdict; a loss is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from assay.core.records import Episode
from assay.core.seeds import rng as labelled_rng
from assay.rollout.evaluation.measures import value_of
from assay.verdict.evidence.claim.differences import Comparison, compare_measure, with_holm
from assay.verdict.evidence.claim.effect import Direction, effect_words
from assay.verdict.evidence.claim.plan import ClaimPlan
from assay.verdict.evidence.formatting import MISSING, difference_text, p_number, percent
from assay.verdict.statistics.openings import opening_level

if TYPE_CHECKING:
    import pandas as pd  # takes half a second to load, and most commands make no table

SECONDARY_TABLE = "Secondary suites: beyond the held-out one"


@dataclass(frozen=True, slots=True)
class PlayedSuite:
    """What was played on one secondary suite: by the base, by what was trained on it, and by each player that
    needs no skill."""

    before: Sequence[Episode]
    after: Sequence[Episode]
    trivial: Mapping[str, Sequence[Episode]]


class SecondarySuite(Comparison):
    """The primary metric on one secondary suite; `n_clusters` and `difference.n` say on how much it rests."""

    direction: Direction = Field(description="better or worse than the base, by p_holm")
    level: float | None = Field(
        description="that p_holm must reach to be called better; null: how often its records were opened is"
        " not known, so nothing is"
    )
    best_trivial: str | None = Field(description="the player without skill that does best on the same items")
    best_trivial_rate: float | None = Field(description="its rate, share")


def compare_secondary(
    played: Mapping[str, PlayedSuite],
    plan: ClaimPlan,
    measure: str,
    *,
    level: float,
    places: Mapping[str, int | None],
    seed: int,
) -> dict[str, SecondarySuite]:
    """Return the comparison on each secondary suite of the plan.

    Each is the test of the headline, two-sided, and Holm's correction goes over the suites alone: they are a
    family of their own, since no verdict is better for them, and that is what alpha is spent for. "Better"
    needs the level of the claim, or the lower one that earlier openings of the suite's own records leave; a
    loss needs the plan's alpha, whatever was opened.

    Args:
        played: By suite.
        plan: Names the suites.
        measure: The primary one.
        level: Of the claim.
        places: Which trained policy it was that saw the records of each suite; None: not known.
        seed: Of the intervals.

    Raises:
        EvidenceError: Both arms of a suite do not hold the same items.
    """
    found = with_holm(
        {
            name: compare_measure(
                played[name].before,
                played[name].after,
                measure,
                labelled_rng(seed, "secondary suite", name),
                unseen=planned.unseen,
            )
            for name, planned in sorted(plan.secondary_suites.items())
            if name in played
        }
    )
    suites = {}
    for name, each in found.items():
        place = places.get(name, 1)
        own = None if place is None else min(level, opening_level(place, plan.alpha, looks=plan.looks))
        ahead = (each.difference.value or 0.0) * (1 if plan.direction == "higher" else -1)
        direction: Direction = "not shown"
        if each.p_holm is not None and ahead and each.p_holm <= ((own or 0.0) if ahead > 0 else plan.alpha):
            direction = "better" if ahead > 0 else "worse"
        rate, player = max(
            ((_rate(episodes, measure), player) for player, episodes in played[name].trivial.items()),
            default=(None, None),
        )
        suites[name] = SecondarySuite(
            **each.model_dump(), direction=direction, level=own, best_trivial=player, best_trivial_rate=rate
        )
    return suites


def _rate(episodes: Sequence[Episode], measure: str) -> float:
    values = [value for episode in episodes if (value := value_of(episode, measure)) is not None]
    return round(sum(values) / max(1, len(values)), 10)


def direction_said(found: SecondarySuite) -> str:
    """Return in a word or three what a suite shows."""
    return effect_words(found.direction, "not shown")


def secondary_frame(found: Mapping[str, SecondarySuite]) -> pd.DataFrame:
    """Return the secondary suites as text, a row each."""
    import pandas as pd

    rows = [
        {
            "suite": name,
            "items": each.difference.n,
            "clusters": each.n_clusters,
            "before, %": percent(each.before),
            "after, %": percent(each.after),
            "difference, points": difference_text(each.difference, rate=True),
            "best without skill, %": f"{each.best_trivial or MISSING} {percent(each.best_trivial_rate)}",
            "p": p_number(each.p),
            "p (Holm)": p_number(each.p_holm),
            "shown": direction_said(each),
        }
        for name, each in found.items()
    ]
    return pd.DataFrame(rows)
