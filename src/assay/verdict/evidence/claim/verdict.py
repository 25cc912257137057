"""From numbers to a verdict, by rules that the plan fixed. docs/method.md has the truth table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from assay.core.errors import EvidenceError
from assay.core.records import Episode, Interval, Record
from assay.rollout.evaluation.measures import check_complete, is_rate
from assay.verdict.evidence.claim.differences import FEW_CLUSTERS, Comparison
from assay.verdict.evidence.claim.effect import Effect, margins_of
from assay.verdict.evidence.claim.plan import ClaimPlan
from assay.verdict.evidence.claim.secondary_suites import SecondarySuite
from assay.verdict.evidence.words.remarks import Remark, remark

Verdict = Literal[
    "IMPROVED",
    "IMPROVED WITH REGRESSIONS",
    "IMPROVED, BUT PROMPTING IS BETTER",
    "BETTER",
    "BETTER WITH REGRESSIONS",
    "BETTER, BUT PROMPTING IS BETTER",
    "NO SKILL SHOWN",
    "NO CHANGE THAT MATTERS",
    "NO EVIDENCE",
    "REGRESSED",
    "WORSE",
    "NOT EVALUABLE",
    "DRAFT",
]
DRAFT: Verdict = "DRAFT"  # what stands in the place of a verdict where none was asked for
# What whoever waits for a yes or no is told by the word alone; any other word is no gain without a but.
GATE: dict[Verdict, int] = {
    "IMPROVED": 0,
    "BETTER": 0,
    "NOT EVALUABLE": 5,
    "DRAFT": 6,
    "REGRESSED": 8,
    "WORSE": 8,
}
NO_GAIN = 7


class Guardrail(Record):
    """A measure that may not get worse: held if its interval excludes the loss, regressed if it excludes no
    loss."""

    measure: str
    margin: float
    difference: Interval
    outcome: Literal["held", "inconclusive", "regressed"]


def judge_guardrail(
    measure: str,
    difference: Interval,
    margin: float,
    *,
    before: float | None,
    unchanged: bool,
    at_level: Interval | None = None,
) -> Guardrail:
    """Return whether a loss beyond the margin is excluded (held), any loss is shown (regressed), or neither.

    Of a rate the margin is at most half of what it was before. `unchanged`: both arms are the same
    everywhere. That it held is read off the interval at the level of the claim, where there is another: what
    openings cost makes no loss less likely.
    """
    if is_rate(measure):
        margin = min(margin, margins_of(100 * margin, before)[0])
    low, high, surely = difference.low, difference.high, (at_level or difference).low
    outcome: Literal["held", "inconclusive", "regressed"] = "inconclusive"
    if (surely is not None and surely > -margin) or unchanged:
        outcome = "held"
    elif high is not None and high < 0 and low is not None and low <= -margin:
        outcome = "regressed"
    return Guardrail(measure=measure, margin=margin, difference=difference, outcome=outcome)


def obstacles(
    before: Sequence[Episode], after: Sequence[Episode], plan: ClaimPlan, suites: tuple[str, str]
) -> list[Remark]:
    """Return every obstacle to comparing the arms under the plan."""
    return [
        remark("other_suite", arm=arm, suite=suite, planned=plan.suite_digest)
        for arm, suite in zip(("before", "after"), suites, strict=True)
        if suite != plan.suite_digest
    ] + arm_obstacles({"before": before, "after": after}, plan)


def arm_obstacles(arms: Mapping[str, Sequence[Episode]], plan: ClaimPlan) -> list[Remark]:
    """Return why arms, by name, are not whole suites of the same items with draws that differ."""
    found = []
    for arm, episodes in arms.items():
        try:
            check_complete(episodes, plan.draws, arm)
        except EvidenceError as error:
            found.append(remark("arm_not_whole", arm=arm, expected=error.expected, found=error.found))
            continue
        repeated = len(episodes) - len({(episode.item_id, episode.seed) for episode in episodes})
        if repeated:
            found.append(remark("seeds_repeat", arm=arm, n=repeated, of=len(episodes)))
    return found + unpaired(arms)


def unpaired(arms: Mapping[str, Sequence[Episode]]) -> list[Remark]:
    """Return which arms hold other items, or items in other clusters, than the first one."""
    homes = {arm: {(e.item_id, e.cluster) for e in episodes} for arm, episodes in arms.items()}
    first = next(iter(homes))
    odd = {arm: sorted({item for item, _ in home ^ homes[first]}) for arm, home in homes.items()}
    return [
        remark("other_items", first=first, arm=arm, n=len(items), items=items[:3])
        for arm, items in odd.items()
        if items
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a verdict rests on.

    Attributes:
        effect: What the primary difference shows.
        n_clusters: Of the primary difference.
        needed: Clusters of these sizes that a test needs; None where there are enough.
        level: Of the test.
        detectable: The effect that would have been found with power 0.8, points.
        losses: What else of the plan got worse; said whatever the verdict.
        no_skill: Why better than the base is not skill; None where it is.
        skilled: What is said of skill that is shown; None: that every player without it is beaten.
        better: What one would do instead of training and is better; None: nothing is.
    """

    effect: Effect
    n_clusters: int
    needed: int | None = None
    level: float
    detectable: float | None
    losses: Sequence[Remark]
    no_skill: Remark | None
    skilled: Remark | None = None
    better: Remark | None = None


