"""One comparison of two policies under a plan that was fixed before training: verdict, numbers and the
sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydantic import Field

from assay.core.records import Episode, HealthSummary, Interval, Record, Split
from assay.core.seeds import rng as labelled_rng
from assay.rollout.dataset.suite import Unseen
from assay.rollout.evaluation.clusters import cluster_sums, paired_cluster_differences
from assay.rollout.evaluation.measures import reader_of
from assay.verdict.evidence.claim.aa_test import Control, aa_control
from assay.verdict.evidence.claim.differences import (
    Comparison,
    GainSplit,
    compare_measure,
    compare_strata,
    gain_split,
    measure_of_primary,
    paired,
    success_changes,
    with_holm,
)
from assay.verdict.evidence.claim.effect import Effect, effect_in
from assay.verdict.evidence.claim.first_lines import first_lines
from assay.verdict.evidence.claim.left_out import LeaveOneOut, leave_one_out
from assay.verdict.evidence.claim.openings import Openings
from assay.verdict.evidence.claim.plan import ClaimPlan, plan_digest
from assay.verdict.evidence.claim.random_reward import (
    LEFT_OUT,
    RandomRewardControl,
    random_reward_control,
    random_reward_warnings,
)
from assay.verdict.evidence.claim.rivals import (
    Rival,
    compare_rivals,
    instead_of_training,
    missing_rivals,
    why_no_skill,
)
from assay.verdict.evidence.claim.secondary_suites import PlayedSuite, SecondarySuite, compare_secondary
from assay.verdict.evidence.claim.verdict import (
    DRAFT,
    Guardrail,
    Shown,
    Verdict,
    decide,
    judge_guardrail,
    losses_of,
    obstacles,
    unpaired,
    warnings,
)
from assay.verdict.evidence.claim.warnings import (
    at_bounds,
    form_only,
    hangs_on_worst_cluster,
    more_computation,
    not_tested,
    one_answer,
    reward_fell,
    sharpening,
)
from assay.verdict.evidence.claim.which_items import uneven
from assay.verdict.evidence.words.remarks import Remark, remark, say_all
from assay.verdict.evidence.words.sentences import first_lines_said, sentence_of
from assay.verdict.statistics.bounded_mean import bounded_mean_test
from assay.verdict.statistics.intervals import rate_interval
from assay.verdict.statistics.power import detectable_effect
from assay.verdict.statistics.report import Decoding

__all__ = [
    "Beside",
    "Claim",
    "ClaimPlan",
    "Compared",
    "Guardrail",
    "Played",
    "Verdict",
    "compare",
    "plan_digest",
]
UNREAD = (  # the policies of a claim whose evidence could not even be read: it says why, and shows no number
    "unknown"
)


class Claim(Record):
    """One comparison. Differences are shares (0.086 is 8.6 points); null numbers were not measured."""

    verdict: Verdict
    effect: Effect | None = Field(description="direction and size of the primary difference")
    level: float = Field(gt=0, lt=1, description="level at which this claim was tested, of the plan's alpha")
    reasons: tuple[Remark, ...] = Field(description="of the verdict: one, or all that bars the claim")
    warnings: tuple[Remark, ...]
    first_lines: tuple[Remark, ...] = Field(
        default=(), description="what to read first beside the sentence: numbers that decide nothing"
    )
    plan: ClaimPlan
    plan_digest: str
    before_policy: str
    after_policy: str
    split: Split
    decoding: Decoding
    before: Interval | None
    after: Interval | None
    difference: Interval | None = Field(description="after - before; its interval is of 95 %")
    difference_at_level: Interval | None = Field(
        default=None,
        description="the same with the interval of 1 - level, by which size is judged; null: at 0.05",
    )
    p: float | None
    p_worst_case: float | None = Field(
        default=None,
        description="p if a cluster that nobody saw could lose everything; null: so the plan has it, or no p",
    )
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
        default={}, description="the primary metric on the secondary suites of the plan; a loss there is said"
    )

    @property
    def made_elsewhere(self) -> bool:
        """Whether it is about results of which nobody here saw the playing: no run claims on such a file."""
        return self.split == "tasks"

    @property
    def sentence(self) -> str:
        """The claim in English."""
        return sentence_of(self)

    @property
    def first_said(self) -> str:
        """What to read first beside the sentence, as one line; "" where there is nothing."""
        return first_lines_said(self.first_lines)

    @property
    def reason(self) -> str:
        """Its reasons in English."""
        return say_all(self.reasons)


# What a claim holds that may not be made.
_NOTHING: dict[str, Any] = {
    name: None
    for name in Claim.model_fields
    if name not in ("reasons", "plan", "level", "split", "decoding", "draws", "training_seeds")
} | {
    "verdict": "NOT EVALUABLE",
    "warnings": (),
    "first_lines": (),
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


@dataclass(frozen=True, slots=True)
class Played:
    """What one policy played on one suite, each by its digest."""

    episodes: Sequence[Episode]
    policy: str
    suite: str


@dataclass(frozen=True, slots=True)
class Compared:
    """How the arms were played, and what was known of the claim before they were compared.

    `planned_points` is the smallest detectable effect that was said before training; `level` is that of the
    test, where earlier openings of the held-out records have used up a part of the plan's alpha (None: none
    have), and `opened` tells of them.
    """

    split: Split
    decoding: Decoding
    training_seeds: Sequence[int] = ()
    planned_points: float | None = None
    level: float | None = None
    opened: Openings | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """Who else played.

    `base_again` holds further base draws for the A/A control; without it the base's draws are split in two
    halves. `random_arm` holds what a policy trained for random rewards played on the same items,
    `random_health` its alarms; `rivals` what the rivals of the plan played, by name; `secondary_suites` what
    base and trained policy played on each secondary suite.
    """

    base_again: Sequence[Episode] | None = None
    random_arm: Sequence[Episode] | None = None
    random_health: HealthSummary | None = None
    rivals: Mapping[str, Sequence[Episode]] = field(default_factory=dict)
    secondary_suites: Mapping[str, PlayedSuite] = field(default_factory=dict)


def _head(plan: ClaimPlan, policies: tuple[str, str], compared: Compared) -> dict[str, Any]:
    return {
        "plan": plan,
        "plan_digest": plan_digest(plan),
        "level": plan.alpha if compared.level is None else min(compared.level, plan.alpha),
        "before_policy": policies[0],
        "after_policy": policies[1],
        "split": compared.split,
        "decoding": compared.decoding,
        "draws": plan.draws,
        "training_seeds": tuple(compared.training_seeds),
        "planned_detectable_points": compared.planned_points,
        "opened": compared.opened,
    }


def _nothing_said(head: dict[str, Any], stops: Sequence[Remark], notes: Sequence[Remark]) -> Claim:
    return Claim(**(_NOTHING | head | {"warnings": tuple(notes), "reasons": tuple(stops)}))


def not_evaluable(
    plan: ClaimPlan, stops: Sequence[Remark], *, policies: tuple[str, str], compared: Compared
) -> Claim:
    """Return the claim of evidence that cannot even be read: NOT EVALUABLE with the reasons and no number at
    all."""
    return _nothing_said(_head(plan, policies, compared), stops, ())


def _arm(episodes: Sequence[Episode], measure: str) -> Interval:
    values = list(map(reader_of(measure), episodes))
    return rate_interval(cluster_sums(values, [episode.cluster for episode in episodes]))


def _guarded(found: Comparison, margin: float) -> Guardrail:
    unchanged = found.p == 1.0 and found.difference.value == 0.0
    return judge_guardrail(
        found.measure,
        found.difference,
        margin,
        before=found.before,
        unchanged=unchanged,
        at_level=found.at_level,
    )


def _detectable_points(
    before: Sequence[Episode], after: Sequence[Episode], measure: str, alpha: float, unseen: Unseen
) -> float | None:
    sums = paired_cluster_differences(before, after, reader_of(measure))
    found = None if sums is None else detectable_effect(sums, alpha=alpha, unseen=unseen)
    return None if found is None else round(100 * found, 6)


def compare(
    before: Played,
    after: Played,
    plan: ClaimPlan,
    compared: Compared,
    *,
    rng: np.random.Generator,
    beside: Beside = Beside(),
    stops: Sequence[Remark] = (),
    notes: Sequence[Remark] = (),
) -> Claim:
    """Return the claim that the episodes support under the plan; what cannot be compared becomes NOT
    EVALUABLE.

    `stops` are reasons known elsewhere why no claim may be made (a leak, an edited plan); `notes` are
    warnings known elsewhere (alarms, cut prompts), shown whatever the verdict. Episode order does not matter.
    Validation chooses the checkpoint, so of that split no claim is made: a draft, without a verdict, an
    effect or a p, and what would bar a claim is among its warnings.

    Raises:
        EvidenceError: the plan's primary metric is not a rate.
    """
    measure, seed = measure_of_primary(plan.primary), int(rng.integers(2**63))
    base, trained = (sorted(arm.episodes, key=lambda e: (e.item_id, e.draw)) for arm in (before, after))
    head = _head(plan, (before.policy, after.policy), compared)
    alpha, unseen, rivals = head["level"], plan.unseen, beside.rivals
    barred = obstacles(base, trained, plan, (before.suite, after.suite))
    stops, asked = list(stops), "random_reward" in plan.controls
    if beside.random_arm is None and asked:
        stops.append(remark("random_reward_not_played"))
    lost, unused = missing_rivals(plan, rivals)
    stops += [remark("rival_not_played", rival=name) for name in lost]
    notes = [*notes, *(remark("rival_not_used", rival=name) for name in unused)]
    barred += unpaired({"after": trained} | {f"{name} rival": arm for name, arm in rivals.items()})
    if barred:
        return _nothing_said(head, [*stops, *barred], notes)

    def found(name: str, role: str) -> Comparison:
        luck = labelled_rng(seed, role, name)
        bounds = plan.reward_range
        return compare_measure(base, trained, name, luck, unseen=unseen, reward_range=bounds, level=alpha)

    primary = found(measure, "primary")
    worst_case = None
    if primary.p is not None and unseen.loss < 1.0 and (sums := paired(base, trained, measure)) is not None:
        worst_case = bounded_mean_test(sums, unseen=unseen._replace(loss=1.0))[0]
    luck = labelled_rng(seed, "control")
    control = aa_control(base, beside.base_again, measure=measure, draws=plan.draws, rng=luck)
    random_reward = None
    if beside.random_arm is not None:
        luck = labelled_rng(seed, "random reward")
        health, arm = beside.random_health, beside.random_arm
        random_reward = random_reward_control(base, arm, trained, plan, luck, alpha=alpha, health=health)
    guardrails = tuple(
        _guarded(found(name, "guardrail"), margin) for name, margin in sorted(plan.guardrails.items())
    )
    effect = effect_in(primary, plan, alpha=alpha, alpha_worse=plan.alpha)
    places = {} if compared.opened is None else compared.opened.secondary_places
    numbers: dict[str, Any] = {
        "before": _arm(base, measure),
        "after": _arm(trained, measure),
        "difference": primary.difference,
        "difference_at_level": primary.at_level,
        "cross_check": primary.cross_check,
        "n_clusters": primary.n_clusters,
        "n_items": primary.difference.n,
        "smallest_detectable_points": _detectable_points(base, trained, measure, alpha, unseen),
        "rivals": compare_rivals(trained, rivals, plan, measure, alpha=alpha, seed=seed),
        "leave_one_out": leave_one_out(
            base, trained, measure, alpha, shown=primary.p is not None and primary.p <= alpha
        ),
        "items_changed": success_changes(base, trained),
        "gain_split": gain_split(base, trained),
        "tokens_per_completion": found("mean_tokens_per_completion", "tokens"),
        "secondary": with_holm({name: found(name, "secondary") for name in plan.secondary}),
        "guardrails": guardrails,
        "strata": compare_strata(base, trained, measure, seed, unseen=unseen),
        "control": control,
        "random_reward": random_reward,
        "secondary_suites": compare_secondary(
            beside.secondary_suites, plan, measure, level=alpha, places=places, seed=seed
        ),
    }
    if random_reward is not None and not random_reward.comparable and asked:
        stops.append(remark("random_reward_not_comparable", reasons=random_reward.reason))
    if control.passed is False:
        stops.append(remark("control_failed", reason=control.reason))
    if compared.split == "validation":
        told = (*(remark("would_bar", found=each) for each in stops), *notes)
        said: dict[str, Any] = {
            "verdict": DRAFT,
            "effect": None,
            "reasons": (remark("draft"),),
            "p": None,
            "warnings": told,
        }
        return Claim(**head, **numbers, **said)
    better, as_good = instead_of_training(numbers["rivals"])
    losses = losses_of(guardrails, numbers["secondary"], numbers["secondary_suites"], plan, numbers["strata"])
    verdict, reasons = _decided(head | numbers, plan, primary, effect, losses, better)
    gain = effect.direction == "better" and not stops
    return Claim(
        **head,
        **numbers,
        verdict="NOT EVALUABLE" if stops else verdict,
        effect=None if stops else effect,
        reasons=tuple(stops) or reasons,
        p=primary.p,
        p_worst_case=worst_case,
        first_lines=()
        if stops
        else first_lines(
            base,
            trained,
            beside.base_again,
            measure,
            higher=plan.direction == "higher",
            strata=numbers["strata"],
            suites=numbers["secondary_suites"],
        ),
        warnings=(
            *([as_good] if as_good and gain else ()),
            *(each for each in notes if each.code == LEFT_OUT),
            *warnings(head | numbers, plan, primary, effect),
            *at_bounds(primary),
            *reward_fell(effect, numbers["secondary"]),
            *one_answer(effect, base, trained),
            *more_computation(base, trained),
            *(uneven(base, trained, measure, higher=plan.direction == "higher") if gain else ()),
            *random_reward_warnings(random_reward),
            *filter(
                None,
                (
                    hangs_on_worst_cluster(primary.p, worst_case, plan, alpha),
                    not_tested(numbers["secondary"]),
                    form_only(numbers["gain_split"]),
                    sharpening(effect, numbers["rivals"], primary),
                ),
            ),
            *(each for each in notes if each.code != LEFT_OUT),
        ),
    )


def _decided(
    known: Mapping[str, Any],
    plan: ClaimPlan,
    primary: Comparison,
    effect: Effect,
    losses: Sequence[Remark],
    better: Remark | None,
) -> tuple[Verdict, tuple[Remark, ...]]:
    """Return verdict and reasons of the numbers; of results that were made elsewhere the rivals are those
    that were brought."""
    level, skilled = known["level"], None
    no_skill = why_no_skill(known["rivals"], known["random_reward"], level)
    elsewhere = known["split"] == "tasks"
    if elsewhere:
        skilled = remark("skilled_beside", level=level, rivals=sorted(plan.rivals))
        no_skill = no_skill if plan.rivals else remark("no_rivals_given", level=level)
    shown = Shown(
        effect=effect,
        n_clusters=primary.n_clusters,
        needed=primary.clusters_needed,
        level=level,
        no_skill=no_skill,
        skilled=skilled,
        losses=losses,
        better=better,
        detectable=known["smallest_detectable_points"],
    )
    return decide(shown, trained=not elsewhere)
