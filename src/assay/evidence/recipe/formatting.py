"""What several trainings show, in words."""

from __future__ import annotations

from assay.core.counting import counted
from assay.core.records import Interval
from assay.evidence.claim.verdict import Detail, Verdict
from assay.evidence.formatting import p_text, signed
from assay.evidence.recipe.runs import KnownPlan
from assay.statistics.seeds_and_items import fewest_runs

MEANING = (
    "The interval is for other training seeds and other items of the same kind. All runs share one suite and"
    " one measurement of the base, so luck in either moves all of them alike; more seeds do not make that"
    " smaller, more items do. A verdict therefore needs two things: sign flips of whole runs (would other"
    " seeds do it, on these items?) and the mean gain against its error from seeds and items together; p is"
    " the larger of the two. Every interval is two-sided at 95 %, also beside a one-sided p: one-sided, a"
    " recipe can be called better although its interval holds 0. The smallest detectable effect takes the"
    " errors found here for the true ones; with few seeds it is rough. IQM, probability and profile are"
    " bootstrapped over whole seeds and whole clusters of items, clusters within their stratum, what the runs"
    " share drawn with its item. Another base and data of another kind are not covered."
)


def too_few_said(n_runs: int, alpha: float, *, one_sided: bool) -> str:
    """Return why so few seeds make no claim about a recipe.

    >>> too_few_said(5, 0.05, one_sided=False)
    '5 seeds, at least 5 one-sided / 6 two-sided (two-sided was asked)'
    """
    fewest = [fewest_runs(alpha, one_sided=sided) for sided in (True, False)]
    asked = "one-sided" if one_sided else "two-sided"
    least = f"at least {fewest[0]} one-sided / {fewest[1]} two-sided"
    return f"{counted(n_runs, 'seeds')}, {least} ({asked} was asked)"


def interval_words(found: Interval) -> str:
    r"""Return a 95 % interval of a difference in words, in points.

    >>> ascii(interval_words(Interval(value=0.5, low=0.25, high=0.75, n=8)))
    "'95 % interval +25.0\\u2026+75.0'"
    """
    if found.low is None or found.high is None:
        return "95 % interval missing"
    return f"95 % interval {signed(found.low, 100)}\u2026{signed(found.high, 100)}"


def recipe_sentence(
    difference: Interval,
    middle: Interval,
    p: float,
    plan: KnownPlan,
    *,
    one_sided: bool,
    n_runs: int,
    n_clusters: int,
    verdict: Verdict,
    detail: Detail | None,
    detectable_points: float | None,
) -> str:
    """Return the one sentence about a recipe: verb, mean gain with interval, IQM, p, counts, and how far it
    reaches."""
    verbs = {"IMPROVED": "improves", "IMPROVED WITH REGRESSIONS": "improves", "REGRESSED": "worsens"}
    what = f"held-out {plan.primary}"
    if verdict in verbs:
        opening = f"The recipe {verbs[verdict]} {what}"
    elif detail == "equivalent":
        opening = f"No evidence that the recipe changes {what} by as much as matters (equivalent)"
    else:
        known = detectable_points is not None
        reach = f"; smallest detectable effect {detectable_points:.1f} points" if known else ""
        aim = "improves" if one_sided else "changes"
        opening = f"No evidence that the recipe {aim} {what} (inconclusive{reach})"
    sided = "one-sided " if one_sided else ""
    counts = f"{counted(n_runs, 'seeds')}, {counted(n_clusters, plan.cluster_name)}, K = {plan.draws}"
    both_ways = "two-sided " if one_sided else ""
    iqm = f"IQM {signed(middle.value, 100)}, {interval_words(middle)}"
    numbers = f"{both_ways}{interval_words(difference)}; {iqm}; {sided}{p_text(p)}; {counts}"
    return f"{opening}: {signed(difference.value, 100)} points ({numbers}). One base, one held-out suite."
