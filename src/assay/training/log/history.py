"""What a training run leaves behind, row by row, and as a value that a checkpoint can hold; and the alarms
of its task."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from assay.core.records import Alarm, AlarmSource, Episode, HealthEvent, TrainAlarm, ValidationEpisode
from assay.core.storage.json import as_written
from assay.rollout.evaluation.alarms import alarms
from assay.rollout.tasks.protocol import Task

ROWS = ("training_log", "reward_components", "train_log", "observed")


class Validation(NamedTuple):
    """What the validation suite gave at one step: all its draws, and one greedy pass over the same items."""

    step: int
    sampled: list[Episode]
    greedy: list[Episode]

    def lines(self) -> bytes:
        """Return the episodes one a line: first the number of sampled ones, then those, then the greedy
        ones."""
        rows = [
            as_written(len(self.sampled)),
            *(each.model_dump_json() for each in [*self.sampled, *self.greedy]),
        ]
        return "".join(row + "\n" for row in rows).encode()

    @classmethod
    def of_lines(cls, step: int, content: bytes) -> Validation:
        """Return what `lines` wrote."""
        first, *rows = content.decode().split("\n")[:-1]
        episodes = [Episode.model_validate_json(row) for row in rows]
        return cls(step, episodes[: int(first)], episodes[int(first) :])


class LostValidation(NamedTuple):
    """A validation that the environment left incomplete: it measures nothing, and so its checkpoint cannot be
    chosen by it."""

    step: int
    n: int  # episodes that were to be played
    lost: int
    item_ids: list[str]
    reason: str  # of the first


@dataclass(slots=True)
class History:
    """Rows of the logs, oldest first; a value that was not measured is None, never 0."""

    training_log: list[dict[str, Any]] = field(default_factory=list)
    reward_components: list[dict[str, Any]] = field(default_factory=list)
    train_log: list[dict[str, Any]] = field(default_factory=list)
    observed: list[dict[str, Any]] = field(default_factory=list)
    validations: list[Validation] = field(default_factory=list)
    health: list[HealthEvent] = field(default_factory=list)

    def rows(self) -> dict[str, Any]:
        """Return all but the validations' episodes as plain values."""
        plain: dict[str, Any] = {name: getattr(self, name) for name in ROWS}
        plain["health"] = [event.model_dump(mode="json") for event in self.health]
        return plain | {"validated": [validation.step for validation in self.validations]}

    def validation_episodes(self) -> Iterator[ValidationEpisode]:
        """Yield every episode of every validation, oldest first: the sampled draws, then the greedy pass.

        Each names the weights that played it by the digest that is a link of the chain.
        """
        weights = {row["step"]: row["digests"]["weights"] for row in self.train_log}
        for step, sampled, greedy in self.validations:
            for is_greedy, each in [*((False, each) for each in sampled), *((True, each) for each in greedy)]:
                episode = each.model_copy(update={"policy": weights.get(step)})
                yield ValidationEpisode(step=step, greedy=is_greedy, episode=episode)

    def go_back(self, rows: Mapping[str, Any], validations: Sequence[Validation]) -> None:
        """Become what `rows` and the validations say, in place: everybody who watches this history sees the
        change."""
        for name in ROWS:
            getattr(self, name)[:] = rows[name]
        self.health[:] = [HealthEvent.model_validate_json(json.dumps(event)) for event in rows["health"]]
        self.validations[:] = validations


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def component_row(step: int, episodes: Sequence[Episode], task: Task) -> dict[str, Any]:
    """Return one row of reward_components.csv: means of reward parts and metrics and rates of flags over a
    batch.

    A rate or metric leaves out episodes in which it is undefined; where it is in all of them, it is None.
    """
    row: dict[str, Any] = {"step": step, "n": len(episodes)}
    row["mean_cumulative"] = _mean([e.reward for e in episodes])
    for name in task.parts:
        row[f"mean_{name}"] = _mean([e.parts[name] for e in episodes])
    rates = {f"{name}_rate": _mean([e.flags[name] for e in episodes]) for name in task.flags}
    row.update(rates)
    row["parsed_rate"] = _mean([e.parsed_rate for e in episodes])
    row["mean_n_steps"] = _mean([len(e.turns) for e in episodes])
    row["success_rate"] = _mean([e.success for e in episodes])
    row |= {f"metric.{name}": _mean([e.metrics[name] for e in episodes]) for name in task.metrics}
    return row


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
