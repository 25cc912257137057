"""A recipe over training seeds in English: its verdict with a mark, its sentence, and that of a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.core.counting import counted
from assay.core.records import Interval
from assay.verdict.evidence.formatting import p_text, signed
from assay.verdict.evidence.words.remarks import Remark, say_all
from assay.verdict.evidence.words.sentences import beware_said

if TYPE_CHECKING:
    from assay.verdict.evidence.recipe.contest import Contest
    from assay.verdict.evidence.recipe.records import RecipeClaim

HAND_PICKED = "hand-picked seeds"
NOT_EVALUABLE = "NOT EVALUABLE"
MEANING = (
    "The interval is for other training seeds and other items of the same kind. All runs share one suite and"
    " one measurement of the base, so luck in either moves all of them alike; more seeds do not make that"
    " smaller, more items do. A verdict therefore needs three things: sign flips of whole runs (would other"
    " seeds do it, on these items?), the mean gain against its error from seeds and items together, and the"
    " test of bounded means over clusters of items, which takes nothing unseen for impossible. p is the"
    " largest of the three, and the interval holds those of all three. Every interval is two-sided at 95 %,"
    " also beside a one-sided p: one-sided, a recipe can be called better although its interval holds 0. The"
    " smallest detectable effect takes the errors found here for the true ones; with few seeds it is rough."
    " Probability and profile are bootstrapped over whole seeds and whole clusters of items, clusters within"
    " their stratum, what the runs share drawn with its item. Another base and data of another kind are not"
    " covered."
)


def mark(verdict: str, registration: Remark | None) -> str:
    """Return a verdict as it is shown, with a mark where the seeds are not those of the plan.

    >>> from assay.verdict.evidence.words.remarks import remark
    >>> [mark(word, remark("no_seeds_planned")) for word in ("IMPROVED", "NOT EVALUABLE")]
    ['IMPROVED (hand-picked seeds)', 'NOT EVALUABLE']
    >>> mark("IMPROVED", None)
    'IMPROVED'
    """
    return verdict if registration is None or verdict == NOT_EVALUABLE else f"{verdict} ({HAND_PICKED})"


def recipe_said(claim: RecipeClaim) -> str:
    """Return the one sentence about a recipe: verb, mean gain, p, counts, and how far it reaches; of one that
    is not evaluable why."""
    begun = _picked(claim.registration)
    if claim.verdict == NOT_EVALUABLE:
        return f"{claim.reason}. {begun}".rstrip()
    what, one_sided = f"held-out {claim.primary}", claim.sided == "one-sided"
    direction = None if claim.effect is None else claim.effect.direction
    if direction in ("better", "worse"):
        opening = f"The recipe {'improves' if direction == 'better' else 'worsens'} {what}"
    elif claim.effect is not None and claim.effect.size == "equivalent":
        opening = f"No evidence that the recipe changes {what} by as much as matters (equivalent)"
    else:
        detectable = claim.smallest_detectable_points
        reach = "" if detectable is None else f" (smallest detectable effect {detectable:.1f} points)"
        opening = f"No evidence that the recipe {'improves' if one_sided else 'changes'} {what}{reach}"
    sided, both_ways = ("one-sided ", "two-sided ") if one_sided else ("", "")
    clusters = counted(claim.n_clusters, claim.cluster_name)
    counts = f"{counted(len(claim.seeds), 'seeds')}, {clusters}, K = {claim.draws}"
    numbers = f"{both_ways}{_interval_said(claim.difference)}; {sided}{p_text(claim.p)}; {counts}"
    gained = signed(None if claim.difference is None else claim.difference.value, 100)
    no_skill = f"No skill shown: {claim.reason}." if claim.verdict == "NO SKILL SHOWN" else ""
    told = (f"{begun}{opening}: {gained} points ({numbers}).", no_skill, beware_said(claim))
    return " ".join([*filter(None, told), "One base, one held-out suite."])


def contest_said(pair: Contest) -> str:
    """Return the one sentence about two recipes: which is better and by how much, or why that is not told."""
    begun, said = _picked(pair.registration), f"{pair.a} against {pair.b}"
    if pair.verdict == NOT_EVALUABLE:
        return f"{said}: {say_all(pair.reasons)}."
    gap = signed(None if pair.difference is None else pair.difference.value, 100)
    corrected = "Holm " if pair.pairs > 1 else ""
    numbers = (
        f"{gap} points ({_interval_said(pair.difference)}; {corrected}{p_text(pair.p_holm)};"
        f" {counted(len(pair.seeds), 'seeds')} in common)"
    )
    found = {"A IS BETTER": f"{pair.a} is better", "B IS BETTER": f"{pair.b} is better"}
    text = f"{begun}{said}: {found.get(pair.verdict, 'no evidence of a difference')}: {numbers}."
    if pair.level < pair.alpha:
        text += f" Tested at the level {pair.level:.2g} of {pair.alpha:g}, which earlier openings left."
    return text


def _picked(registration: Remark | None) -> str:
    """Return how a sentence begins that is about other seeds than those of the plan."""
    return (
        ""
        if registration is None
        else f"{HAND_PICKED.capitalize()} ({registration}), which nothing corrects for. "
    )


def _interval_said(found: Interval | None) -> str:
    if found is None or found.low is None or found.high is None:
        return "95 % interval missing"
    return f"95 % interval {signed(found.low, 100)}\u2026{signed(found.high, 100)}"
