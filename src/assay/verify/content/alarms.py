"""V3, alarms: those of a training ring again from what its log and its validations hold, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.core.counting import counted
from assay.core.records import Alarm, HealthEvent, HealthSummary, TrainAlarm
from assay.evidence.claim.plan import alarms_digest
from assay.pipeline.inputs import items_of
from assay.pipeline.live_log import quiet
from assay.tasks.protocol import Task
from assay.training.health.commonest import Honest
from assay.training.health.rules import Heard, Monitor
from assay.training.health.signals import NUMBERS, StepSignals
from assay.training.log.history import Raised, Watch
from assay.verify.checks import Seen
from assay.verify.unpacked import Unpacked

# What an alarm is besides the items it concerns, which follow from episodes that are not kept.
FIELDS = ("rule", "level", "step", "stop", "value", "threshold", "baseline", "first_step", "message")


class Relistened(Monitor):
    """A monitor that takes what answers have in common from the log, since the texts themselves are not in
    it."""

    logged = Heard()

    def relisten(self, row: Mapping[str, Any]) -> list[HealthEvent]:
        """Take one row of train_log.jsonl in and return the alarms whose level it changes."""
        self.logged = Heard.of_log(row)
        numbers = {name: row["signals"][name] for name in NUMBERS}
        return self.step(
            StepSignals(step=row["step"], item_ids=tuple(row["item_ids"]), skipped=row["skipped"], **numbers)
        )

    def _hear(self, signals: StepSignals) -> Heard:
        return self.logged


def scheduled(package: Unpacked) -> list[int]:
    """Return the steps at which a training validates: before the first, every so many, and the last."""
    interval, steps = package.project.params.validation.interval, package.project.params.train.steps
    return sorted({0, steps, *range(interval, steps + 1, interval)})


def rung_again(package: Unpacked) -> tuple[list[HealthEvent], Relistened]:
    """Return the alarms that log and validations raise, oldest first, and the monitor that heard them."""
    monitor, played = (
        Relistened(package.project.params.health, package.task),
        {v.step: v for v in package.validations},
    )
    found = monitor.validation(0, played[0].sampled) if 0 in played else []
    for row in package.log:
        step = row["step"]
        if step in played:  # a step is validated before it is logged
            found += monitor.validation(step, played[step].sampled)
        found += monitor.relisten(row)
    return found, monitor


def alarms_ring_again(package: Unpacked) -> Seen:
    """Compare the alarms that ring again with those that are stored, and with what train.json sums up of
    them."""
    again, monitor = rung_again(package)
    stored = [] if package.events == [quiet(len(package.log))] else package.events
    wrong = (
        [] if package.events else ["health.jsonl: empty; where no alarm rang it has one line that says so"]
    )
    if package.plan.alarms != alarms_digest(package.project.params.health):
        wrong.append(
            "params.yaml, health: not the thresholds of the plan, by which these alarms are rung again"
        )
    lost = sorted(set(scheduled(package)) - {each.step for each in package.validations})
    if lost:  # how many episodes were lost is not in a package, and what the rule says depends on it
        again, stored = _without(again), _without(stored)
    for one, other in zip(stored, again, strict=False):
        odd = [name for name in FIELDS if getattr(one, name) != getattr(other, name)]
        if odd:
            told = (
                f"{odd[0]} {getattr(one, odd[0])!r} is stored, {getattr(other, odd[0])!r} follows from"
                " the log"
            )
            wrong.append(f"health.jsonl, {one.rule} at step {one.step}: {told}")
    wrong += [f"health.jsonl: {_named(each)} is stored and does not ring" for each in stored[len(again) :]]
    wrong += [f"health.jsonl: {_named(each)} rings and is not stored" for each in again[len(stored) :]]
    known = package.item_ids("train")
    for event in stored:
        if foreign := set(event.item_ids) - known:
            wrong.append(f"health.jsonl, {event.rule} at step {event.step}: {min(foreign)} is no train item")
    if package.trained.health != HealthSummary.of(package.events, monitor.unmeasured):
        wrong.append("train.json, health: not what health.jsonl and the log come to")
    if package.trained.honest != (honest := Honest(package.task, items_of(package.project, "train")).facts):
        wrong.append(
            f"train.json, honest: {package.trained.honest} is stored, {honest} follows from the train items"
        )
    wrong += _ring_of_flags(package)
    said = f"{counted(len(again), 'alarms')} {'rings' if len(again) == 1 else 'ring'} again from "
    said += f"{counted(len(package.log), 'steps')} and {counted(len(package.validations), 'validations')}"
    return Seen(
        f"{said}, those of infrastructure left out: the validations at {lost} were lost" if lost else said,
        wrong,
    )


def _named(event: HealthEvent) -> str:
    return f"{event.rule} {event.level} at step {event.step}"


def _without(events: Sequence[HealthEvent]) -> list[HealthEvent]:
    return [event for event in events if event.rule != "infrastructure"]


def _ring_of_flags(package: Unpacked) -> list[str]:
    """Return in what the alarms of flags differ: of batches their rates are logged, of validations all
    episodes are kept."""
    watch, task, played = Watch(package.task), package.task, {v.step: v for v in package.validations}
    for step in [0, *(row["step"] for row in package.log)]:
        if step in played:
            watch.look(step, "validation", played[step].sampled)
            watch.look(step, "greedy validation", played[step].greedy)
        if step:
            watch.raised += _of_batch(package.log[step - 1], task)
    again, stored = watch.facts(), package.trained.alarms
    if [_apart(each) for each in again] != [_apart(each) for each in stored]:
        return [f"train.json, alarms: {len(stored)} are stored, {len(again)} ring again, or not the same"]
    return []


def _of_batch(row: dict[str, Any], task: Task) -> list[Raised]:
    rates = {flag: row["components"].get(f"{flag}_rate") for flag in task.alarms}
    return [
        Raised(row["step"], "batch", Alarm(flag=flag, rate=rate, threshold=task.alarms[flag], n=1))
        for flag, rate in rates.items()
        if rate is not None and rate > task.alarms[flag]
    ]


def _apart(alarm: TrainAlarm) -> TrainAlarm:
    """Return an alarm without the number of episodes of a batch in which its question arose, which no log
    holds."""
    return (
        alarm.model_copy(update={"worst": alarm.worst.model_copy(update={"n": 1})})
        if alarm.source == "batch"
        else alarm
    )
