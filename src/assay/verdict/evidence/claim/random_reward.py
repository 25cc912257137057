"""The random-reward arm: the same training for the toss of a coin. What that gains too is no sign of learning
the task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from pydantic import Field

from assay.core.config.settings import Params
from assay.core.records import ControlFacts, Episode, HealthSummary, Interval, Record, TrainFacts
from assay.core.seeds import rng as labelled_rng
from assay.rollout.evaluation.measures import mean_of
from assay.verdict.evidence.claim.differences import Comparison, compare_measure, measure_of_primary
from assay.verdict.evidence.claim.effect import Direction, Size, effect_in
from assay.verdict.evidence.claim.plan import ClaimPlan
from assay.verdict.evidence.claim.verdict import arm_obstacles
from assay.verdict.evidence.words.remarks import Remark, remark

# Of the base's rate: at or below it the control has collapsed. From which share of episodes on they say one
# thing, and up to which they do not.
COLLAPSED, CONSTANT, VARIED = 0.5, 0.9, 0.7
LEFT_OUT = "random_reward_left_out"


class RandomRewardControl(Record):
    """What random rewards did to the primary metric on the same items, and how far the training proper is
    ahead of that."""

    comparable: bool = Field(description="whether the arm is a whole suite of the same items")
    reason: tuple[Remark, ...] | None = Field(description="why it is not")
    direction: Direction | None = Field(description="of random rewards against the base")
    size: Size | None
    before: float | None
    after: float | None
    difference: Interval | None = Field(description="random rewards - base over paired items, shares")
    p: float | None
    ahead: Interval | None = Field(description="trained - random rewards over paired items, shares")
    ahead_p: float | None
    trained_is_ahead: bool | None = Field(description="null where nothing can be tested, or it collapsed")
    n_clusters: int = Field(ge=0)
    n_items: int = Field(ge=0)
    red: tuple[str, ...] | None = Field(
        description="alarms of that training that were RED, by rule and step; null: nobody watched it"
    )
    unmeasured: tuple[str, ...] | None = Field(description="rules that had nothing to read there")
    share: float = Field(default=1.0, gt=0, le=1, description="of the steps of the training proper")
    collapsed: tuple[Remark, ...] = Field(
        default=(),
        description="what was left of the base's play at half or less: to be ahead of that shows nothing, and"
        " counts for nothing",
    )


def random_reward_control(
    base: Sequence[Episode],
    random_arm: Sequence[Episode],
    trained: Sequence[Episode],
    plan: ClaimPlan,
    rng: np.random.Generator,
    *,
    alpha: float,
    health: HealthSummary | None = None,
) -> RandomRewardControl:
    """Return the control; an arm that is no whole suite, or holds other items, is not comparable, with the
    reason.

    `alpha` is the level of the claim, at which the trained policy has to be ahead. What random rewards did to
    the base is tested at the plan's: earlier openings make no control quieter. `health` are the alarms of
    that training.

    Raises:
        EvidenceError: the plan's primary metric is not a rate.
    """
    measure, seed = measure_of_primary(plan.primary), int(rng.integers(2**63))
    base, random_arm, trained = (
        sorted(arm, key=lambda e: (e.item_id, e.draw)) for arm in (base, random_arm, trained)
    )
    barred = arm_obstacles({"before": base, "random-reward": random_arm, "after": trained}, plan)
    if barred:
        known: dict[str, object] = {"comparable": False, "reason": tuple(barred)}
        known |= {"n_clusters": 0, "n_items": 0, "share": plan.control_share, "collapsed": ()}
        return RandomRewardControl.model_validate(dict.fromkeys(RandomRewardControl.model_fields) | known)
    unseen = plan.unseen
    gained = compare_measure(base, random_arm, measure, labelled_rng(seed, "random reward"), unseen=unseen)
    ahead = compare_measure(
        random_arm, trained, measure, labelled_rng(seed, "trained against random reward"), unseen=unseen
    )
    effect, lost = effect_in(gained, plan, alpha=plan.alpha), tuple(_collapse(base, random_arm))
    return RandomRewardControl(
        comparable=True,
        reason=None,
        direction=effect.direction,
        size=effect.size,
        before=gained.before,
        after=gained.after,
        difference=gained.difference,
        p=gained.p,
        ahead=ahead.difference,
        ahead_p=ahead.p,
        trained_is_ahead=None if ahead.p is None or lost else _is_ahead(ahead, plan, alpha),
        n_clusters=gained.n_clusters,
        n_items=gained.difference.n,
        red=None if health is None else red_rules(health),
        unmeasured=None if health is None else health.unmeasured,
        share=plan.control_share,
        collapsed=lost,
    )


def _collapse(base: Sequence[Episode], arm: Sequence[Episode]) -> Iterator[Remark]:
    """Yield what a policy has lost of the base's play, beyond what could teach anything of rewards."""
    for measure in ("parsed_rate", "success_rate"):
        was, is_ = (mean_of(episodes, measure) for episodes in (base, arm))
        if was and is_ is not None and is_ <= COLLAPSED * was:
            yield remark("control_lost", measure=measure, before=was, after=is_)
    was, is_ = (_commonest_share(episodes) for episodes in (base, arm))
    if was <= VARIED and is_ >= CONSTANT:
        yield remark("control_says_one_thing", before=was, after=is_)


