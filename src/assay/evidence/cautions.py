"""What a reader must be warned of that no comparison of two arms shows, one sentence each; None where all is well."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from assay.counting import counted
from assay.evaluation.report import Report
from assay.records import Episode

MOSTLY = 0.5  # of the steps of a training
OFTEN_CUT = 0.1  # of the completions of an arm


def untrained_said(chosen_step: int) -> str | None:
    """Return that the chosen checkpoint learned nothing.

    >>> untrained_said(0), untrained_said(25)
    ('Validation chose step 0: the adapter is the untrained one.', None)
    """
    return None if chosen_step else "Validation chose step 0: the adapter is the untrained one."


def no_spread_said(reward_std: Sequence[float] | np.ndarray[tuple[int], np.dtype[np.float64]] | None) -> str | None:
    """Return in how many steps all rewards were equal, if in more than half; a step without a value is not counted.

    >>> no_spread_said([0.0, 0.0])
    'All rewards of each step were equal: no group held rewards that differ, so GRPO had nothing to learn from.'
    >>> no_spread_said([0.0, 0.0, 0.3])
    'In 67 % of 3 steps all rewards were equal: no group held rewards that differ, so GRPO had nothing to learn from there.'
    >>> no_spread_said([0.0, 0.3])
    """
    known = [value for value in ([] if reward_std is None else reward_std) if np.isfinite(value)]
    share = sum(value == 0.0 for value in known) / len(known) if known else 0.0
    if share <= MOSTLY:
        return None
    end = "no group held rewards that differ, so GRPO had nothing to learn from"
    if share == 1.0:
        return f"All rewards of each step were equal: {end}."
    return f"In {min(99, round(100 * share))} % of {counted(len(known), 'steps')} all rewards were equal: {end} there."


def cut_off_said(before: Report, after: Report) -> str | None:
    """Return how many completions hit the limit of tokens, if more than a tenth did in either arm."""
    shares = [(report.measures["truncated_rate"].value or 0.0, name) for report, name in ((before, "before"), (after, "after"))]
    if max(shares)[0] <= OFTEN_CUT:
        return None
    arms = " and ".join(f"{100 * share:.1f} % of completions {name}" for share, name in shares)
    return f"{arms} were cut off at task.max_new_tokens."


def no_gold_said(episodes: Iterable[Episode], flags: Sequence[str]) -> str | None:
    """Return how many items have no gold, for a task that knows exact answers."""
    if "exact" not in flags:
        return None
    has_gold = {episode.item_id: episode.flags.get("exact") is not None for episode in episodes}
    without = len(has_gold) - sum(has_gold.values())
    if not without:
        return None
    verb = "has" if without == 1 else "have"
    return f"{without} of {counted(len(has_gold), 'items')} {verb} no gold: there a valid answer counts as a success."


def openings_said(opened: Collection[tuple[str, str]] | None, expected: Collection[str]) -> str | None:
    """Return that other policies than the two of the claim were tried on its held-out suite.

    Args:
        opened: (stage, policy digest) of each opening of this suite; None where no note was kept.
        expected: Digests of the base and of the chosen checkpoint.

    >>> openings_said([("pre_eval", "b"), ("post_eval", "t")], ["b", "t"]) is None
    True
    >>> openings_said([("pre_eval", "b"), ("post_eval", "t"), ("post_eval", "u"), ("control", "r")], ["b", "t"])[:81]
    'The held-out suite was opened for 3 policies; the protocol knows two, the base an'
    """
    if opened is None:
        return "How often the held-out suite was opened is not known: no log of it was kept."
    policies = {policy for stage, policy in opened if stage != "control"} | set(expected)
    if len(policies) <= len(set(expected)):
        return None
    return (
        f"The held-out suite was opened for {len(policies)} policies; the protocol knows two, the base and the chosen "
        "checkpoint. If one of the others had a part in choosing this one, p and interval promise too much."
    )
