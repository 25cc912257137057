"""Measure one policy on one suite: play everything, then summarise; the same for base and trained policy."""

from __future__ import annotations

from assay.evaluation.report import Report, report_on
from assay.evaluation.rollout import Progress, play
from assay.evaluation.suite import Suite
from assay.policy.decoding import Decoding
from assay.policy.model import Policy
from assay.records import Episode
from assay.tasks.protocol import Task


def measure(
    policy: Policy, task: Task, suite: Suite, decoding: Decoding, *, batch_size: int, progress: Progress | None = None
) -> tuple[list[Episode], Report]:
    """Play a suite with a policy and return the episodes and their report.

    Args:
        policy: Who plays.
        task: What is played, without shaping.
        suite: Which items, how many draws, which seeds.
        decoding: How tokens are chosen; temperature 0 is greedy.
        batch_size: Conversations held at once.
        progress: Told how many episodes have just ended.
    """
    played = play(policy, task, suite.plays(), decoding, batch_size=batch_size, progress=progress)
    episodes = [rollout.episode for rollout in played]
    return episodes, report_on(episodes, suite, policy.digest, "greedy" if decoding.temperature == 0 else "sampled")
