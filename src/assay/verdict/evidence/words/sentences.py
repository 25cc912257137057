"""A claim in English: its sentence, and what its controls and further suites show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from assay.core.counting import counted
from assay.verdict.evidence.claim.aa_test import Control
from assay.verdict.evidence.claim.effect import Effect, effect_words
from assay.verdict.evidence.claim.left_out import LeaveOneOut
from assay.verdict.evidence.claim.openings import Openings
from assay.verdict.evidence.claim.plan import ClaimPlan
from assay.verdict.evidence.claim.random_reward import RandomRewardControl
from assay.verdict.evidence.claim.rivals import KINDS, Rival
from assay.verdict.evidence.claim.secondary_suites import SecondarySuite, direction_said
from assay.verdict.evidence.claim.verdict import DRAFT
from assay.verdict.evidence.escape import plain_name
from assay.verdict.evidence.formatting import difference_text, ordinal, p_text, percent, signed, split_word
from assay.verdict.evidence.words.remarks import Remark, remark, say_all

if TYPE_CHECKING:
    from assay.verdict.evidence.claim.claim import Claim
    from assay.verdict.evidence.recipe.records import RecipeClaim


# What of results that were made elsewhere is nearly always so.
ON_TRUST = ("plan_afterwards", "not_known_alike", "control_not_run")


def heading(claim: Claim) -> str:
    """Return the verdict with direction and size."""
    if claim.effect is None or claim.verdict == "NOT EVALUABLE":
        return claim.verdict
    return f"{claim.verdict} ({effect_words(claim.effect.direction, claim.effect.size)})"


def warned(claim: Claim) -> list[str]:
    """Return the warnings as texts; of results that were made elsewhere in one what is taken on trust of
    nearly all such results."""
    if not claim.made_elsewhere:
        return [*map(str, claim.warnings)]
    trusted = " ".join(str(each) for each in claim.warnings if each.code in ON_TRUST)
    return [str(each) for each in claim.warnings if each.code not in ON_TRUST] + [trusted] * bool(trusted)


def sentence_of(claim: Claim) -> str:
    """Return what a claim says: metric, both arms, difference with interval, p, counts, what further there is
    to say, and its reach; of one that may not be made only what bars it, without any number."""
    split = "" if claim.made_elsewhere else f"{split_word(claim.split)} "
    if claim.verdict == "NOT EVALUABLE":
        kinds = "; ".join(dict.fromkeys(each.kind for each in claim.reasons))
        return _begun(claim, f"{split}result not evaluable: {kinds}.")
    counts = (
        f"{counted(claim.n_clusters, claim.plan.cluster_name)}, {counted(claim.n_items, 'items')}, K ="
        f" {claim.draws}"
    )
    arms = " \u2192 ".join(percent(each.value if each else None) for each in (claim.before, claim.after))
    if claim.verdict == DRAFT:
        return (
            f"{split}{claim.plan.primary} {arms} % ({counts}). No verdict: only the records that choose the"
            " checkpoint were played, and no held-out record was opened (evaluation.open: false)."
        )
    gap = claim.difference
    change = 0.0 if gap is None or gap.value is None else gap.value
    verb = "rose" if change > 0 else "fell" if change < 0 else "stayed"
    if claim.p is None:
        measured = "descriptive only, no interval"
    elif gap is None or gap.low is None:
        measured = f"95 % interval missing, {p_text(claim.p)}"
    else:
        measured = f"95 % interval {signed(gap.low, 100)}\u2026{signed(gap.high, 100)}, {p_text(claim.p)}"
    gained = signed(None if gap is None else gap.value, 100)
    text = f"{split}{claim.plan.primary} {verb} {arms} %: {gained} points ({measured}; {counts})."
    higher = claim.plan.direction == "higher"
    further = (
        beware_said(claim),
        size_said(claim.effect, claim.smallest_detectable_points, higher=higher)
        if claim.effect is not None and claim.p is not None
        else "",
        assumed(claim),
        level_said(claim),
        rivals_said(claim.rivals, higher=higher),
    )
    return " ".join([_begun(claim, text), *filter(None, further), _reach(claim)])


def beware_said(claim: Claim | RecipeClaim) -> str:
    """Return what must be known at once of those that the reasons and warnings have a headline for; "" where
    none has."""
    kinds = dict.fromkeys(filter(None, (each.kind for each in (*claim.reasons, *claim.warnings))))
    gain = claim.effect is not None and claim.effect.direction == "better"
    return f"{'But' if gain else 'Also'}: {'; '.join(kinds)}." if kinds else ""


def first_lines_said(found: Sequence[Remark]) -> str:
    """Return what to read first as one line of sentences; "" where there is nothing."""
    told = [str(each) for each in found]
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in told)


def level_said(claim: Claim) -> str:
    """Return at which level a claim was tested and why, with the interval at that level; "" where it is the
    plan's own."""
    if claim.level == claim.plan.alpha:
        return ""
    opened, gap, looks = claim.opened, claim.difference_at_level, claim.plan.looks
    text = f"Tested at the level {claim.level:.2g}"
    if opened is not None and opened.place is not None and (looks or opened.place > 1):
        which = f"of {counted(looks, 'policies')}" if looks else "policy"
        text = f"It is the {ordinal(opened.place)} {which} on these items, so {text[0].lower()}{text[1:]}"
    text += f" (one in {round(1 / claim.level):,} by luck)"
    if gap is None or gap.low is None:
        return f"{text}."
    return f"{text}, where the interval is {signed(gap.low, 100)}\u2026{signed(gap.high, 100)}."


