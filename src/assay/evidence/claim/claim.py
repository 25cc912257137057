"""One comparison of two policies under a plan that was fixed before training: verdict, numbers and the
sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from assay.core.records import Episode, HealthSummary, Interval, Record, Split
from assay.core.seeds import rng as labelled_rng
from assay.evaluation.clusters import cluster_sums, paired_cluster_differences
from assay.evaluation.measures import reader_of
from assay.evidence.claim.aa_test import Control, aa_control, control_said
from assay.evidence.claim.differences import (
    Comparison,
    GainSplit,
    compare_measure,
    compare_strata,
    gain_split,
    measure_of_primary,
    success_changes,
    with_holm,
)
from assay.evidence.claim.effect import Effect, effect_in, size_said
from assay.evidence.claim.left_out import LeaveOneOut, leave_one_out, left_out_said
from assay.evidence.claim.openings import Openings, opening_said
from assay.evidence.claim.plan import ClaimPlan, plan_digest
from assay.evidence.claim.random_reward import (
    RandomRewardControl,
    random_reward_control,
    random_reward_said,
    random_reward_warnings,
)
from assay.evidence.claim.rivals import Rival, compare_rivals, missing_rivals, rivals_said, why_no_skill
from assay.evidence.claim.secondary_suites import (
    PlayedSuite,
    SecondarySuite,
    compare_secondary,
    secondary_said,
)
from assay.evidence.claim.verdict import (
    DRAFT,
    Guardrail,
    Verdict,
    decide,
    judge_guardrail,
    obstacles,
    regressions,
    unpaired,
    warnings,
)
from assay.evidence.claim.warnings import form_only_said, more_tokens_said, sharpening_said, untested_said
from assay.evidence.formatting import claim_sentence, draft_sentence, not_evaluable_sentence
from assay.statistics.intervals import rate_interval
from assay.statistics.power import detectable_effect
from assay.statistics.report import Decoding

__all__ = ["Claim", "ClaimPlan", "Guardrail", "Verdict", "compare", "plan_digest"]
UNREAD = (  # the policies of a claim whose evidence could not even be read: it says why, and shows no number
    "unknown"
)


class Claim(Record):
    """One comparison. Differences are shares (0.086 is 8.6 points); null numbers were not measured."""

    verdict: Verdict
    effect: Effect | None = Field(description="direction and size of the primary difference")
    level: float = Field(gt=0, lt=1, description="level at which this claim was tested, of the plan's alpha")
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
    planned_detectable_points: float | None = Field(
        description="the same as planned before training; null: not planned"
    )
    rivals: dict[str, Rival] = Field(description="the trained policy against each rival of the plan")
    leave_one_out: LeaveOneOut | None = Field(description="the difference without any one cluster or stratum")
    items_changed: dict[str, int] | None
    gain_split: GainSplit | None
    tokens_per_completion: Comparison | None
    secondary: dict[str, Comparison]
    guardrails: tuple[Guardrail, ...]
    strata: dict[str, Comparison] = Field(description='the primary metric by stratum, keyed "label=value"')
    control: Control | None
    opened: Openings | None = Field(description="how often the held-out records had been opened")
    random_reward: RandomRewardControl | None = Field(description="null: such an arm was not run")
    secondary_suites: dict[str, SecondarySuite] = Field(
        default={},
        description="the primary metric on the secondary suites of the plan; no part of the verdict",
    )


# What a claim holds that may not be made.
_NOTHING: dict[str, Any] = {
    name: None
    for name in Claim.model_fields
    if name not in ("reason", "sentence", "plan", "level", "split", "decoding", "draws", "training_seeds")
} | {
    "verdict": "NOT EVALUABLE",
    "warnings": (),
    "n_clusters": 0,
    "n_items": 0,
    "rivals": {},
    "secondary": {},
    "guardrails": (),
    "strata": {},
    "secondary_suites": {},
}


def differences_of(claim: Claim) -> dict[str, Interval]:
    """Return the paired differences that a claim holds, by measure, so that nothing beside it says another
    number."""
    found = {name: each.difference for name, each in claim.secondary.items()}
    found |= {guard.measure: guard.difference for guard in claim.guardrails}
    if claim.tokens_per_completion is not None:
        found[claim.tokens_per_completion.measure] = claim.tokens_per_completion.difference
    if claim.difference is not None:
        found[measure_of_primary(claim.plan.primary)] = claim.difference
    return found


def controls_said(claim: Claim) -> str:
    """Return what the controls showed, how often the records were opened, what leaving a part out does, and
    what the secondary suites show, a sentence each; of a draft nothing, since nothing is claimed."""
    if claim.verdict == DRAFT:
        return ""
    opened = opening_said(claim.opened, claim.level, claim.plan)
    left_out = left_out_said(claim.leave_one_out, claim.plan.cluster_name)
    beyond = secondary_said(claim.secondary_suites, claim.plan.cluster_name)
    told = [control_said(claim.control), random_reward_said(claim.random_reward), opened, left_out, beyond]
    return f"Controls. {' '.join(filter(None, told))}"


def _head(
    plan: ClaimPlan,
    policies: tuple[str, str],
    split: Split,
    decoding: Decoding,
    training_seeds: Sequence[int],
    planned_points: float | None,
    level: float,
) -> dict[str, Any]:
    return {
        "plan": plan,
        "plan_digest": plan_digest(plan),
        "level": level,
        "before_policy": policies[0],
        "after_policy": policies[1],
        "split": split,
        "decoding": decoding,
        "draws": plan.draws,
        "training_seeds": tuple(training_seeds),
        "planned_detectable_points": planned_points,
    }


def _nothing_said(head: dict[str, Any], stops: Sequence[tuple[str, str]], notes: Sequence[str]) -> Claim:
    reason, sentence = (
        "; ".join(text for _, text in stops),
        not_evaluable_sentence(head["split"], [k for k, _ in stops]),
    )
    return Claim(**(_NOTHING | head | {"warnings": tuple(notes), "reason": reason, "sentence": sentence}))


def not_evaluable(
    plan: ClaimPlan,
    blockers: Sequence[tuple[str, str]],
    *,
    before_policy: str,
    after_policy: str,
    split: Split,
    decoding: Decoding,
    training_seeds: Sequence[int],
) -> Claim:
    """Return the claim of evidence that cannot even be read: NOT EVALUABLE with the reasons and no number at
    all."""
    head = _head(plan, (before_policy, after_policy), split, decoding, training_seeds, None, plan.alpha)
    return _nothing_said(head, blockers, ())


def _arm(episodes: Sequence[Episode], measure: str) -> Interval:
    values = list(map(reader_of(measure), episodes))
    return rate_interval(cluster_sums(values, [episode.cluster for episode in episodes]))


def _guarded(found: Comparison, margin: float) -> Guardrail:
    unchanged = found.p == 1.0 and found.difference.value == 0.0
    return judge_guardrail(found.measure, found.difference, margin, before=found.before, unchanged=unchanged)


def _detectable_points(
    before: Sequence[Episode], after: Sequence[Episode], measure: str, alpha: float, largest: float
) -> float | None:
    sums = paired_cluster_differences(before, after, reader_of(measure))
    found = None if sums is None else detectable_effect(sums, alpha=alpha, largest=largest)
    return None if found is None else round(100 * found, 6)


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
    random_arm: Sequence[Episode] | None = None,
    random_health: HealthSummary | None = None,
    rivals: Mapping[str, Sequence[Episode]] | None = None,
    planned_points: float | None = None,
    level: float | None = None,
    opened: Openings | None = None,
    secondary_suites: Mapping[str, PlayedSuite] | None = None,
    blockers: Sequence[str | tuple[str, str]] = (),
    notes: Sequence[str] = (),
) -> Claim:
    """Return the claim that the episodes support under the plan; what cannot be compared becomes NOT
    EVALUABLE.

    `blockers` are reasons known elsewhere (a leak, an edited plan), as one text or as (kind without numbers,
    what was found); `notes` are warnings known elsewhere (alarms, cut prompts), shown whatever the verdict.
    `base_again` holds further base draws for the A/A control; without it the base's draws are split in two
    halves. `random_arm` holds what a policy trained for random rewards played on the same items,
    `random_health` its alarms;
    `rivals` holds what the rivals of the plan played, by name; `planned_points` is the smallest detectable
    effect that was said before training; `level` is that of the test, where earlier openings of the held-out
    records have used up a part of the plan's alpha, and `opened` tells of them; `secondary_suites` holds what
    base and trained policy played on each secondary suite. Episode order does not matter. Validation
    chooses the checkpoint, so of that `split` no claim is made: a draft, without a verdict, an effect or
    a p, and what would bar a claim is among its warnings.

    Raises:
        EvidenceError: the plan's primary metric is not a rate.
    """
    measure, seed = measure_of_primary(plan.primary), int(rng.integers(2**63))
    before, after = (sorted(arm, key=lambda e: (e.item_id, e.draw)) for arm in (before, after))
    alpha, rivals = plan.alpha if level is None else min(level, plan.alpha), rivals or {}
    largest = plan.largest_cluster or 0
    head = _head(plan, (before_policy, after_policy), split, decoding, training_seeds, planned_points, alpha)
    barred = obstacles(before, after, plan, (before_suite, after_suite))
    stops = [(each, each) if isinstance(each, str) else each for each in blockers]
    if random_arm is None and "random_reward" in plan.controls:
        text = "the random-reward arm that the plan asks for was not played"
        stops.append((text, text))
    lost, unused = missing_rivals(plan, rivals)
    stops += [
        (text, text) for text in (f"the rival {name} that the plan names did not play" for name in lost)
    ]
    notes = [*notes, *(f"The rival {name} of the plan did not play." for name in unused)]
    barred += unpaired({"after": after} | {f"{name} rival": arm for name, arm in rivals.items()})
    if barred:
        return _nothing_said(head | {"opened": opened}, [*stops, *barred], notes)

    def found(name: str, role: str) -> Comparison:
        luck = labelled_rng(seed, role, name)
        return compare_measure(before, after, name, luck, largest=largest, reward_range=plan.reward_range)

    primary = found(measure, "primary")
    control = aa_control(
        before, base_again, measure=measure, draws=plan.draws, rng=labelled_rng(seed, "control")
    )
    random_reward = (
        None
        if random_arm is None
        else random_reward_control(
            before,
            random_arm,
            after,
            plan,
            labelled_rng(seed, "random reward"),
            alpha=alpha,
            health=random_health,
        )
    )
    secondary = with_holm({name: found(name, "secondary") for name in plan.secondary})
    guardrails = tuple(
        _guarded(found(name, "guardrail"), margin) for name, margin in sorted(plan.guardrails.items())
    )
    strata = compare_strata(before, after, measure, seed, largest=largest)
    parts, tokens = gain_split(before, after), found("mean_tokens_per_completion", "tokens")
    detectable = _detectable_points(before, after, measure, alpha, largest)
    beside = compare_rivals(after, rivals, plan, measure, alpha=alpha, seed=seed)
    suites = compare_secondary(
        secondary_suites or {},
        plan,
        measure,
        level=alpha,
        places={} if opened is None else opened.secondary_places,
        seed=seed,
    )
    effect = effect_in(primary, plan, alpha=alpha, alpha_worse=plan.alpha)
    verdict, reason = decide(
        effect,
        n_clusters=primary.n_clusters,
        needed=primary.clusters_needed,
        alpha=alpha,
        no_skill=why_no_skill(beside, random_reward),
        regressions=regressions(guardrails, secondary, plan),
        detectable=detectable,
    )
    if random_reward is not None and not random_reward.comparable and "random_reward" in plan.controls:
        text = "the random-reward arm that the plan asks for is not comparable"
        stops.append((text, f"{text}: {random_reward.reason}"))
    if control.passed is False:
        text = "the control found a difference between base and base"
        stops.append((text, f"{text}: {control.reason}"))
    draft, p = split == "validation", primary.p
    if draft:
        verdict, reason, p = DRAFT, "a draft: what was played chooses the checkpoint too", None
        sentence = draft_sentence(primary, plan.primary, split, plan.cluster_name, plan.draws)
        notes = [*(f"Would bar a claim: {text}." for _, text in stops), *notes]
    elif stops:
        verdict, reason = "NOT EVALUABLE", "; ".join(text for _, text in stops)
        sentence = not_evaluable_sentence(split, [kind for kind, _ in stops])
    else:
        sentence = claim_sentence(
            primary,
            plan.primary,
            split,
            plan.cluster_name,
            plan.draws,
            len(training_seeds),
            "" if primary.p is None else size_said(effect, detectable, higher=plan.direction == "higher"),
            "" if alpha == plan.alpha else f"Tested at the level {alpha:.2g}.",
            rivals_said(beside),
        )
    return Claim(
        **head,
        verdict=verdict,
        effect=None if verdict in ("NOT EVALUABLE", DRAFT) else effect,
        reason=reason,
        sentence=sentence,
        warnings=tuple(notes)
        if draft
        else (
            *warnings(
                primary, plan, detectable, control, guardrails, strata, (before_policy, after_policy), effect
            ),
            *random_reward_warnings(random_reward),
            *filter(
                None,
                (
                    untested_said(secondary),
                    more_tokens_said(tokens),
                    form_only_said(parts),
                    sharpening_said(effect, beside, primary),
                ),
            ),
            *notes,
        ),
        before=_arm(before, measure),
        after=_arm(after, measure),
        difference=primary.difference,
        p=p,
        cross_check=primary.cross_check,
        n_clusters=primary.n_clusters,
        n_items=primary.difference.n,
        smallest_detectable_points=detectable,
        rivals=beside,
        leave_one_out=leave_one_out(
            before, after, measure, alpha, shown=primary.p is not None and primary.p <= alpha
        ),
        items_changed=success_changes(before, after),
        gain_split=parts,
        tokens_per_completion=tokens,
        secondary=secondary,
        guardrails=guardrails,
        strata=strata,
        control=control,
        opened=opened,
        random_reward=random_reward,
        secondary_suites=suites,
    )
