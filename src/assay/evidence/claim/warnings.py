"""What a reader must be warned of that no comparison of two arms shows, one sentence each; None where all is
well. A RED alarm bars the claim until somebody answers for it with a reason, which is then quoted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from assay.core.counting import counted
from assay.core.records import Episode, HealthSummary, RuleSummary
from assay.dataset.external import WholeFacts
from assay.evaluation.alarms import rule_said
from assay.evaluation.measures import is_rate
from assay.evidence.claim.differences import Comparison, GainSplit
from assay.evidence.claim.effect import Effect
from assay.evidence.claim.random_reward import red_rules
from assay.evidence.claim.rivals import Rival
from assay.evidence.escape import visible
from assay.evidence.formatting import difference_text
from assay.statistics.report import Report
from assay.tasks.rivals import GREEDY

MOSTLY = 0.5  # of the steps of a training
OFTEN_CUT = 0.1  # of the completions of an arm, cut off or empty
MORE_TOKENS = 1.5  # times those of the base
SHARPENED = 0.5  # of a gain that greedy decoding brings without training


def untrained_said(chosen_step: int) -> str | None:
    """Return that the chosen checkpoint learned nothing.

    >>> untrained_said(0), untrained_said(25)
    ('Validation chose step 0: the adapter is the untrained one.', None)
    """
    return None if chosen_step else "Validation chose step 0: the adapter is the untrained one."


def clusters_said(n_items: int, n_clusters: int, cluster_name: str) -> str | None:
    """Return that less of the held-out work is independent than there are records, if so.

    >>> clusters_said(512, 512, "scenarios")
    >>> clusters_said(512, 8, "prompt groups")[:54]
    'The 512 held-out records are 8 independent prompt grou'
    """
    if n_clusters == n_items:
        return None
    independent = counted(n_clusters, f"independent {cluster_name}")
    return (
        f"The {counted(n_items, 'held-out records')} are {independent}: records of one family, and"
        " near-duplicates, count as one (dataset.near_duplicates)."
    )


def other_machines_said(times: int) -> str | None:
    """Return that a training went on on another machine, so that nobody can repeat its bytes.

    Args:
        times: How often it did.

    >>> other_machines_said(0), other_machines_said(1)[:81]
    (None, 'The training went on on another processor, or under other thread flags (1 time): ')
    """
    if not times:
        return None
    return (
        f"The training went on on another processor, or under other thread flags ({counted(times, 'times')}):"
        " its numbers stand, but on no machine will it give these bytes again."
    )


def control_health_said(found: HealthSummary | None) -> list[str]:
    """Return which alarms of a control training were RED, by their rules; that nobody watched, where none
    did.

    >>> control_health_said(None)
    ['The random-reward training was not watched: no alarm of it is known.']
    """
    if found is None:
        return ["The random-reward training was not watched: no alarm of it is known."]
    red = red_rules(found)
    return [f"RED in the random-reward training: {', '.join(red)}."] if red else []


def no_spread_said(
    reward_std: Sequence[float] | np.ndarray[tuple[int], np.dtype[np.float64]] | None,
) -> str | None:
    """Return in how many steps all rewards were equal, if in more than half; a step without a value is not
    counted.

    >>> no_spread_said([0.0, 0.0]).partition(":")[0], no_spread_said([0.0, 0.0, 0.3]).partition(":")[0]
    ('All rewards of each step were equal', 'In 67 % of 3 steps all rewards were equal')
    >>> no_spread_said([0.0, 0.3])
    """
    known = [value for value in ([] if reward_std is None else reward_std) if np.isfinite(value)]
    share = sum(value == 0.0 for value in known) / len(known) if known else 0.0
    if share <= MOSTLY:
        return None
    end = "no group held rewards that differ, so GRPO had nothing to learn from"
    if share == 1.0:
        return f"All rewards of each step were equal: {end}."
    return (
        f"In {min(99, round(100 * share))} % of {counted(len(known), 'steps')} all rewards were equal: {end}"
        " there."
    )


def cut_off_said(before: Report, after: Report) -> str | None:
    """Return how many completions hit the limit of tokens, if more than a tenth did in either arm."""
    shares = [
        (report.measures["truncated_rate"].value or 0.0, name)
        for report, name in ((before, "before"), (after, "after"))
    ]
    if max(shares)[0] <= OFTEN_CUT:
        return None
    arms = " and ".join(f"{100 * share:.1f} % of completions {name}" for share, name in shares)
    return f"{arms} were cut off at task.max_new_tokens."


def empty_said(before: Iterable[Episode], after: Iterable[Episode]) -> str | None:
    """Return how many completions are empty, if a tenth or more are in either arm: a server may have kept
    what was answered."""
    said = []
    for episodes, name in ((before, "before"), (after, "after")):
        turns = [turn for episode in episodes for turn in episode.turns]
        empty = sum(not turn.completion.strip() for turn in turns)
        if empty and empty >= OFTEN_CUT * len(turns):
            said.append(f"{empty} of {counted(len(turns), 'completions')} {name}")
    if not said:
        return None
    return f"{' and '.join(said)} are empty: success there says nothing of what was thought."


def more_tokens_said(found: Comparison) -> str | None:
    """Return how many times as many tokens the trained policy writes a completion, from half as many more
    on."""
    if not found.before or found.after is None or found.after < MORE_TOKENS * found.before:
        return None
    return (
        f"The trained policy writes {found.after / found.before:.1f} times as many tokens a completion"
        f" ({found.before:.1f} \u2192 {found.after:.1f}): what more computation brings is part of the gain."
    )


def untested_said(secondary: Mapping[str, Comparison]) -> str | None:
    """Return which measures of the plan have no bounds that would let them be tested."""
    names = [name for name, each in secondary.items() if each.p is None and not is_rate(name)]
    if not names:
        return None
    return (
        f"Not tested: {', '.join(names)}. The task does not say between what its rewards lie (reward_range),"
        " one of them lies elsewhere, or clusters are too few; without bounds no test holds its level."
    )


def form_only_said(split: GainSplit) -> str | None:
    """Return that a gain comes from answers that parse, where being right more often is not shown."""
    parse, correct = split.parse_part, split.correct_part
    if parse.low is None or parse.low <= 0 or (correct.low is not None and correct.low > 0):
        return None
    return (
        "The gain is one of form: answers that parse bring"
        f" {difference_text(parse, rate=True)} points, right ones {difference_text(correct, rate=True)}."
    )


def sharpening_said(effect: Effect, rivals: Mapping[str, Rival], gained: Comparison) -> str | None:
    """Return how much of a gain the base shows without chance in its decoding, if that is half of it or more,
    and whether the trained policy is told apart from it: nothing new need be learned for that."""
    greedy = rivals.get(GREEDY)
    if effect.direction != "better" or greedy is None:
        return None
    said, known = [], (greedy.rate, gained.before, gained.after)
    if None not in known:
        alone, sampled, trained = (100 * float(each or 0.0) for each in known)
        if (alone - sampled) / (trained - sampled) >= SHARPENED:
            said.append(
                f"Base greedy {alone:.1f} %, base sampled {sampled:.1f} %: of the gain of"
                f" {trained - sampled:+.1f} points {alone - sampled:+.1f} are reached by decoding greedily."
            )
    if greedy.beaten is False:
        said.append(
            "The base decoded greedily is not shown to be worse:"
            f" {difference_text(greedy.difference, rate=True)} points."
        )
    return f"{' '.join(said)} The gain may be sharpening: less chance, no new skill." if said else None


def no_gold_said(episodes: Iterable[Episode], flags: Sequence[str]) -> str | None:
    """Return how many items have no gold, for a task that knows exact answers."""
    if "exact" not in flags:
        return None
    has_gold = {episode.item_id: episode.flags.get("exact") is not None for episode in episodes}
    without = len(has_gold) - sum(has_gold.values())
    if not without:
        return None
    verb = "has" if without == 1 else "have"
    return (
        f"{without} of {counted(len(has_gold), 'items')} {verb} no gold: there a valid answer counts as a"
        " success."
    )


def openings_said(here: int, elsewhere: int, *, known: bool, whole: bool) -> list[tuple[str, str]]:
    """Return what there is to say of other policies that saw held-out records of a claim, as (warning or
    note, sentence).

    Base, chosen checkpoint and controls are not counted: the protocol knows them.

    Args:
        here: Other policies that were tried in this working copy.
        elsewhere: Other policies that only the ledger knows, which came with the project: its makers', or a
            colleague's.
        known: Whether any note was kept.
        whole: Whether the ledger stands, and holds what the claim itself opened.

    >>> openings_said(0, 0, known=True, whole=True)
    []
    >>> openings_said(0, 2, known=True, whole=True)[0][1][:97]
    'The held-out records were opened for 0 other policies in this working copy; the ledger that came '
    >>> [kind for kind, _ in openings_said(3, 2, known=True, whole=False)]
    ['warning', 'warning', 'note']
    """
    if not known:
        return [
            ("warning", "How often the held-out records were opened is not known: no ledger of it was kept.")
        ]
    found = []
    if not whole:
        text = (
            "The ledger of held-out openings is not whole: it lacks what this claim's own run noted. An older"
            " one was put back, or it was removed."
        )
        found.append(("warning", text))
    if here:
        found.append(
            (
                "warning",
                (
                    f"Held-out records of this claim were opened for {_others(here)} in this working copy;"
                    " the protocol knows base, chosen checkpoint and controls. If one of the others had a"
                    " part in choosing this one, p and interval promise too much."
                ),
            )
        )
    if elsewhere:
        found.append(
            (
                "note",
                (
                    f"The held-out records were opened for {_others(here)} in this working copy; the ledger"
                    f" that came with the project has {_others(elsewhere)} of whoever made or shared it."
                ),
            )
        )
    return found


def _others(n: int) -> str:
    return f"{n} other {'policy' if n == 1 else 'policies'}"


UNACKNOWLEDGED = "a red alarm of the training is not acknowledged"


def answer_for(
    rules: Sequence[RuleSummary], acknowledged: Mapping[str, str]
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return what bars the claim, as (kind, what was found), and what to warn of.

    Args:
        rules: Those that left GREEN during the training.
        acknowledged: Reasons by rule.
    """
    red = {found.rule: found for found in rules if found.level == "RED"}
    blockers, notes = [], []
    for rule, found in red.items():
        said = rule_said(found)
        if rule in acknowledged:
            notes.append(f"{said} Acknowledged: {_quoted(acknowledged[rule])}.")
        else:
            fix = f"look at it, then give a reason under evidence.acknowledged_alarms (rule: {rule})"
            blockers.append((UNACKNOWLEDGED, f"{UNACKNOWLEDGED}: {said} Fix: {fix}"))
    notes += [
        f"Acknowledged alarm {rule} did not ring RED: the reason {_quoted(reason)} answers for nothing."
        for rule, reason in acknowledged.items()
        if rule not in red
    ]
    return blockers, notes


