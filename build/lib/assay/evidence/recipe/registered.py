"""Whether runs are the seeds that their plan registered, all of them and no other, and the level that is left
for what they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.core.counting import counted
from assay.evidence.recipe.runs import Run
from assay.statistics.openings import opening_level

HAND_PICKED = "hand-picked seeds"


@dataclass(frozen=True, slots=True)
class Registration:
    """Why runs are not the registered ones, None where they are; and the level of a test over them."""

    against: str | None
    level: float
    place: int | None


def registration_of(runs: Sequence[Run], *, one_sided: bool) -> Registration:
    """Return what the plan of some runs of one recipe registered.

    Runs that are not the registered ones are tested at the plan's alpha, as if they were: what they show is
    marked wherever it is shown.
    """
    plan = runs[0].claim.plan
    against = _against(runs, one_sided=one_sided)
    if against is not None:
        return Registration(against, plan.alpha, None)
    place = max(run.claim.opened.recipe_place or 1 for run in runs if run.claim.opened is not None)
    return Registration(None, opening_level(place, plan.alpha, one_sided=one_sided), place)


def _against(runs: Sequence[Run], *, one_sided: bool) -> str | None:
    plan, seeds = runs[0].claim.plan, sorted(run.trained.seed for run in runs)
    asked = "one-sided" if one_sided else "two-sided"
    if not plan.seeds:
        return "the plan registers no seeds (claim.seeds)"
    missing, more = sorted({*plan.seeds} - {*seeds}), sorted({*seeds} - {*plan.seeds})
    if missing or more:
        parts = [f"without {_named(missing)}" if missing else "", f"with {_named(more)}" if more else ""]
        return f"not the seeds of the plan: {' and '.join(filter(None, parts))}"
    if asked != plan.sided:
        return f"{asked} was asked, the plan says {plan.sided}"
    unknown = [run.name for run in runs if run.claim.opened is None or run.claim.opened.recipe_place is None]
    if unknown:
        return f"how often the held-out records were opened is not known of {', '.join(unknown)}"
    late = [run.name for run in runs if run.claim.opened is not None and not run.claim.opened.registered]
    if late:
        return f"registered after the held-out records were seen: {', '.join(late)}"
    return None


def _named(seeds: Sequence[int]) -> str:
    return f"{counted(len(seeds), 'seeds')} ({', '.join(map(str, seeds))})"


def mark(verdict: str, registered: bool) -> str:
    """Return a verdict as it is shown, with a mark where nothing was registered.

    >>> mark("IMPROVED", True), mark("IMPROVED", False), mark("NOT EVALUABLE", False)
    ('IMPROVED', 'IMPROVED (hand-picked seeds)', 'NOT EVALUABLE')
    """
    return verdict if registered or verdict == "NOT EVALUABLE" else f"{verdict} ({HAND_PICKED})"
