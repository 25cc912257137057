"""Alarms: a flag that a task tolerates only so often, checked on every batch and suite."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.records import Alarm, Episode, RuleSummary, TrainAlarm
from assay.tasks.protocol import Task


def alarms(task: Task, episodes: Sequence[Episode]) -> list[Alarm]:
    """Return the alarms that these episodes raise; a flag whose question arises in none of them raises
    none."""
    found = []
    for flag, threshold in task.alarms.items():
        known = [value for value in (episode.flags.get(flag) for episode in episodes) if value is not None]
        if known and sum(known) / len(known) > threshold:
            found.append(Alarm(flag=flag, rate=sum(known) / len(known), threshold=threshold, n=len(known)))
    return found


def alarm_said(alarm: Alarm, where: str) -> str:
    """Return an alarm as one sentence.

    >>> alarm_said(Alarm(flag="empty_fields", rate=0.125, threshold=0.05, n=64), "held-out episodes after training")
    'ALARM empty_fields: 12.5 % of 64 held-out episodes after training, tolerated are 5 %.'
    """
    return (
        f"ALARM {alarm.flag}: {100 * alarm.rate:.1f} % of {alarm.n} {where}, tolerated are"
        f" {100 * alarm.threshold:g} %."
    )


def training_alarm_said(found: TrainAlarm) -> str:
    """Return what rang during a training as one sentence: how often, since when, and at its worst.

    >>> worst = Alarm(flag="empty_fields", rate=0.25, threshold=0.05, n=64)
    >>> training_alarm_said(TrainAlarm(source="batch", first_step=3, times=2, worst_step=9, worst=worst))
    'ALARM empty_fields in training: raised by 2 x batch, first at step 3; at worst 25.0 % of 64 at step 9, tolerated are 5 %.'
    """
    worst = found.worst
    return (
        f"ALARM {worst.flag} in training: raised by {found.times} x {found.source}, first at step"
        f" {found.first_step}; at worst {100 * worst.rate:.1f} % of {worst.n} at step {found.worst_step},"
        f" tolerated are {100 * worst.threshold:g} %."
    )


def rule_said(found: RuleSummary) -> str:
    """Return what a rule of training health came to as one sentence.

    >>> rule_said(RuleSummary(rule="entropy", level="RED", first_step=40, worst_step=90, times=2))
    'ALARM entropy in training: RED from step 90, raised 2 times since step 40 (health.jsonl says more).'
    """
    times = "once" if found.times == 1 else f"{found.times} times"
    return (
        f"ALARM {found.rule} in training: {found.level} from step {found.worst_step}, raised {times} "
        f"since step {found.first_step} (health.jsonl says more)."
    )