def _quoted(reason: str) -> str:
    r"""Return a stranger's text on one line, in quotes that it cannot close.

    >>> ascii(_quoted("line\n\u201d fine\u202e")) == ascii("\u201cline '' fine\\u202e\u201d")
    True
    """
    text = visible(" ".join(reason.split())).replace("\u201c", "''").replace("\u201d", "''")
    return f"\u201c{text}\u201d"


NOT_KNOWN = (
    "Trained elsewhere. Not known: its steps and seeds, its rewards and alarms, how many others were trained"
    " and thrown away, and whether this checkpoint was chosen by the held-out items."
)
PLAN_AFTER = (
    "The plan was fixed before this policy was measured here; nothing shows that it was fixed before the"
    " policy was trained."
)
NO_DATA = "What it was trained on was not named: whether held-out records were among it is not known."


def external_said(how: str, named: Sequence[str]) -> tuple[str, ...]:
    """Return what a reader must be warned of, a sentence each.

    Args:
        how: How it was trained, in the words of whoever brought it.
        named: Files that it is said to have been trained on.
    """
    told = f"How it was trained, in the words of whoever brought it: {visible(' '.join(how.split()))}"
    searched = f"Searched for held-out records: {', '.join(named)}. What else it was trained on is not known."
    return NOT_KNOWN, PLAN_AFTER, told, searched if named else NO_DATA


