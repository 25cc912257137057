"""One comparison of two policies under a plan that was fixed before training: verdict, numbers and the sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field

from assay.evaluation.clusters import cluster_sums
from assay.evaluation.report import Decoding, value_of
from assay.evaluation.significance import smallest_detectable_effect
from assay.evaluation.statistics import rate_interval
from assay.evidence.control import Control, aa_control
from assay.evidence.differences import (
    Comparison,
    GainSplit,
    compare_measure,
    compare_strata,
    gain_split,
    measure_of_primary,
    success_changes,
    with_holm,
)
from assay.evidence.plan import ClaimPlan, plan_digest
from assay.evidence.verdict import (
    Detail,
    Guardrail,
    Verdict,
    decide,
    judge_guardrail,
    obstacles,
    regressions,
    warnings,
)
from assay.evidence.wording import claim_sentence, not_evaluable_sentence
from assay.records import Episode, Interval, Record, Split
from assay.seeds import rng as labelled_rng

__all__ = ["Claim", "ClaimPlan", "Guardrail", "Verdict", "compare", "plan_digest"]


class Claim(Record):
    """One comparison. Differences are shares (0.086 is 8.6 points); null numbers were not measured."""

    verdict: Verdict
    detail: Detail | None
    reason: str
    sentence: str
    warnings: tuple[str, ...]
    plan: ClaimPlan
    plan_digest: str
    before_policy: str
    after_policy: str
    split: Split
    decoding: Decoding
    before: Interval | None
    after: Interval | None
    difference: Interval | None
    p: float | None
    cross_check: Interval | None = Field(description="studentised cluster bootstrap of the difference")
    n_clusters: int = Field(ge=0)
    n_items: int = Field(ge=0)
    draws: int = Field(ge=0)
    training_seeds: tuple[int, ...]
    smallest_detectable_points: float | None = Field(description="true effect found with power 0.8, points")
    items_changed: dict[str, int] | None
    gain_split: GainSplit | None
    tokens_per_completion: Comparison | None
    secondary: dict[str, Comparison]
    guardrails: tuple[Guardrail, ...]
    strata: dict[str, Comparison] = Field(description='the primary metric by stratum, keyed "label=value"')
    control: Control | None


_NOTHING: dict[str, Any] = {
    "verdict": "NOT EVALUABLE",
    "detail": None,
    "warnings": (),
    "before": None,
    "after": None,
    "difference": None,
    "p": None,
    "cross_check": None,
    "n_clusters": 0,
    "n_items": 0,
    "smallest_detectable_points": None,
    "items_changed": None,
    "gain_split": None,
    "tokens_per_completion": None,
    "secondary": {},
    "guardrails": (),
    "strata": {},
    "control": None,
}


def _arm(episodes: Sequence[Episode], measure: str) -> Interval:
    values = [value_of(episode, measure) for episode in episodes]
    return rate_interval(cluster_sums(values, [episode.cluster for episode in episodes]))


def _detectable_points(primary: Comparison, alpha: float) -> float | None:
    if primary.standard_error is None:
        return None
    sd = primary.standard_error * math.sqrt(primary.n_clusters)
    found = smallest_detectable_effect(sd, primary.n_clusters, alpha=alpha)
    return None if not found else round(100 * found, 6)


def compare(
    before: Sequence[Episode],
    after: Sequence[Episode],
    plan: ClaimPlan,
    *,
    before_suite: str,
    after_suite: str,
    before_policy: str,
    after_policy: str,
    split: Split,
    decoding: Decoding,
    training_seeds: Sequence[int],
    rng: np.random.Generator,
    base_again: Sequence[Episode] | None = None,
    blockers: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Claim:
    """Return the claim that the episodes support under the plan; what cannot be compared becomes NOT EVALUABLE.

    `blockers` are reasons known elsewhere (a leak, an edited plan); `notes` are warnings known elsewhere (alarms, cut
    prompts), shown whatever the verdict. `base_again` holds further base draws for the A/A control;
    without it the base's draws are split in two halves. Episode order does not matter.

    Raises:
        EvidenceError: the plan's primary metric is not a rate.
    """
    measure, seed = measure_of_primary(plan.primary), int(rng.integers(2**63))
    before, after = (sorted(arm, key=lambda e: (e.item_id, e.draw)) for arm in (before, after))
    head: dict[str, Any] = {
        "plan": plan,
        "plan_digest": plan_digest(plan),
        "before_policy": before_policy,
        "after_policy": after_policy,
        "split": split,
        "decoding": decoding,
        "draws": plan.draws,
        "training_seeds": tuple(training_seeds),
    }
    barred = obstacles(before, after, plan, (before_suite, after_suite))
    stops = [*((text, text) for text in blockers)]
    if barred:
        stops = [*barred, *stops]
        reason, sentence = "; ".join(text for _, text in stops), not_evaluable_sentence(split, [k for k, _ in stops])
        return Claim(**head, **(_NOTHING | {"warnings": tuple(notes)}), reason=reason, sentence=sentence)

    def found(name: str, role: str) -> Comparison:
        return compare_measure(before, after, name, labelled_rng(seed, role, name))

    primary = found(measure, "primary")
    control = aa_control(
        before, base_again, measure=measure, draws=plan.draws, alpha=plan.alpha, rng=labelled_rng(seed, "control")
    )
    guardrails = tuple(judge_guardrail(found(name, "guardrail"), m) for name, m in sorted(plan.guardrails.items()))
    strata = compare_strata(before, after, measure, seed)
    detectable = _detectable_points(primary, plan.alpha)
    verdict, detail, reason = decide(primary, plan, regressions(guardrails, strata, plan), detectable)
    if control.passed is False:
        text = "the control found a difference between base and base"
        stops.append((text, f"{text}: {control.reason}"))
    if stops:
        verdict, detail, reason = "NOT EVALUABLE", None, "; ".join(text for _, text in stops)
        sentence = not_evaluable_sentence(split, [kind for kind, _ in stops])
    else:
        sentence = claim_sentence(
            primary,
            plan.primary,
            split,
            plan.cluster_name,
            plan.draws,
            len(training_seeds),
            verdict,
            detail,
            detectable,
        )
    return Claim(
        **head,
        verdict=verdict,
        detail=detail,
        reason=reason,
        sentence=sentence,
        warnings=(*warnings(primary, plan, detectable, control, guardrails, (before_policy, after_policy)), *notes),
        before=_arm(before, measure),
        after=_arm(after, measure),
        difference=primary.difference,
        p=primary.p,
        cross_check=primary.cross_check,
        n_clusters=primary.n_clusters,
        n_items=primary.difference.n,
        smallest_detectable_points=detectable,
        items_changed=success_changes(before, after),
        gain_split=gain_split(before, after),
        tokens_per_completion=found("mean_tokens_per_completion", "tokens"),
        secondary=with_holm({name: found(name, "secondary") for name in plan.secondary}),
        guardrails=guardrails,
        strata=strata,
        control=control,
    )