def decide(shown: Shown, *, trained: bool = True) -> tuple[Verdict, tuple[Remark, ...]]:
    """Return the verdict and its reasons: direction decides, whatever the size.

    `trained`: whether the second policy is known to be trained from the first. Elsewhere it may have improved
    nothing, and is only better or worse.
    """
    verdict, reason = _word_of(shown)
    if not trained:
        verdict = cast(Verdict, verdict.replace("IMPROVED", "BETTER").replace("REGRESSED", "WORSE"))
    return verdict, (reason, *shown.losses)


def _word_of(shown: Shown) -> tuple[Verdict, Remark]:
    level = shown.level
    if shown.needed is not None:
        return "NO EVIDENCE", remark("too_few_clusters", n=shown.n_clusters, needed=shown.needed)
    if shown.effect.direction == "worse":
        return "REGRESSED", remark("worse")
    if shown.effect.direction == "not shown":
        if shown.effect.size != "equivalent":
            return "NO EVIDENCE", remark("not_shown", level=level, detectable=shown.detectable)
        # What got worse elsewhere matters, so that nothing of the kind can be said.
        return "NO EVIDENCE" if shown.losses else "NO CHANGE THAT MATTERS", remark("equivalent", level=level)
    if shown.no_skill is not None:
        return "NO SKILL SHOWN", shown.no_skill
    if shown.better is not None:
        return "IMPROVED, BUT PROMPTING IS BETTER", shown.better
    if shown.losses:
        return "IMPROVED WITH REGRESSIONS", remark("better", level=level)
    return "IMPROVED", shown.skilled or remark("skilled", level=level)


def losses_of(
    guardrails: Sequence[Guardrail],
    comparisons: Mapping[str, Comparison],
    suites: Mapping[str, SecondarySuite],
    plan: ClaimPlan,
    strata: Mapping[str, Comparison],
) -> list[Remark]:
    """Return what of the plan is shown to have got worse beside the primary metric: guardrails, confirmatory
    metrics and tasks, p <= alpha after Holm, and secondary suites."""
    tasks = {name: each for name, each in strata.items() if is_task(name, plan)}
    worse = [g.measure for g in guardrails if g.outcome == "regressed"] + against_primary(comparisons, plan)
    found = [remark("worse_beside", measures=list(dict.fromkeys(worse)))] if worse else []
    return found + [
        remark("worse_on_suite", suite=name, before=each.before, after=each.after, difference=each.difference)
        for name, each in (
            *((name, each) for name, each in suites.items() if each.direction == "worse"),
            *((name.partition("=")[2], tasks[name]) for name in against_primary(tasks, plan)),
        )
    ]


def is_task(stratum: str, plan: ClaimPlan) -> bool:
    """Return whether a stratum, as "label=value", is a task of its own."""
    return plan.tasks is not None and stratum.startswith(f"{plan.tasks}=")


def against_primary(comparisons: Mapping[str, Comparison], plan: ClaimPlan) -> list[str]:
    """Return the names of comparisons that moved the way that is worse for the primary metric, p <= alpha
    after Holm."""
    sign = 1 if plan.direction == "higher" else -1
    return [
        name
        for name, found in comparisons.items()
        if found.p_holm is not None
        and found.p_holm <= plan.alpha
        and sign * (found.difference.value or 0.0) < 0
    ]


def warnings(
    claim: Mapping[str, Any], plan: ClaimPlan, primary: Comparison, effect: Effect
) -> tuple[Remark, ...]:
    """Return what a reader must know beside the verdict.

    Args:
        claim: Its fields: control, guardrails, strata, policies and the smallest detectable effect.
        plan: Of the claim.
        primary: The comparison that decides.
        effect: What that shows.
    """
    found, detectable = list[Remark](), claim["smallest_detectable_points"]
    matters, n = plan.smallest_effect_points, primary.n_clusters
    if primary.clusters_needed is not None:
        needed = primary.clusters_needed
        found.append(remark("descriptive_only", n=n, clusters=plan.cluster_name, needed=needed))
    elif n < FEW_CLUSTERS:
        found.append(remark("few_clusters", n=n, clusters=plan.cluster_name))
    if detectable is not None and detectable > matters:
        found.append(remark("detectable_exceeds", detectable=detectable, matters=matters))
    margins = {"fall": effect.fall_that_matters, "rise": effect.rise_that_matters}
    if effect.direction != "not shown":
        rose = (effect.direction == "better") == (plan.direction == "higher")
        margins.pop("fall" if rose else "rise")
    bounded = [
        {"change": name, "points": 100 * margin} for name, margin in margins.items() if 100 * margin < matters
    ]
    if bounded:
        found.append(remark("margin_bounded", matters=matters, margins=bounded))
    if claim["control"].passed is None:
        found.append(remark("control_not_run", reason=claim["control"].reason))
    strata = {name: each for name, each in claim["strata"].items() if not is_task(name, plan)}
    if worse := against_primary(strata, plan):
        found.append(remark("strata_worse", level=plan.alpha, strata=worse))
    found += [
        remark("worse_within_margin", measure=g.measure, margin=g.margin, difference=g.difference)
        for g in claim["guardrails"]
        if g.outcome == "held" and g.difference.high is not None and g.difference.high < 0
    ]
    if open_ones := [g.measure for g in claim["guardrails"] if g.outcome == "inconclusive"]:
        found.append(remark("guardrails_open", measures=open_ones))
    if claim["before_policy"] == claim["after_policy"] and claim["split"] != "tasks":
        found.append(remark("same_policy"))
    return tuple(found)
