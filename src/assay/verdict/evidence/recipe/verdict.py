"""Does the recipe improve, not just this checkpoint: training runs with other seeds as the unit of
evidence."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from assay.core.records import Interval
from assay.core.seeds import rng as labelled_rng
from assay.rollout.dataset.suite import FEWEST_CLUSTERS
from assay.rollout.evaluation.clusters import Array
from assay.verdict.evidence.claim.differences import measure_of_primary
from assay.verdict.evidence.claim.effect import Effect, effect_of
from assay.verdict.evidence.claim.verdict import Guardrail, Shown, decide, judge_guardrail
from assay.verdict.evidence.recipe.records import ProfilePoint, RecipeClaim, SeedRow
from assay.verdict.evidence.recipe.runs import (
    ABSENT,
    KnownPlan,
    Registration,
    Run,
    Scores,
    collect_scores,
    registration_of,
)
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.statistics.bounded_mean import smallest_certain_gain
from assay.verdict.statistics.intervals import interval
from assay.verdict.statistics.seeds_and_items import (
    CrossedMean,
    bootstrap,
    codes,
    crossed_mean,
    detectable_effect,
    expanded_percentiles,
    fewest_runs,
    items_test,
    on_one_side,
    optimality_gap,
    profile,
    resampled,
    runs_interval,
    sign_flip_runs,
    weighted_mean,
    widest,
    wins,
)


def recipe_claim(recipe: str, runs: Sequence[Run], *, apart: Sequence[str], one_sided: bool) -> RecipeClaim:
    """Return what the runs of one recipe support; runs come of `group_by_recipe` and `check_together`.

    `apart` names the settings in which this recipe differs from others beside it.
    Under 5 seeds (one-sided) or 6 (two-sided) at alpha 0.05 the verdict is NOT EVALUABLE and no number is
    given.
    """
    registration, asked = registration_of(runs, one_sided=one_sided), runs[0].claim.plan
    plan = asked.model_copy(update={"alpha": registration.level})
    found = collect_scores(runs, measure_of_primary(plan.primary))
    sign = 1.0 if plan.direction == "higher" else -1.0
    head: dict[str, Any] = {
        "recipe": recipe,
        "settings": {name: runs[0].settings.get(name, ABSENT) for name in apart},
        "sided": "one-sided" if one_sided else "two-sided",
        "alpha": asked.alpha,
        "level": plan.alpha,
        "registration": registration.against,
        "primary": plan.primary,
        "cluster_name": plan.cluster_name,
        "draws": plan.draws,
        "seeds": tuple(run.trained.seed for run in runs),
        "runs": _rows(runs, found),
        "n_items": 0 if found is None else len(found.items),
        "n_clusters": 0 if found is None else len(set(found.clusters)),
        "warnings": (*_place(registration, asked), *_warnings(runs, sign)),
    }
    enough = fewest_runs(plan.alpha, one_sided=one_sided)
    if found is None or len(runs) < enough or head["n_clusters"] < FEWEST_CLUSTERS:
        why_not = too_few(len(runs), plan.alpha, one_sided=one_sided)
        if found is not None and len(runs) >= enough:
            n, clusters = head["n_clusters"], plan.cluster_name
            why_not = remark("too_few_clusters_of_seeds", n=n, clusters=clusters, needed=FEWEST_CLUSTERS)
        blank: dict[str, Any] = dict.fromkeys(RecipeClaim.model_fields) | {"guardrails": (), "profile": ()}
        return RecipeClaim(**blank | head | {"verdict": "NOT EVALUABLE", "reasons": (why_not,)})
    mean = crossed_mean(found.gains, found.clusters)
    flips = labelled_rng("recipe flips", plan.suite_digest, len(runs))
    p_seeds = sign_flip_runs(sign * found.gains.mean(axis=1), flips, one_sided=one_sided)
    p_both = crossed_mean(sign * found.gains, found.clusters).p(one_sided=one_sided)
    guardrails = tuple(_guardrail(runs, name, margin) for name, margin in sorted(plan.guardrails.items()))
    luck = labelled_rng("recipe power", plan.suite_digest, len(runs))
    reach = detectable_effect(mean, len(runs), head["n_clusters"], plan.alpha, luck, one_sided=one_sided)
    sizes = np.bincount(codes(found.clusters)).astype(np.float64)
    floor = smallest_certain_gain(sizes, unseen=plan.unseen, alpha=plan.alpha)
    detectable = None if reach is None or floor is None else round(100 * max(reach, floor), 6)
    of_items, items_gain = items_test(found.gains, found.clusters, unseen=plan.unseen)
    p = max(p_seeds, p_both, on_one_side(of_items, sign * mean.mean) if one_sided else of_items)
    gain = widest(mean.interval, items_gain, runs_interval(found.gains.mean(axis=1), flips))
    effect = _effect(plan, gain, p, found, one_sided=one_sided)
    worse = [each.measure for each in guardrails if each.outcome == "regressed"]
    shown = Shown(
        effect=effect,
        n_clusters=head["n_clusters"],
        level=plan.alpha,
        no_skill=_why_no_skill(runs, plan, sign, flips, one_sided=one_sided),
        losses=[*([remark("worse_beside", measures=worse)] if worse else []), *_lost_by_most(runs)],
        better=_why_not_trained(runs, plan, sign, flips, one_sided=one_sided),
        detectable=detectable,
        needed=FEWEST_CLUSTERS if head["n_clusters"] < FEWEST_CLUSTERS else None,
    )
    verdict, why = decide(shown)
    numbers = _numbers(found, mean, gain, plan)
    head |= {"verdict": verdict, "effect": effect, "reasons": why, "guardrails": guardrails}
    head |= {"p": p, "p_seeds": p_seeds, "p_seeds_items": round(p_both, 10)}
    return RecipeClaim(**head, **numbers, smallest_detectable_points=detectable)


def too_few(n_runs: int, level: float, *, one_sided: bool) -> Remark:
    """Return why so few seeds make no claim about a recipe.

    >>> print(too_few(5, 0.05, one_sided=False))
    5 seeds, where a two-sided test at level 0.05 needs 6
    """
    needed, sided = fewest_runs(level, one_sided=one_sided), "one-sided" if one_sided else "two-sided"
    return remark("too_few_seeds", n=n_runs, level=level, needed=needed, sided=sided)


def _place(registration: Registration, plan: KnownPlan) -> list[Remark]:
    place, level, alpha = registration.place, registration.level, plan.alpha
    if level == alpha:
        return []
    return [remark("recipe_place", place=place, looks=plan.looks, level=level, alpha=alpha)]


def _numbers(found: Scores, mean: CrossedMean, gain: Interval, plan: KnownPlan) -> dict[str, Any]:
    """Return the aggregates; their intervals come from one set of resamples of whole seeds and whole
    clusters."""
    n_runs, n_items = found.gains.shape
    seed = labelled_rng("recipe bootstrap", plan.suite_digest, n_runs)
    draws = list(resampled(n_runs, found.clusters, found.strata, seed))
    arms = (found.after, found.before)
    better = wins(*(arms if plan.direction == "higher" else arms[::-1]))
    thresholds = np.arange(plan.draws) / plan.draws

    def bounds(value: float, values: Array) -> Interval:
        low, high = expanded_percentiles(values, mean.df)
        return interval(value, float(low), float(high), n_items)

    bands = []
    for arm in (found.before, found.after):
        profiles = bootstrap(partial(profile, arm, thresholds), draws)
        rows = zip(profile(arm, thresholds)[0], *expanded_percentiles(profiles, mean.df), strict=True)
        bands.append([interval(*row, n_items) for row in rows])
    return {
        "before": round(float(found.before.mean()), 10),
        "after": round(float(found.after.mean()), 10),
        "difference": gain,
        "error_of_seeds_points": round(100 * mean.error_of_seeds, 6),
        "error_of_items_points": round(100 * mean.error_of_items, 6),
        "probability_of_improvement": bounds(
            better.mean(), bootstrap(lambda w: weighted_mean(better, w), draws)
        ),
        "optimality_gap_before": round(optimality_gap(found.before), 10),
        "optimality_gap_after": round(optimality_gap(found.after), 10),
        "profile": tuple(
            ProfilePoint(threshold=float(t), before=b, after=a)
            for t, b, a in zip(thresholds, *bands, strict=True)
        ),
    }


def _effect(plan: KnownPlan, gain: Interval, p: float, found: Scores, *, one_sided: bool) -> Effect:
    effect = effect_of(
        gain,
        p,
        base=float(found.before.mean()),
        points=plan.smallest_effect_points,
        higher=plan.direction == "higher",
        alpha=plan.alpha,
    )
    if not one_sided or gain.low is None or gain.high is None:
        return effect
    # A one-sided p can only mean better; that all runs together got worse is said by the two-sided interval.
    worse = gain.high < 0 if plan.direction == "higher" else gain.low > 0
    return effect.model_copy(update={"direction": "worse"}) if worse else effect


def _why_no_skill(
    runs: Sequence[Run], plan: KnownPlan, sign: float, rng: np.random.Generator, *, one_sided: bool
) -> Remark | None:
    """Return which trivial player, or the training for random rewards, the runs together are not shown to
    beat; None if they beat each.

    Other seeds: sign flips of whole runs. Other items: most runs beat the player on their own.
    """
    rivals = {(name, rival.kind) for run in runs for name, rival in run.claim.rivals.items()}
    needed = {name for name, kind in rivals if kind in ("trivial", "trained otherwise")}
    if not any(kind == "trivial" for _, kind in rivals):
        return remark("no_trivial_rival", level=plan.alpha)
    # By the name of the player; the training for random rewards has none.
    against: dict[str | None, list[tuple[float, float | None]]] = {
        name: [_against_rival(run, name) for run in runs] for name in sorted(needed)
    }
    controls = [run.claim.random_reward for run in runs]
    if any(each is not None and each.comparable for each in controls):
        against[None] = [
            (0.0, None) if each is None or each.ahead is None else (each.ahead.value or 0.0, each.ahead_p)
            for each in controls
        ]
    lost = []
    for name, found in against.items():
        gains = sign * np.array([gain for gain, _ in found])
        beaten = sum(p is not None and p <= plan.alpha and sign * gain > 0 for gain, p in found)
        if sign_flip_runs(gains, rng, one_sided=one_sided) > plan.alpha or 2 * beaten <= len(runs):
            points = 100 * float(sign * gains.mean())
            lost.append({"name": name, "points": points, "beaten": beaten})
    if not lost:
        return None
    return remark("seeds_not_beaten", level=plan.alpha, rivals=lost, runs=len(runs))


def _why_not_trained(
    runs: Sequence[Run], plan: KnownPlan, sign: float, rng: np.random.Generator, *, one_sided: bool
) -> Remark | None:
    """Return what one would do instead of training and is better than the runs together: by sign flips of
    whole runs, and in most of them on its own; None where nothing is."""
    names = sorted(
        {n for run in runs for n, each in run.claim.rivals.items() if each.kind == "instead of training"}
    )
    lost = []
    for name in names:
        found = [_against_rival(run, name) for run in runs]
        gains = sign * np.array([gain for gain, _ in found])
        ahead = sum(p is not None and p <= plan.alpha and sign * gain < 0 for gain, p in found)
        if sign_flip_runs(-gains, rng, one_sided=one_sided) <= plan.alpha and 2 * ahead > len(runs):
            lost.append((name, sign * gains))
    told = [{"name": name, "difference": runs_interval(behind, rng)} for name, behind in lost]
    return remark("prompting_better", rivals=told) if told else None


def _lost_by_most(runs: Sequence[Run]) -> list[Remark]:
    worse = sum(
        any(each.code in ("worse_beside", "worse_on_suite") for each in run.claim.reasons) for run in runs
    )
    return [remark("worse_in_seeds", n=worse, of=len(runs))] if 2 * worse > len(runs) else []


def _against_rival(run: Run, name: str) -> tuple[float, float | None]:
    rival = run.claim.rivals.get(name)
    return (0.0, None) if rival is None else (rival.difference.value or 0.0, rival.p)


def _guardrail(runs: Sequence[Run], measure: str, margin: float) -> Guardrail:
    found = collect_scores(runs, measure)
    if found is None or len(set(found.clusters)) < FEWEST_CLUSTERS:
        missing = interval(None, 0.0, 0.0, 0)
        return Guardrail(measure=measure, margin=margin, difference=missing, outcome="inconclusive")
    mean = crossed_mean(found.gains, found.clusters)
    return judge_guardrail(
        measure,
        mean.interval,
        margin,
        before=float(found.before.mean()),
        unchanged=mean.standard_error == 0.0 and mean.mean == 0.0,
    )


def _rows(runs: Sequence[Run], found: Scores | None) -> tuple[SeedRow, ...]:
    rows = []
    for k, run in enumerate(runs if found is not None else ()):
        assert found is not None
        gains, claim, trained = found.gains[k], run.claim, run.trained
        rows.append(
            SeedRow(
                name=run.name,
                seed=trained.seed,
                chosen_step=trained.chosen_step,
                verdict=claim.verdict,
                health=trained.health.worst,
                before=round(float(found.before[k].mean()), 10),
                after=round(float(found.after[k].mean()), 10),
                gain=claim.difference or interval(float(gains.mean()), np.nan, np.nan, len(found.items)),
            )
        )
    return tuple(rows)


def _warnings(runs: Sequence[Run], sign: float) -> tuple[Remark, ...]:
    found = []
    red = [run.name for run in runs if run.trained.health.worst == "RED"]
    if red:
        found.append(remark("seeds_red", trainings=red))
    gains = {run.name: run.claim.difference for run in runs}
    worse = [name for name, gain in gains.items() if gain is not None and sign * (gain.value or 0.0) < 0]
    if worse:
        found.append(remark("seeds_worse", trainings=worse, of=len(runs)))
    same = [run.name for run in runs if run.claim.after_policy == run.claim.before_policy]
    if same:
        found.append(remark("seeds_untrained", trainings=same))
    return tuple(found)
