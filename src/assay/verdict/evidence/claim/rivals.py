"""The skill gate: whether the trained policy beats players that need no skill, and what a user would do
instead of training: IMPROVED is none that does not beat the first, or is beaten by the second. All play the
same held-out items, and are compared pair by pair with the test that decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from assay.core.records import Episode, Interval, Record
from assay.core.seeds import rng as labelled_rng
from assay.rollout.tasks.protocol import RivalKind
from assay.verdict.evidence.claim.differences import compare_measure, deltas
from assay.verdict.evidence.claim.plan import ClaimPlan
from assay.verdict.evidence.claim.random_reward import RandomRewardControl
from assay.verdict.evidence.words.remarks import Remark, remark

KINDS: Mapping[RivalKind, str] = {
    "trivial": "players that need no skill",
    "scripted": "scripted players that see what the policy sees",
    "instead of training": "the base, used otherwise",
    "trained otherwise": "the base, trained otherwise",
}


class Rival(Record):
    """The trained policy against one rival, on the primary metric and in reward."""

    kind: RivalKind
    rate: float | None = Field(description="the rival's own, share")
    difference: Interval = Field(description="trained - rival over paired items, shares")
    reward: Interval | None = Field(
        default=None, description="trained - rival in mean reward, likewise; null: by an earlier version"
    )
    p: float | None
    beaten: bool | None = Field(description="by the trained policy; null: too few clusters to test")
    beaten_by: bool | None = Field(description="whether the rival beats it; null: as above")


def compare_rivals(
    trained: Sequence[Episode],
    rivals: Mapping[str, Sequence[Episode]],
    plan: ClaimPlan,
    measure: str,
    *,
    alpha: float,
    seed: int,
) -> dict[str, Rival]:
    """Return the comparison with each rival of the plan that was played, kinds in the order of KINDS.

    Each is tested at the whole level: to beat the best trivial player is to beat every one of them, which is
    an intersection of tests. Source: Berger (1982), Technometrics 24:295.

    Raises:
        EvidenceError: A rival did not play the items of the trained policy.
    """
    sign, found = 1 if plan.direction == "higher" else -1, {}
    for name in sorted(
        set(plan.rivals) & set(rivals), key=lambda name: (list(KINDS).index(plan.rivals[name]), name)
    ):
        both, unseen, known = (rivals[name], trained), plan.unseen, plan.reward_range
        each = compare_measure(*both, measure, labelled_rng(seed, "rival", name), unseen=unseen)
        reward = deltas(*both, ["mean_reward"], seed, unseen=unseen, reward_range=known)["mean_reward"]
        ahead, shown = sign * (each.difference.value or 0.0), each.p is not None and each.p <= alpha
        found[name] = Rival(
            kind=plan.rivals[name],
            rate=each.before,
            difference=each.difference,
            reward=reward,
            p=each.p,
            beaten=None if each.p is None else shown and ahead > 0,
            # What openings cost is paid for calling something better: a rival that is better is said at once.
            beaten_by=None if each.p is None else each.p <= plan.alpha and ahead < 0,
        )
    return found


def missing_rivals(plan: ClaimPlan, rivals: Mapping[str, Sequence[Episode]]) -> tuple[list[str], list[str]]:
    """Return the rivals of the plan that were not played: those without which no skill can be shown, and the
    base's."""
    lost = [name for name in plan.rivals if name not in rivals]
    base = [name for name in lost if plan.rivals[name] == "instead of training"]
    return [name for name in lost if name not in base], base


def why_no_skill(
    found: Mapping[str, Rival], random_reward: RandomRewardControl | None, level: float
) -> Remark | None:
    """Return why a policy that is better than the base has not shown skill; None where it has.

    It has to beat every trivial player, what the base became by another training, and the training for random
    rewards where there was one.
    """
    needed = {name: each for name, each in found.items() if each.kind in ("trivial", "trained otherwise")}
    if not any(each.kind == "trivial" for each in needed.values()):
        return remark("no_trivial_rival", level=level)
    ahead: dict[str, Interval | None] = {
        name: each.difference for name, each in needed.items() if not each.beaten
    }
    control = random_reward
    if control is not None and control.comparable and not (control.collapsed or control.trained_is_ahead):
        ahead["the training for random rewards"] = control.ahead
    told = [{"name": name, "difference": difference} for name, difference in ahead.items()]
    return remark("rivals_not_beaten", level=level, rivals=told) if told else None


def instead_of_training(found: Mapping[str, Rival]) -> tuple[Remark | None, Remark | None]:
    """Return which uses of the base beat the trained policy, and from which it is not told apart; None of
    neither.

    Whoever has the base can prompt it otherwise, decode it greedily or take the best of several at once: what
    does not beat that need not be trained.
    """
    told: dict[bool, list[dict[str, object]]] = {True: [], False: []}
    for name, each in found.items():
        if each.kind == "instead of training" and not each.beaten:
            told[bool(each.beaten_by)].append({"name": name, "difference": each.difference})
    return (
        remark("prompting_better", rivals=told[True]) if told[True] else None,
        remark("prompting_as_good", rivals=told[False]) if told[False] else None,
    )
