"""What is watched during a training beside its numbers: the task's alarms, and prompts that had to be cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from assay.core.records import Alarm, AlarmSource, Episode, TrainAlarm
from assay.evaluation.alarms import alarms
from assay.tasks.protocol import Task


class Raised(NamedTuple):
    """An alarm that one batch or validation raised."""

    step: int
    source: AlarmSource
    alarm: Alarm


class Watch:
    """Every alarm of a training in order, which items were played, and how many characters the prompts of
    some lost."""

    def __init__(self, task: Task) -> None:
        """Watch for the alarms that the task names."""
        self.task = task
        self.raised: list[Raised] = []
        self.items: set[str] = set()
        self.cuts: dict[str, int] = {}

    def state(self) -> dict[str, Any]:
        """Return what was seen so far as a plain value."""
        raised = [[step, source, alarm.model_dump(mode="json")] for step, source, alarm in self.raised]
        return {"raised": raised, "items": sorted(self.items), "cuts": dict(sorted(self.cuts.items()))}

    def go_back(self, state: Mapping[str, Any]) -> None:
        """Become what `state` says, in place."""
        self.raised[:] = [
            Raised(step, source, Alarm.model_validate(alarm)) for step, source, alarm in state["raised"]
        ]
        self.items, self.cuts = set(state["items"]), dict(state["cuts"])

    def look(self, step: int, source: AlarmSource, episodes: Sequence[Episode]) -> None:
        """Check the episodes of one batch or validation."""
        self.raised += [Raised(step, source, alarm) for alarm in alarms(self.task, episodes)]
        self.items |= {episode.item_id for episode in episodes}
        self.cuts |= {e.item_id: e.prompt_chars_cut for e in episodes if e.prompt_chars_cut}

    def facts(self) -> tuple[TrainAlarm, ...]:
        """Return one record for each flag and source that rang, in the order in which they first did."""
        groups: dict[tuple[str, str], list[Raised]] = {}
        for each in self.raised:
            groups.setdefault((each.alarm.flag, each.source), []).append(each)
        found = []
        for group in groups.values():
            worst = max(group, key=lambda each: each.alarm.rate)
            found.append(
                TrainAlarm(
                    source=worst.source,
                    first_step=group[0].step,
                    times=len(group),
                    worst_step=worst.step,
                    worst=worst.alarm,
                )
            )
        return tuple(found)
