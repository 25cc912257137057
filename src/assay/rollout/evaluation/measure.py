"""Measure one policy on one suite: raw episodes, the same way for base and trained policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from assay.core.decoding import Decoding
from assay.core.records import Episode
from assay.rollout.dataset.suite import Play, units
from assay.rollout.evaluation.rollout import Bounding, Pace, Progress, play
from assay.rollout.policy.model import Policy
from assay.rollout.policy.processes import ALONE, Processes
from assay.rollout.tasks.protocol import Task


class KeptUnits(Protocol):
    """Where finished units outlast an interruption."""

    def get(self, index: int) -> list[Episode] | None:
        """Return the episodes of a unit, None if it has still to be played."""
        ...

    def put(self, index: int, episodes: Sequence[Episode]) -> None:
        """Keep the episodes of a unit that has just ended."""
        ...


def measure(
    policy: Policy,
    task: Task,
    plays: Sequence[Play],
    decoding: Decoding,
    *,
    pace: Pace,
    kept: KeptUnits | None = None,
    processes: Processes = ALONE,
    bound: Bounding | None = None,
) -> list[Episode]:
    """Play every play with a policy and return the episodes, in the order of the plays.

    What is kept and taken up again, or given to one of several processes, is a whole unit of `units`, never a
    part of one: which conversations are held together can change the last bits of a log-probability, and once
    in a while the token that hangs on it. As the partition into units is a function of plays and
    `batch_size`, and who is held together follows from the unit, an evaluation that was interrupted, or
    shared out, gives the very episodes of one that was not.

    Several processes play a unit each and then meet, so that none waits for another longer than for one unit;
    all of them return all of it.

    Args:
        policy: Who plays.
        task: What is played, without shaping.
        plays: Items with their draws and seeds, such as those of a suite.
        decoding: How tokens are chosen; temperature 0 is greedy.
        pace: How many at once, and who is told: of kept episodes too, which take no time.
        kept: Units of the same measurement that ended before an interruption, as the first process finds
            them; those that end now are added.
        processes: Everyone who measures this.
        bound: Says of an item what may be written; None: anything.

    Raises:
        EnvironmentLost: The environment failed for good; units that ended before are kept.
        SystemExit: It failed so in another process, which tells it.
    """
    parts, rank, n = units(plays, pace.batch_size), processes.rank, processes.world_size
    done: dict[int, list[Episode]] = {}
    for index, unit in enumerate(parts if rank == 0 else ()):
        found = None if kept is None else kept.get(index)
        if found is not None and _of(unit, found):
            done[index] = found
            _tell(pace.progress, len(found))
    done = processes.gather(done)[0]
    left = [index for index in range(len(parts)) if index not in done]
    for start in range(0, len(left), n):
        now = left[start : start + n]
        with processes.as_one():
            for index in now[rank : rank + 1]:
                rollouts = play(policy, task, parts[index], decoding, pace=pace, bound=bound)
                done[index] = [rollout.episode for rollout in rollouts]
                if kept is not None:
                    kept.put(index, done[index])
        everyone = processes.gather([(index, done[index]) for index in now[rank : rank + 1]])
        for index, found in (pair for part in everyone[:rank] + everyone[rank + 1 :] for pair in part):
            done[index] = found
            if kept is not None and rank == 0:  # on a disk of its own the other one may have kept it
                kept.put(index, found)
            _tell(pace.progress, len(found))
    return [episode for index in range(len(parts)) for episode in done[index]]


def _tell(progress: Progress | None, n: int) -> None:
    if progress is not None:
        progress(n)


def _of(unit: Sequence[Play], episodes: Sequence[Episode]) -> bool:
    """Return whether these are the episodes of these plays, in their order."""
    return [(e.item_id, e.draw, e.seed) for e in episodes] == [(p.item.id, p.draw, p.seed) for p in unit]
