"""From numbers to one of five verdicts, by rules that the plan fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from assay.core.counting import counted
from assay.core.errors import EvidenceError
from assay.core.records import Episode, Interval, Record
from assay.evaluation.measures import check_complete
from assay.evidence.claim.aa_test import Control
from assay.evidence.claim.differences import FEW_CLUSTERS, FEWEST_CLUSTERS, Comparison
from assay.evidence.claim.plan import ClaimPlan

Verdict = Literal["IMPROVED", "IMPROVED WITH REGRESSIONS", "NO EVIDENCE", "REGRESSED", "NOT EVALUABLE"]
Detail = Literal["equivalent", "inconclusive", "descriptive only"]


class Guardrail(Record):
    """A measure that may not get worse: held if its interval excludes the loss, regressed if it excludes no
    loss."""

    measure: str
    margin: float
    difference: Interval
    outcome: Literal["held", "inconclusive", "regressed"]


def judge_guardrail(found: Comparison, margin: float) -> Guardrail:
    """Return whether a loss beyond the margin is excluded (held), any loss is shown (regressed), or
    neither."""
    low, high = found.difference.low, found.difference.high
    unchanged = found.p == 1.0 and found.difference.value == 0.0
    if (low is not None and low > -margin) or unchanged:
        outcome: Literal["held", "inconclusive", "regressed"] = "held"
    else:
        outcome = "regressed" if high is not None and high < 0 else "inconclusive"
    return Guardrail(measure=found.measure, margin=margin, difference=found.difference, outcome=outcome)


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
    homes = {arm: {(e.item_id, e.cluster) for e in episodes} for arm, episodes in arms.items()}
    first = next(iter(homes))
    for arm, home in homes.items():
        if home != homes[first]:
            detail = (
                f"arms differ: {len(home ^ homes[first])} (item, cluster) pairs are in one of {first} and"
                f" {arm} only"
            )
            found.append(("the arms hold different items", detail))
    return found


def decide(
    primary: Comparison, plan: ClaimPlan, regressions: Sequence[str], detectable: float | None
) -> tuple[Verdict, Detail | None, str]:
    """Return verdict, detail and reason; a change proven too small to matter is equivalence, whatever its
    p."""
    if primary.p is None:
        n = primary.n_clusters
        return (
            "NO EVIDENCE",
            "descriptive only",
            f"descriptive only: {counted(n, 'clusters')}, a test needs {FEWEST_CLUSTERS}",
        )
    low, high, matters = primary.difference.low, primary.difference.high, plan.smallest_effect_points / 100
    if low is not None and high is not None and -matters < low and high < matters:
        return (
            "NO EVIDENCE",
            "equivalent",
            f"any change is smaller than {plan.smallest_effect_points:g} points",
        )
    if primary.p > plan.alpha:
        reach = "unknown" if detectable is None else f"{detectable:.1f} points"
        return "NO EVIDENCE", "inconclusive", f"p > {plan.alpha:g}; smallest detectable effect {reach}"
    better = (primary.difference.value or 0.0) * (1 if plan.direction == "higher" else -1) > 0
    if not better:
        return "REGRESSED", None, f"the primary metric got worse, p <= {plan.alpha:g}"
    if regressions:
        return "IMPROVED WITH REGRESSIONS", None, "got worse: " + ", ".join(regressions)
    return "IMPROVED", None, f"the primary metric got better, p <= {plan.alpha:g}"


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
) -> tuple[str, ...]:
    """Return what a reader must know beside the verdict, one sentence each."""
    found = []
    if primary.n_clusters < FEWEST_CLUSTERS:
        found.append(f"Descriptive only: {counted(primary.n_clusters, plan.cluster_name)}.")
    elif primary.difference.low is None:
        found.append(
            f"All {primary.n_clusters} {plan.cluster_name} changed by the same amount: the data hold no"
            " interval."
        )
    elif primary.n_clusters < FEW_CLUSTERS:
        found.append(
            f"Only {primary.n_clusters} {plan.cluster_name}: the interval is wide and rests on symmetry."
        )
    if detectable is not None and detectable > plan.smallest_effect_points:
        found.append(
            f"The smallest detectable effect, {detectable:.1f} points, exceeds the smallest that matters, "
            f"{plan.smallest_effect_points:g} points."
        )
    if control.passed is None:
        found.append(f"No A/A control: {control.reason}.")
    worse = against_primary(strata, plan)
    if worse:
        found.append(
            f"Got worse within strata, which is exploratory (Holm p <= {plan.alpha:g}): {', '.join(worse)}."
        )
    open_ones = [g.measure for g in guardrails if g.outcome == "inconclusive"]
    if open_ones:
        found.append(f"Guardrails not shown to hold: {', '.join(open_ones)}.")
    if policies[0] == policies[1]:
        found.append("Both arms are the same policy: the chosen checkpoint is the base.")
    return tuple(found)