def other_openings(before: Sequence[Episode], after: Sequence[Episode]) -> tuple[int, int]:
    """Return how many items two arms were shown otherwise, in tokens, and how many both were shown."""
    first, second = (
        {each.item_id: each.turns[0].prompt_digest for each in episodes if each.turns}
        for episodes in (before, after)
    )
    shared = first.keys() & second.keys()
    return sum(first[item] != second[item] for item in shared), len(shared)


def whole_said(whole: WholeFacts, other: int, shared: int) -> list[str]:
    """Return what a reader must be warned of where a whole model was brought, a sentence each.

    Args:
        whole: What it is beside the base.
        other: Items that the two were shown otherwise, in tokens.
        shared: Items that both were shown.
    """
    sizes = whole.said
    if whole.architecture != whole.base_architecture:
        told = (
            f"A whole model was brought, {sizes}, which is no fine-tune of this base"
            f" ({whole.base_architecture} with {whole.base_parameters:,}): what the two differ in is not"
            " training alone."
        )
    elif whole.parameters != whole.base_parameters:
        told = (
            f"A whole model was brought, {sizes}, of another size than the base ({whole.base_parameters:,}):"
            " what the two differ in is not training alone."
        )
    else:
        told = (
            f"A whole model was brought, {sizes}, as the base: that it was trained from this"
            " base is not shown."
        )
    found = [told]
    if whole.other_tokenizer:
        found.append(
            "Its tokenizer is another one than the base's: tokens, and limits in tokens, are not the same for"
            " both."
        )
    if whole.n_other_prompts:
        found.append(
            f"Its chat template writes {whole.n_other_prompts} of {counted(whole.n_prompts, 'prompts')} of"
            " train items otherwise than the base's: what a template does is part of the difference."
        )
    if other:
        found.append(
            f"The prompt of {other} of {counted(shared, 'items')} differs in tokens between before and after."
        )
    return found
