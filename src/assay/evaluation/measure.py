"""Measure one policy on one suite: play everything, then summarise; the same for base and trained policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from assay.evaluation.phases import Phases
from assay.evaluation.report import Report, report_on
from assay.evaluation.rollout import Progress, play
from assay.evaluation.suite import Play, Suite, units
from assay.policy.decoding import Decoding
from assay.policy.model import Policy
from assay.records import Episode
from assay.tasks.protocol import Task


class Kept(Protocol):
    """Where finished units outlast an interruption."""

    def get(self, index: int) -> list[Episode] | None:
        """Return the episodes of a unit, None if it has still to be played."""
        ...

    def put(self, index: int, episodes: Sequence[Episode]) -> None:
        """Keep the episodes of a unit that has just ended."""
        ...


def measure(
    policy: Policy, task: Task, suite: Suite, decoding: Decoding,
    *, batch_size: int, progress: Progress | None = None, phases: Phases | None = None, retries: int = 0,
    kept: Kept | None = None,
) -> tuple[list[Episode], Report]:  # fmt: skip
    """Play a suite with a policy and return the episodes and their report.

    What is kept and taken up again is a whole unit of `units`, never a part of one: which conversations are held
    together can change the last bits of a log-probability, and once in a while the token that hangs on it. As the
    partition into units is a function of suite and `batch_size`, and who is held together follows from the unit, an
    evaluation that was interrupted gives the very episodes of one that was not.

    Args:
        policy: Who plays.
        task: What is played, without shaping.
        suite: Which items, how many draws, which seeds.
        decoding: How tokens are chosen; temperature 0 is greedy.
        batch_size: Conversations held at once.
        progress: Told how many episodes have just ended, kept ones included.
        phases: Told where the time of playing goes; kept units take none.
        retries: How often a call to the environment that failed is made again.
        kept: Units of the same measurement that ended before an interruption; those that end now are added.

    Raises:
        EnvironmentLost: The environment failed for good; units that ended before are kept.
    """
    plays, episodes = suite.plays(), list[Episode]()
    for index, unit in enumerate(units(plays, batch_size)):
        found = None if kept is None else kept.get(index)
        if found is None or not _of(unit, found):
            played = play(
                policy, task, unit, decoding, batch_size=batch_size, progress=progress, phases=phases, retries=retries
            )
            found = [rollout.episode for rollout in played]
            if kept is not None:
                kept.put(index, found)
        elif progress is not None:
            progress(len(found))
        episodes += found
    return episodes, report_on(episodes, suite, policy.digest, "greedy" if decoding.temperature == 0 else "sampled")


def _of(unit: Sequence[Play], episodes: Sequence[Episode]) -> bool:
    """Return whether these are the episodes of these plays, in their order."""
    return [(e.item_id, e.draw, e.seed) for e in episodes] == [(p.item.id, p.draw, p.seed) for p in unit]
