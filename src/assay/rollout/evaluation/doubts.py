"""What makes a grade doubtful, whoever wrote the completions: golds that nobody can meet, and a reward that
says something else than success does."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from assay.core.counting import counted
from assay.core.records import Episode
from assay.rollout.dataset.suite import Play
from assay.rollout.tasks.protocol import Task, answer_key, reward_range

OFTEN = 0.1  # of the episodes
ROUNDING = 1e-9


def find_empty_golds(task: Task, plays: Sequence[Play], episodes: Sequence[Episode]) -> list[str]:
    """Return which gold fields say nothing in (nearly) all records, where episodes fail by them alone.

    Args:
        task: Graded.
        plays: Of the episodes, in their order.
        episodes: Graded.
    """
    if (key := answer_key(task)) is None:
        return []
    items = list({play.item.id: play.item for play in plays}.values())
    odd = [each.detail for each in key.survey(items) if each.kind == "empty_field"]
    names = {detail.partition(":")[0].removeprefix("gold.") for detail in odd}
    if not names:
        return []
    alone, graded = 0, set[str]()
    for play, episode in zip(plays, episodes, strict=True):
        action = episode.turns[-1].action if episode.turns else None
        if episode.success or action is None:
            continue
        fields = key.fields(play.item, action)
        graded |= {name.partition(".")[0] for name in fields}
        wrong = {name for name, found in fields.items() if not found.right}
        alone += bool(wrong) and wrong <= names
    if not alone:
        return []
    rest = sorted(graded - names)
    fix = (
        f"task.grade: [{', '.join(rest)}] in the preset of the task"
        if rest
        else "write golds, or leave them out"
    )
    failed = f"{alone} of {counted(len(episodes), 'episodes')} fail by that alone"
    return [f"{'; '.join(odd)}: {failed}. Fix: {fix}"]


def find_disagreement(task: Task, episodes: Sequence[Episode]) -> list[str]:
    """Return on how many episodes reward and success disagree, if on many.

    A failure that earns what a success usually does is one, and a success that earns no more than a failure
    usually does. Where nothing succeeds, a failure that earns the most that the task pays.
    """
    won = [each.reward for each in episodes if each.success]
    lost = [each.reward for each in episodes if not each.success]
    bounds = reward_range(task)
    if won:
        bar = statistics.median(won)
    elif bounds is not None:
        bar = bounds[1]
    else:
        return []
    paid = [each for each in episodes if not each.success and each.reward >= bar - ROUNDING]
    usual = statistics.median(lost) if lost else None
    unpaid = [
        each for each in episodes if each.success and usual is not None and each.reward <= usual + ROUNDING
    ]
    odd = [*paid, *unpaid]
    if len(odd) < max(2, OFTEN * len(episodes)):
        return []
    first = f"{odd[0].item_id}, draw {odd[0].draw}"
    return [
        f"reward and success disagree on {len(odd)} of {counted(len(episodes), 'episodes')}:"
        f" {len(paid)} failures are paid as successes are, {len(unpaid)} successes no better than failures"
        f" (first: item {first}). One of the two grades otherwise than you mean: see task.success"
    ]
