"""Two recipes against each other: paired by training seed, on the items that all runs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Literal

import numpy as np
from pydantic import Field

from assay.core.records import Interval, Record
from assay.core.seeds import rng as labelled_rng
from assay.rollout.evaluation.clusters import Array
from assay.verdict.evidence.claim.differences import measure_of_primary
from assay.verdict.evidence.recipe.runs import Registration, Run, Scores, collect_scores, registration_of
from assay.verdict.evidence.words.over_seeds import contest_said, mark
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.statistics.intervals import interval
from assay.verdict.statistics.openings import opening_level
from assay.verdict.statistics.seeds_and_items import (
    crossed_mean,
    expanded_percentiles,
    fewest_runs,
    items_test,
    probability_of_improvement,
    resampled,
    runs_interval,
    sign_flip_runs,
    widest,
    wins,
)
from assay.verdict.statistics.tests import holm

MEASURED = ("difference", "p", "probability_a_beats_b")
FEWEST = 2  # clusters that a pair of recipes needs


class Contest(Record):
    """One recipe against another; always two-sided. Differences are A less B, in shares; null: not
    measured."""

    a: str
    b: str
    verdict: Literal["A IS BETTER", "B IS BETTER", "NO EVIDENCE", "NOT EVALUABLE"]
    reasons: tuple[Remark, ...] = Field(description="why it is not evaluable")
    seeds: tuple[int, ...] = Field(description="in common: these are paired")
    difference: Interval | None = Field(
        description="over the seeds in common; interval for other seeds and other items"
    )
    p: float | None = Field(
        description="the largest of sign flips of seed pairs, t over seeds and items, and bounded means over"
        " clusters"
    )
    p_holm: float | None = Field(
        description="p corrected for all pairs of recipes tested beside it; to be within alpha"
    )
    pairs: int = Field(ge=0, description="that were tested together")
    alpha: float
    level: float = Field(description="for p: what earlier openings of the held-out records left of alpha")
    registration: Remark | None = Field(
        description="why these are not the seeds of both plans, all of them and no other; null: they are"
    )
    probability_a_beats_b: Interval | None = Field(
        description="a run of A scores above one of B on an item; ties one half"
    )

    @property
    def marked(self) -> str:
        """The verdict, with a mark where the seeds are not those of the plans."""
        return mark(self.verdict, self.registration)

    @property
    def sentence(self) -> str:
        """What it says in English."""
        return contest_said(self)


def contests(recipes: Mapping[str, Sequence[Run]]) -> tuple[Contest, ...]:
    """Return every pair of recipes, p-values corrected together by Holm's rule; none for a single recipe.

    A pair is called by p at the level that the later recipe's place leaves, which pays for recipes that are
    not shown, and by the corrected p at alpha, which pays for those that are. A pair without the seeds to
    reach both is not evaluable; this goes by the number of seeds alone, before any result is looked at.
    """
    drafts = [_draft(a, b, recipes[a], recipes[b]) for a, b in combinations(recipes, 2)]
    alpha = next(iter(recipes.values()))[0].claim.plan.alpha
    least = _fewest_seeds([len(draft["seeds"]) for draft in drafts if draft["p"] is not None], alpha)
    for draft in drafts:
        if len(draft["seeds"]) < max(least, fewest_runs(draft["level"], one_sided=False)):
            draft |= dict.fromkeys(MEASURED)
    adjusted = holm({str(k): draft["p"] for k, draft in enumerate(drafts) if draft["p"] is not None})
    return tuple(
        _judged(draft, adjusted.get(str(k)), recipes, len(drafts), len(adjusted))
        for k, draft in enumerate(drafts)
    )


def _fewest_seeds(seeds: Sequence[int], alpha: float) -> int:
    """Return from how many seeds in common on a pair is tested: each that is tested can reach the level after
    Holm's rule.

    >>> [_fewest_seeds(seeds, 0.05) for seeds in ([6], [6, 6, 6], [8, 8, 8], [7, 7, 6])]
    [6, 7, 8, 7]
    """
    fits = (
        n for n in sorted(set(seeds)) if n >= fewest_runs(alpha / sum(m >= n for m in seeds), one_sided=False)
    )
    return next(fits, max(seeds, default=0) + 1)


def _draft(a: str, b: str, runs_a: Sequence[Run], runs_b: Sequence[Run]) -> dict[str, Any]:
    plan = runs_a[0].claim.plan
    seeds = sorted({run.trained.seed for run in runs_a} & {run.trained.seed for run in runs_b})
    draft: dict[str, Any] = {"a": a, "b": b, "seeds": tuple(seeds)} | dict.fromkeys(MEASURED)
    found = _registration(runs_a, runs_b, seeds)
    draft |= {"level": found.level, "alpha": plan.alpha, "registration": found.against}
    both = collect_scores([*runs_a, *runs_b], measure_of_primary(plan.primary))
    if (
        both is None
        or len(seeds) < fewest_runs(plan.alpha, one_sided=False)
        or len(set(both.clusters)) < FEWEST
    ):
        return draft
    rows = [{run.trained.seed: k for k, run in enumerate(runs)} for runs in (runs_a, runs_b)]
    ours, theirs = both.gains[: len(runs_a)], both.gains[len(runs_a) :]
    apart = np.stack([ours[rows[0][seed]] - theirs[rows[1][seed]] for seed in seeds])
    mean = crossed_mean(apart, both.clusters)
    flips = labelled_rng("contest flips", plan.suite_digest, len(seeds))
    # Gains over one measurement of the base differ by 1 at most.
    bound = 2.0 if np.ptp(both.before, axis=0).any() else 1.0
    of_items, items_gap = items_test(apart, both.clusters, unseen=plan.unseen, bound=bound)
    p = max(mean.p(one_sided=False), sign_flip_runs(apart.mean(axis=1), flips, one_sided=False), of_items)
    gap = widest(mean.interval, items_gap, runs_interval(apart.mean(axis=1), flips))
    chance = _probability(both, len(runs_a), plan.direction, plan.suite_digest, mean.df)
    return draft | {"difference": gap, "p": round(p, 10), "probability_a_beats_b": chance}


def _registration(runs_a: Sequence[Run], runs_b: Sequence[Run], shared: Sequence[int]) -> Registration:
    """Return what the plans of both recipes registered, and the place of the later one."""
    alpha = runs_a[0].claim.plan.alpha
    places = []
    for runs in (runs_a, runs_b):
        # A pair is two-sided whatever the plan asks of each.
        own = registration_of(runs, one_sided=runs[0].claim.plan.sided == "one-sided")
        if own.against is None and len(shared) < len(runs):
            own = Registration(remark("not_in_common"), alpha, None)
        if own.against is not None or own.place is None:
            return Registration(own.against, alpha, None)
        places.append(own.place)
    plan = runs_a[0].claim.plan
    level = level_of_pair(max(places), alpha, looks=plan.looks, seeds=len(shared))
    return Registration(None, level, max(places))


def level_of_pair(place: int, alpha: float, *, looks: int | None = None, seeds: int = 1) -> float:
    """Return the level of a pair of recipes: what the later one's place leaves of alpha, shared by the pairs
    that it makes with those before it. Over all pairs of any number of recipes in turn that sums to alpha.

    >>> [round(level_of_pair(place, 0.05), 5) for place in (1, 2, 3, 4)]
    [0.05, 0.025, 0.00417, 0.00139]
    """
    return opening_level(place, alpha, looks=looks, seeds=seeds) / max(1, place - 1)


def _probability(both: Scores, n_a: int, direction: str, label: str, df: float) -> Interval:
    """Return the probability that a run of A beats one of B on an item; seeds of A and of B are resampled
    apart."""
    better = both.after if direction == "higher" else -both.after
    a, b = better[:n_a], better[n_a:]
    pairs = wins(a[:, None, :], b[None, :, :])
    of_b = resampled(len(b), ["all"], ["all"], labelled_rng("contest seeds of b", label, len(b)))
    of_a = resampled(n_a, both.clusters, both.strata, labelled_rng("contest", label, n_a))
    drawn: list[Array] = []
    for (runs_a, items), (runs_b, _) in zip(of_a, of_b, strict=True):
        total = np.einsum("ri,rj,rk,ijk->r", runs_a, runs_b, items, pairs, optimize=True)
        drawn.append(total / (runs_a.sum(axis=1) * runs_b.sum(axis=1) * items.sum(axis=1)))
    low, high = expanded_percentiles(np.concatenate(drawn), df)
    return interval(probability_of_improvement(a, b), float(low), float(high), len(both.items))


def _judged(
    draft: dict[str, Any],
    p_holm: float | None,
    recipes: Mapping[str, Sequence[Run]],
    n_pairs: int,
    n_tested: int,
) -> Contest:
    plan = recipes[draft["a"]][0].claim.plan
    found: Interval | None = draft["difference"]
    draft |= {"p_holm": p_holm, "pairs": n_tested, "reasons": ()}
    if found is None or p_holm is None:
        n, each = len(draft["seeds"]), plan.alpha / n_pairs
        needed = fewest_runs(min(each, draft["level"]), one_sided=False)
        level = draft["level"] if draft["level"] < each else None
        why = remark("too_few_in_common", n=n, needed=needed, pairs=n_pairs, level=level)
        if n >= needed:
            clusters, measure = plan.cluster_name, plan.primary
            why = remark("too_few_clusters_in_common", needed=FEWEST, clusters=clusters, measure=measure)
        return Contest(**draft | {"reasons": (why,)}, verdict="NOT EVALUABLE")
    if p_holm > plan.alpha or draft["p"] > draft["level"]:
        return Contest(**draft, verdict="NO EVIDENCE")
    ahead = (found.value or 0.0) * (1 if plan.direction == "higher" else -1) > 0
    return Contest(**draft, verdict="A IS BETTER" if ahead else "B IS BETTER")
