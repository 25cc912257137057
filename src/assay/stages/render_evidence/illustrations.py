"""What was done in both arms, for tasks that show it: their stored episodes played again and looked at."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.records import Episode
from assay.rollout.dataset.suite import Suite
from assay.rollout.evaluation.replay import states_of
from assay.rollout.tasks.protocol import Task, illustrated
from assay.verdict.evidence.figures.illustrated_figures import Illustrations
from assay.verdict.evidence.tables.trajectories import Pair, Stepped

Arms = tuple[Sequence[Episode], Sequence[Episode]]


def illustrations(task: Task, suite: Suite, arms: Arms, replayed: Task) -> Illustrations | None:
    """Return marks and spending of every episode, in the order of the arms; None of a task without.

    `replayed` is the task as one that may have played them before.
    """
    if (offer := illustrated(task)) is None:
        return None
    plays = {(play.item.id, play.draw): play for play in suite.plays()}
    states = [[states_of(replayed, plays[e.item_id, e.draw], e) for e in arm] for arm in arms]
    marks = [[offer.mark(each) for each in own] for own in states]
    spent = [[offer.spent(each) for each in own] for own in states]
    return Illustrations(offer.plane, offer.marks, (marks[0], marks[1]), (spent[0], spent[1]))


def stepped(task: Task, suite: Suite, arms: Arms) -> list[Stepped]:
    """Return the pairs to step through, of episodes of several turns: the first item of the suite that only
    the trained policy solves, and the first that it fails; with something to find, if the task shows that."""
    before, after = ({(e.item_id, e.draw): e for e in arm} for arm in arms)
    offer, found = illustrated(task), list[Stepped]()
    plays = [play for play in suite.plays() if play.draw == 0]
    what = "" if offer is None else " with something to find"
    first = f", the first item of the suite{what} that"
    for kind, said, wanted in (
        ("fixed", f"{first} only the trained policy solves", (False, True)),
        ("failed", f"{first} the trained policy does not solve", (None, False)),
    ):
        for play in plays:
            pair = Pair(kind, before[play.item.id, 0], after[play.item.id, 0], said)
            right = pair.before.success if wanted[0] is not None else None, pair.after.success
            turns = sorted(len(each.turns) for each in (pair.before, pair.after))
            if right != wanted or turns[0] < 1 or turns[1] < 2:
                continue
            if offer is None:
                found.append(Stepped(pair))
                break
            own = [offer.pictures(states_of(task, play, each)) for each in (pair.before, pair.after)]
            if not own[0] or any(panel.right is not None for panel in own[0][0].panels):
                found.append(Stepped(pair, (own[0], own[1]) if own[0] else None))
                break
    return found
