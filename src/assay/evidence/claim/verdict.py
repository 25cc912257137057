"""From numbers to one of six verdicts, by rules that the plan fixed. docs/method.md has the truth table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from assay.core.counting import counted
from assay.core.errors import EvidenceError
from assay.core.records import Episode, Interval, Record
from assay.evaluation.measures import check_complete, is_rate
from assay.evidence.claim.aa_test import Control
from assay.evidence.claim.differences import FEW_CLUSTERS, Comparison
from assay.evidence.claim.effect import Effect, margins_of
from assay.evidence.claim.plan import ClaimPlan
from assay.evidence.formatting import difference_text

Verdict = Literal[
    "IMPROVED",
    "IMPROVED WITH REGRESSIONS",
    "NO SKILL SHOWN",
    "NO EVIDENCE",
    "REGRESSED",
    "NOT EVALUABLE",
    "DRAFT",
]
DRAFT: Verdict = "DRAFT"  # what stands in the place of a verdict where none was asked for


class Guardrail(Record):
    """A measure that may not get worse: held if its interval excludes the loss, regressed if it excludes no
    loss."""

    measure: str
    margin: float
    difference: Interval
    outcome: Literal["held", "inconclusive", "regressed"]


def judge_guardrail(
    measure: str, difference: Interval, margin: float, *, before: float | None, unchanged: bool
) -> Guardrail:
    """Return whether a loss beyond the margin is excluded (held), any loss is shown (regressed), or neither.

    Of a rate the margin is at most half of what it was before. `unchanged`: both arms are the same
    everywhere.
    """
    if is_rate(measure):
        margin = min(margin, margins_of(100 * margin, before)[0])
    low, high = difference.low, difference.high
    outcome: Literal["held", "inconclusive", "regressed"] = "inconclusive"
    if (low is not None and low > -margin) or unchanged:
        outcome = "held"
    elif high is not None and high < 0:
        outcome = "regressed"
    return Guardrail(measure=measure, margin=margin, difference=difference, outcome=outcome)


def obstacles(
    before: Sequence[Episode], after: Sequence[Episode], plan: ClaimPlan, suites: tuple[str, str]
) -> list[tuple[str, str]]:
    """Return every obstacle to comparing the arms under the plan, as (kind without numbers, what was
    found)."""
    found = []
    for arm, suite in zip(("before", "after"), suites, strict=True):
        if suite != plan.suite_digest:
            detail = (
                f"the {arm} arm was played on suite {suite[:12]}, the plan names {plan.suite_digest[:12]}"
            )
            found.append(("the suite is not the one the plan names", detail))
    return found + arm_obstacles({"before": before, "after": after}, plan)


def arm_obstacles(arms: Mapping[str, Sequence[Episode]], plan: ClaimPlan) -> list[tuple[str, str]]:
    """Return why arms, by name, are not whole suites of the same items with draws that differ."""
    found = []
    for arm, episodes in arms.items():
        try:
            check_complete(episodes, plan.draws, arm)
        except EvidenceError as error:
            detail = f"{arm} arm: expected {error.expected}, found {error.found}"
            found.append((f"the {arm} arm is not a whole suite", detail))
            continue
        repeated = len(episodes) - len({(episode.item_id, episode.seed) for episode in episodes})
        if repeated:
            said = (
                f"{repeated} of {counted(len(episodes), 'episodes')}"
                f" {'repeats' if repeated == 1 else 'repeat'}"
            )
            detail = f"{arm} arm: {said} the sampling seed of another draw of their item"
            found.append((f"draws of the {arm} arm share sampling seeds", detail))
    return found + unpaired(arms)


def unpaired(arms: Mapping[str, Sequence[Episode]]) -> list[tuple[str, str]]:
    """Return which arms hold other items, or items in other clusters, than the first one."""
    found = []
    homes = {arm: {(e.item_id, e.cluster) for e in episodes} for arm, episodes in arms.items()}
    first = next(iter(homes))
    for arm, home in homes.items():
        if home != homes[first]:
            odd = sorted({item for item, _ in home ^ homes[first]})
            some = ", ".join(ascii(item)[:60] for item in odd[:3])
            detail = f"arms differ: {counted(len(odd), 'items')} in one of {first} and {arm} only, or in"
            detail += f" another cluster there ({some})"
            found.append(("the arms hold different items", detail))
    return found


def decide(
    effect: Effect,
    *,
    n_clusters: int,
    alpha: float,
    no_skill: str | None,
    regressions: Sequence[str],
    detectable: float | None,
    needed: int | None = None,
) -> tuple[Verdict, str]:
    """Return the verdict and its reason: direction decides, whatever the size.

    Args:
        effect: What the primary difference shows.
        n_clusters: Of the primary difference.
        alpha: Level of the test.
        no_skill: Why better than the base is not skill; None where it is.
        regressions: Measures that got worse.
        detectable: The effect that would have been found with power 0.8, points.
        needed: Clusters of these sizes that a test needs; None where there are enough.
    """
    if needed is not None:
        few = f"descriptive only: {counted(n_clusters, 'clusters')}, a test needs {needed} of such sizes"
        return "NO EVIDENCE", few
    if effect.direction == "worse":
        return "REGRESSED", "the primary metric got worse"
    if effect.direction == "not shown":
        if effect.size == "equivalent":
            return "NO EVIDENCE", f"p > {alpha:.2g}; any change is smaller than what matters"
        reach = "unknown" if detectable is None else f"{detectable:.1f} points"
        return "NO EVIDENCE", f"p > {alpha:.2g}; smallest detectable effect {reach}"
    better = f"the primary metric got better, p <= {alpha:.2g}"
    if no_skill is not None:
        return "NO SKILL SHOWN", f"{better}, but the trained policy is {no_skill}"
    if regressions:
        return "IMPROVED WITH REGRESSIONS", "got worse: " + ", ".join(regressions)
    return "IMPROVED", f"{better}, and than every player without skill"


def regressions(
    guardrails: Sequence[Guardrail], comparisons: Mapping[str, Comparison], plan: ClaimPlan
) -> list[str]:
    """Return the names of guardrails that regressed and of confirmatory metrics that fell, p <= alpha after
    Holm."""
    return [g.measure for g in guardrails if g.outcome == "regressed"] + against_primary(comparisons, plan)


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
    primary: Comparison,
    plan: ClaimPlan,
    detectable: float | None,
    control: Control,
    guardrails: Sequence[Guardrail],
    strata: Mapping[str, Comparison],
    policies: tuple[str, str],
    effect: Effect,
) -> tuple[str, ...]:
    """Return what a reader must know beside the verdict, one sentence each."""
    found = []
    if primary.clusters_needed is not None:
        found.append(
            f"Descriptive only: {counted(primary.n_clusters, plan.cluster_name)}, where a test needs"
            f" {primary.clusters_needed} of such sizes."
        )
    elif primary.n_clusters < FEW_CLUSTERS:
        found.append(f"Only {primary.n_clusters} {plan.cluster_name}: the interval is wide.")
    if detectable is not None and detectable > plan.smallest_effect_points:
        found.append(
            f"The smallest detectable effect, {detectable:.1f} points, exceeds the smallest that matters, "
            f"{plan.smallest_effect_points:g} points."
        )
    margins = {"a fall": effect.fall_that_matters, "a rise": effect.rise_that_matters}
    if effect.direction != "not shown":
        rose = (effect.direction == "better") == (plan.direction == "higher")
        margins.pop("a fall" if rose else "a rise")
    if bounded := [
        f"{name} of {100 * margin:.1f} points"
        for name, margin in margins.items()
        if 100 * margin < plan.smallest_effect_points
    ]:
        found.append(
            f"The margin of {plan.smallest_effect_points:g} points exceeds half of what the base could lose"
            f" or gain: {' or '.join(bounded)} counts as mattering."
        )
    if control.passed is None:
        found.append(f"No A/A control: {control.reason}.")
    worse = against_primary(strata, plan)
    if worse:
        found.append(
            f"Got worse within strata, which is exploratory (Holm p <= {plan.alpha:g}): {', '.join(worse)}."
        )
    found += [
        f"{g.measure} got worse, within its margin of {g.margin:g}:"
        f" {difference_text(g.difference, rate=is_rate(g.measure))}."
        for g in guardrails
        if g.outcome == "held" and g.difference.high is not None and g.difference.high < 0
    ]
    open_ones = [g.measure for g in guardrails if g.outcome == "inconclusive"]
    if open_ones:
        found.append(f"Guardrails not shown to hold: {', '.join(open_ones)}.")
    if policies[0] == policies[1]:
        found.append("Both arms are the same policy: the base was chosen, or one was named twice.")
    return tuple(found)