def _commonest_share(episodes: Sequence[Episode]) -> float:
    """Return the share of episodes that write the same as any other does, the commonest."""
    said = Counter(tuple(turn.completion for turn in episode.turns) for episode in episodes)
    return said.most_common(1)[0][1] / said.total()


def _is_ahead(ahead: Comparison, plan: ClaimPlan, alpha: float) -> bool:
    better = (ahead.difference.value or 0.0) * (1 if plan.direction == "higher" else -1) > 0
    return better and ahead.p is not None and ahead.p <= alpha


def red_rules(health: HealthSummary) -> tuple[str, ...]:
    """Return the rules that were RED in a training, each with the step from which it was."""
    return tuple(f"{each.rule} from step {each.worst_step}" for each in health.rules if each.level == "RED")


def random_reward_warnings(control: RandomRewardControl | None) -> list[Remark]:
    """Return what a reader must be warned of; nothing where no such arm was asked for, or where it did as it
    should."""
    if control is None:
        return []
    if not control.comparable:
        return [remark("random_reward_not_evaluable", reasons=control.reason)]
    found, gap = [], {"difference": control.difference, "p": control.p}
    if control.direction == "better":
        found.append(remark("random_rewards_improved", **gap))
    if control.direction == "worse":
        found.append(remark("random_rewards_worsened", **gap))
    if control.collapsed:
        found.append(remark("random_rewards_collapsed", lost=control.collapsed))
    elif not control.trained_is_ahead:
        found.append(remark("random_rewards_not_beaten", difference=control.ahead, p=control.ahead_p))
    return found


def other_control(facts: ControlFacts, played: str, trained: TrainFacts, steps: int) -> list[Remark]:
    """Return why an arm is no control of a training: of another training, policy or step, or no training at
    all.

    Args:
        facts: What the control says of itself.
        played: Digest of the policy that played the arm.
        trained: The training proper.
        steps: So many the settings ask for.
    """
    bars = list[Remark]()
    if (facts.seed, facts.steps, facts.base_digest) != (trained.seed, steps, trained.base_digest):
        bars.append(remark("control_of_other_training"))
    if facts.policy_digest == played == trained.base_digest:
        bars.append(remark("control_is_base", steps=facts.chosen_step))
    elif facts.policy_digest != played or played in (trained.base_digest, trained.policy_digest):
        bars.append(remark("control_of_other_policy"))
    if facts.chosen_step != steps and facts.steps == steps:  # else said above already
        bars.append(remark("control_of_other_step", step=facts.chosen_step, last=facts.steps))
    return bars


def control_left_out(params: Params) -> list[Remark]:
    """Return the warning that this control was not asked for: rewards that mean nothing can raise what a
    model scores."""
    return [] if "random_reward" in params.claim.controls else [remark(LEFT_OUT)]