def _begun(claim: Claim, text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" if claim.made_elsewhere else text


def assumed(claim: Claim) -> str:
    """Return what p takes for granted of clusters that nobody saw; "" where it takes nothing."""
    if claim.p_worst_case is None:
        return ""
    plan, p = claim.plan, claim.p_worst_case
    return str(remark("unless_cluster_loses", clusters=plan.cluster_name, worst=plan.worst_cluster, p=p))


def _reach(claim: Claim) -> str:
    """Return what a claim is about, and of what was made elsewhere how it was judged."""
    if not claim.made_elsewhere:
        n_runs = len(claim.training_seeds)
        runs = {0: "Trained elsewhere", 1: "One training run"}.get(n_runs, f"{n_runs} training runs")
        sft = next((each.values for each in claim.warnings if each.code == "base_fine_tuned"), None)
        base = "" if sft is None else f" ({sft['model']} + SFT on {counted(int(str(sft['rows'])), 'rows')})"
        return f"{runs}; this checkpoint against this base{base}."
    made = next((each.values["made"] for each in claim.warnings if each.code == "planned"), None)
    how = "judged afterwards" if made is None else f"judged by a plan of {made}"
    brought = ", ".join(sorted(claim.plan.rivals))
    rivals = f"baselines were brought by whoever judged: {brought}" if brought else "no baselines were given"
    return f"Results made elsewhere and {how}; {rivals}."


def size_said(effect: Effect, detectable: float | None, *, higher: bool) -> str:
    """Return what is shown of the size of a change, as one sentence.

    Args:
        effect: What is shown.
        detectable: The change that would have been found with power 0.8, points.
        higher: Whether more is better.
    """
    fall, rise = (f"{100 * margin:.3g}" for margin in (effect.fall_that_matters, effect.rise_that_matters))
    margin = f"{rise if (effect.direction == 'better') == higher else fall} points that matter"
    if effect.direction == "not shown":
        if effect.size == "equivalent":
            both = f"{fall} points down or {rise} up" if fall != rise else f"{rise} points"
            return f"No evidence of a change; a change of {both} is excluded (equivalent)."
        reach = "" if detectable is None else f" (smallest detectable effect {detectable:.1f} points)"
        return f"No evidence of a change{reach}."
    return {
        "matters": f"The change exceeds the {margin}.",
        "less than matters": f"The change is smaller than the {margin}.",
    }.get(effect.size, f"It is not shown whether the change reaches the {margin}.")


def rivals_said(found: Mapping[str, Rival], *, higher: bool) -> str:
    """Return how the trained policy stands to the strongest rival of each kind, by how many points; ""
    without rivals."""
    groups: dict[str, list[str]] = {
        "It beats": [],
        "It is beaten by": [],
        "It is not shown to differ from": [],
    }
    for kind in KINDS:
        own = {name: each for name, each in found.items() if each.kind == kind}
        if not own:
            continue
        name = min(own, key=lambda each: (own[each].difference.value or 0.0) * (1 if higher else -1))
        each = own[name]
        verb = (
            "It beats"
            if each.beaten
            else "It is beaten by"
            if each.beaten_by
            else "It is not shown to differ from"
        )
        of_base = kind == "instead of training"
        called = "the untrained base" if of_base else name
        told = [name] if of_base else []
        if len(own) > 1:
            told.append(f"best of {len(own)}" + ("" if of_base else f" {kind} players"))
        told.append(difference_text(each.difference, rate=True))
        groups[verb].append(f"{called} ({', '.join(told)})")
    return " ".join(f"{verb} {'; '.join(names)}." for verb, names in groups.items() if names)


def controls_said(claim: Claim) -> str:
    """Return what the controls showed, how often the records were opened, what leaving a part out does, and
    what the secondary suites show, a sentence each; of a draft nothing, since nothing is claimed."""
    if claim.verdict == DRAFT:
        return ""
    told = (
        control_said(claim.control),
        random_reward_said(claim.random_reward),
        opening_said(claim.opened, claim.level, claim.plan),
        left_out_said(claim.leave_one_out, claim.plan.cluster_name),
        secondary_said(claim.secondary_suites, claim.plan.cluster_name),
    )
    return f"Controls. {' '.join(filter(None, told))}"


def control_said(control: Control | None) -> str:
    """Return the control as one sentence.

    >>> control_said(None)
    'Base against base: not run.'
    """
    if control is None or control.passed is None:
        return (
            "Base against base: not run."
            if control is None
            else f"Base against base: not run ({control.reason})."
        )
    gap = difference_text(control.difference, rate=True)
    items = "" if control.difference is None else f", {counted(control.difference.n, 'items')}"
    return (
        f"Base against base: {control.verdict}, {gap} points, {p_text(control.p)} ({control.kind}, K ="
        f" {control.draws} per side{items}; a difference at p <= {control.level:g} would bar the claim)."
    )


def _alarms_said(control: RandomRewardControl) -> str:
    if control.red is None:
        return ""
    red = f" RED in that training: {', '.join(control.red)}." if control.red else ""
    return red + (f" Not measured in it: {', '.join(control.unmeasured)}." if control.unmeasured else "")


def random_reward_said(control: RandomRewardControl | None) -> str:
    """Return the control as one sentence for a report.

    >>> random_reward_said(None)
    'Random-reward arm: not run.'
    """
    if control is None:
        return "Random-reward arm: not run."
    if not control.comparable:
        return f"Random-reward arm: NOT EVALUABLE ({say_all(control.reason or ())})."
    found = "equivalent to" if control.size == "equivalent" else "not shown to differ from"
    if control.direction in ("better", "worse"):
        found = f"{control.direction} than"
    steps = "" if control.share == 1 else f" ({100 * control.share:.0f} % of the steps)"
    if control.collapsed:
        return (
            f"Random-reward arm{steps}: it collapsed ({say_all(control.collapsed)}), and being ahead of it"
            f" shows nothing.{_alarms_said(control)}"
        )
    return (
        f"Random-reward arm{steps}: {found} the base, {difference_text(control.difference, rate=True)}"
        f" points, {p_text(control.p)}; the training itself is ahead by"
        f" {difference_text(control.ahead, rate=True)} points, {p_text(control.ahead_p)}."
        f"{_alarms_said(control)}"
    )


def opening_said(opened: Openings | None, level: float, plan: ClaimPlan) -> str:
    """Return how often the records had been opened, as one sentence."""
    if opened is None or opened.place is None:
        return "Openings: how often the held-out records were opened is not known."
    if opened.place == 1:
        said = "the first try at these held-out records"
    else:
        before = counted(opened.policies_before, "tries")
        said = f"{before} at these held-out records came before this one, which is number {opened.place}"
    planned = "" if plan.looks is None else f" ({counted(plan.looks, 'looks')} were planned)"
    return f"Openings: {said}{planned}; tested at the level {level:.2g} of {plan.alpha:g}."


def left_out_said(found: LeaveOneOut | None, cluster_name: str) -> str:
    """Return it as a sentence, "" where there is nothing to say."""
    if found is None:
        return ""
    one, other = (
        f"{signed(each.difference, 100)} (without {plain_name(each.part)})"
        for each in (found.smallest, found.largest)
    )
    strata = f" or {found.n_strata} strata" if found.n_strata else ""
    ends = {
        True: ", always on the same side of 0",
        False: ", and for at least one of them 0 can no longer be excluded",
        None: "",
    }
    return (
        f"Without any one of {found.n_clusters} {cluster_name}{strata}, the difference ranges from {one} to"
        f" {other} points{ends[found.holds]}."
    )


def secondary_said(found: Mapping[str, SecondarySuite], cluster_name: str) -> str:
    """Return what the secondary suites show, as sentences; "" without any."""
    if not found:
        return ""
    told = [
        f"{name} {percent(each.before)} \u2192 {percent(each.after)} %,"
        f" {difference_text(each.difference, rate=True)} points ({counted(each.n_clusters, cluster_name)};"
        f" {p_text(each.p_holm)}; {direction_said(each)}{_beside(each)})"
        for name, each in found.items()
    ]
    return f"Secondary suites (Holm over {len(found)}): {'; '.join(told)}."


def _beside(found: SecondarySuite) -> str:
    """Return the best player that needs no skill, where it does better than the trained policy."""
    rate, after = found.best_trivial_rate, found.after
    if rate is None or after is None or rate < after:
        return ""
    return f"; {found.best_trivial}, which needs no skill, reaches {percent(rate)} %"
