"""What a reader must be warned of that no comparison of two arms shows; nothing where all is
well. A RED alarm bars the claim until somebody answers for it with a reason, which is then quoted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from assay.core.records import Episode, HealthSummary, RuleSummary, TrainFacts
from assay.rollout.dataset.audit_records import Overlap
from assay.rollout.dataset.external import WholeFacts
from assay.rollout.dataset.wording import essential_words
from assay.rollout.evaluation.measures import is_rate
from assay.rollout.tasks.rivals import GREEDY
from assay.verdict.evidence.claim.differences import Comparison, GainSplit
from assay.verdict.evidence.claim.effect import Effect
from assay.verdict.evidence.claim.first_lines import costs_of
from assay.verdict.evidence.claim.plan import ClaimPlan
from assay.verdict.evidence.claim.random_reward import red_rules
from assay.verdict.evidence.claim.rivals import Rival
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.statistics.report import Report

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
MOSTLY = 0.5  # of the steps of a training
OFTEN_CUT = 0.1  # of the completions of an arm, cut off or empty
MORE = 1.2  # times the tokens, or the turns, of the base
ONE_ANSWER, FEWEST_ITEMS = 0.9, 20  # share of all answers, and of how many items one can be said
SHARPENED = 0.5  # of a gain that greedy decoding brings without training


def of_training(trained: TrainFacts, reward_std: Sequence[float] | Floats | None) -> list[Remark]:
    """Return what weakens a training: that it chose the untrained policy, went on on another machine, so that
    nobody can repeat its bytes, or had nothing to learn from in most of its steps.

    Args:
        trained: Its facts.
        reward_std: By step; one without a value is not counted. None: not known.
    """
    notes = [] if trained.chosen_step else [remark("untrained")]
    if trained.other_machines:
        notes.append(remark("other_machines", times=trained.other_machines))
    known = [value for value in ([] if reward_std is None else reward_std) if np.isfinite(value)]
    share = sum(value == 0.0 for value in known) / len(known) if known else 0.0
    return [*notes, remark("no_spread", share=share, n=len(known))] if share > MOSTLY else notes


def control_health(found: HealthSummary | None) -> list[Remark]:
    """Return which alarms of a control training were RED, by their rules; that nobody watched, where none
    did."""
    if found is None:
        return [remark("control_unwatched")]
    red = red_rules(found)
    return [remark("control_red", rules=red)] if red else []


def cut_off(before: Report, after: Report) -> list[Remark]:
    """Return how many completions hit the limit of tokens, if more than a tenth did in either arm."""
    shares = [report.measures["truncated_rate"].value or 0.0 for report in (before, after)]
    return [remark("cut_off", before=shares[0], after=shares[1])] if max(shares) > OFTEN_CUT else []


def empty(before: Iterable[Episode], after: Iterable[Episode]) -> list[Remark]:
    """Return how many completions are empty, if a tenth or more are in either arm: a server may have kept
    what was answered."""
    arms = []
    for episodes, name in ((before, "before"), (after, "after")):
        turns = [turn for episode in episodes for turn in episode.turns]
        n = sum(not turn.completion.strip() for turn in turns)
        if n and n >= OFTEN_CUT * len(turns):
            arms.append({"arm": name, "n": n, "of": len(turns)})
    return [remark("empty", arms=arms)] if arms else []


def more_computation(before: Sequence[Episode], after: Sequence[Episode]) -> list[Remark]:
    """Return how many times as many tokens and turns an episode takes, from a fifth more on."""
    told = zip(("more_tokens", "more_turns"), costs_of(before), costs_of(after), strict=True)
    return [
        remark(code, before=round(old, 10), after=round(new, 10))
        for code, old, new in told
        if old and new >= MORE * old
    ]


def at_bounds(primary: Comparison) -> list[Remark]:
    """Return which arms have exactly nothing, or everything, of the primary metric: what was measured may be
    a template or a grader."""
    rates = {"before": primary.before, "after": primary.after}
    return [
        remark("arm_at_bound", arm=arm, share=rate, n=primary.difference.n)
        for arm, rate in rates.items()
        if rate in (0.0, 1.0)
    ]


def reward_fell(effect: Effect, secondary: Mapping[str, Comparison]) -> list[Remark]:
    """Return that rewards fell while the primary metric got better, where nothing tests rewards."""
    found = secondary.get("mean_reward")
    if effect.direction != "better" or found is None or found.p is not None:
        return []
    end = found.difference.value if found.difference.high is None else found.difference.high
    if end is None or end >= 0:
        return []
    return [remark("reward_fell", before=found.before, after=found.after, difference=found.difference)]


def answer_of(episode: Episode) -> str:
    """Return the last completion of an episode; "" where none is known. Of results that were made elsewhere
    the row has a digest of it."""
    found = getattr(episode, "completion", None)
    if found is None:
        return episode.turns[-1].completion.strip() if episode.turns else ""
    return str(found)


def _plain(answer: str) -> str:
    """Return an answer by its words, whatever its case, politeness and punctuation; one without any as it
    is."""
    return " ".join(essential_words(answer)) or answer


def one_answer(effect: Effect, before: Sequence[Episode], after: Sequence[Episode]) -> list[Remark]:
    """Return that what is not shown to be worse gives the same answer to nearly all items, and did not
    before: a constant answer would do as well, whether or not the plan has one among its rivals."""
    if effect.direction == "worse":
        return []
    shares = []
    for arm in (before, after):
        said = Counter(filter(None, map(_plain, map(answer_of, arm))))
        shares.append(said.most_common(1)[0][1] / len(arm) if said else 0.0)
    items = {each.item_id for each in after}
    if shares[1] < ONE_ANSWER or shares[0] >= ONE_ANSWER or len(items) < FEWEST_ITEMS:
        return []
    return [remark("one_answer", before=round(shares[0], 10), after=round(shares[1], 10))]


def hangs_on_worst_cluster(
    p: float | None, worst_case: float | None, plan: ClaimPlan, level: float
) -> Remark | None:
    """Return that what p shows it would not show if a cluster that nobody saw could lose everything."""
    if p is None or worst_case is None or not p <= level < worst_case:
        return None
    told = {"clusters": plan.cluster_name, "worst": plan.worst_cluster, "p": worst_case}
    return remark("hangs_on_worst_cluster", level=level, **told)


def not_tested(secondary: Mapping[str, Comparison]) -> Remark | None:
    """Return which measures of the plan have no bounds that would let them be tested."""
    names = [name for name, each in secondary.items() if each.p is None and not is_rate(name)]
    return remark("not_tested", measures=names) if names else None


def form_only(split: GainSplit) -> Remark | None:
    """Return that a gain comes from answers that parse, where being right more often is not shown."""
    parse, correct = split.parse_part, split.correct_part
    if parse.low is None or parse.low <= 0 or (correct.low is not None and correct.low > 0):
        return None
    return remark("form_only", parsed=parse, right=correct)


def sharpening(effect: Effect, rivals: Mapping[str, Rival], gained: Comparison) -> Remark | None:
    """Return how much of a gain the base shows without chance in its decoding, if that is half of it or more,
    and whether the trained policy is told apart from it: nothing new need be learned for that."""
    greedy = rivals.get(GREEDY)
    if effect.direction != "better" or greedy is None:
        return None
    told = dict[str, float | None](greedy=None, sampled=None, trained=None)
    if greedy.rate is not None and gained.before is not None and gained.after is not None:
        alone, sampled, trained = 100 * greedy.rate, 100 * gained.before, 100 * gained.after
        if (alone - sampled) / (trained - sampled) >= SHARPENED:
            told = {"greedy": alone, "sampled": sampled, "trained": trained}
    gap = greedy.difference if greedy.beaten is False else None
    if told["greedy"] is None and gap is None:
        return None
    return remark("sharpening", **told, difference=gap)


def no_gold(episodes: Iterable[Episode], flags: Sequence[str]) -> list[Remark]:
    """Return how many items have no gold, for a task that knows exact answers."""
    if "exact" not in flags:
        return []
    has_gold = {episode.item_id: episode.flags.get("exact") is not None for episode in episodes}
    without = len(has_gold) - sum(has_gold.values())
    return [remark("no_gold", n=without, of=len(has_gold))] if without else []


def of_openings(here: int, elsewhere: int, *, known: bool, whole: bool) -> list[tuple[str, Remark]]:
    """Return what there is to say of other policies that saw held-out records of a claim, as (warning or
    note, what).

    Base, chosen checkpoint and controls are not counted: the protocol knows them.

    Args:
        here: Other policies that were tried in this working copy.
        elsewhere: Other policies that only the ledger knows, which came with the project: its makers', or a
            colleague's.
        known: Whether any note was kept.
        whole: Whether the ledger stands, and holds what the claim itself opened.

    >>> [(kind, each.code) for kind, each in of_openings(3, 2, known=True, whole=False)]
    [('warning', 'ledger_not_whole'), ('warning', 'opened_for_others'), ('note', 'opened_elsewhere')]
    """
    if not known:
        return [("warning", remark("openings_not_known"))]
    found = [] if whole else [("warning", remark("ledger_not_whole"))]
    if here:
        found.append(("warning", remark("opened_for_others", here=here)))
    if elsewhere:
        found.append(("note", remark("opened_elsewhere", here=here, elsewhere=elsewhere)))
    return found


def answer_for(
    rules: Sequence[RuleSummary], acknowledged: Mapping[str, str]
) -> tuple[list[Remark], list[Remark]]:
    """Return what bars the claim, and what to warn of.

    Args:
        rules: Those that left GREEN during the training.
        acknowledged: Reasons by rule.
    """
    red = {found.rule: found for found in rules if found.level == "RED"}
    bars = [remark("alarm_unanswered", alarm=each) for rule, each in red.items() if rule not in acknowledged]
    notes = [
        remark("alarm_acknowledged", alarm=each, reason=acknowledged[rule])
        for rule, each in red.items()
        if rule in acknowledged
    ]
    notes += [
        remark("alarm_did_not_ring", rule=rule, reason=reason)
        for rule, reason in acknowledged.items()
        if rule not in red
    ]
    return bars, notes


def of_secondary(bars: Sequence[Overlap], warned: Sequence[Overlap]) -> list[Remark]:
    """Return what a secondary suite shares with train, as warnings: it says that it is not as new as it
    seems, and bars nothing."""
    leaks = [remark("of_secondary_suite", found=remark("leak", overlap=each)) for each in bars]
    return leaks + [remark("contamination", overlap=each) for each in warned]


def of_external(how: str, named: Sequence[str]) -> list[Remark]:
    """Return what a reader must be warned of.

    Args:
        how: How it was trained, in the words of whoever brought it.
        named: Files that it is said to have been trained on.
    """
    searched = remark("searched_data", files=named) if named else remark("no_data_named")
    return [
        remark("trained_elsewhere"),
        remark("plan_before_measuring"),
        remark("how_trained", how=how),
        searched,
    ]


def other_openings(before: Sequence[Episode], after: Sequence[Episode]) -> tuple[int, int]:
    """Return how many items two arms were shown otherwise, in tokens, and how many both were shown."""
    first, second = (
        {each.item_id: each.turns[0].prompt_digest for each in episodes if each.turns}
        for episodes in (before, after)
    )
    shared = first.keys() & second.keys()
    return sum(first[item] != second[item] for item in shared), len(shared)


def of_whole(whole: WholeFacts, other: int, shared: int) -> list[Remark]:
    """Return what a reader must be warned of where a whole model was brought.

    Args:
        whole: What it is beside the base.
        other: Items that the two were shown otherwise, in tokens.
        shared: Items that both were shown.
    """
    code = "whole_like_base"
    if whole.architecture != whole.base_architecture:
        code = "whole_not_of_base"
    elif whole.parameters != whole.base_parameters:
        code = "whole_of_other_size"
    found = [remark(code, model=whole)]
    if whole.other_tokenizer:
        found.append(remark("other_tokenizer"))
    if whole.n_other_prompts:
        found.append(remark("other_template", n=whole.n_other_prompts, of=whole.n_prompts))
    return [*found, remark("other_prompt_tokens", n=other, of=shared)] if other else found
