"""Training health inside a trainer of transformers or TRL."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from assay.core.records import HEALTH_LEVELS, HealthLevel
from assay.health.monitor import Monitor
from assay.tools.foreign_logs.records import LogFinding
from assay.tools.judge.lines import parquet_rows


class HealthWarning(UserWarning):
    """An alarm of a training."""


class HealthCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Warns when a training stops being well: `GRPOTrainer(..., callbacks=[HealthCallback()])`.

    It reads what the trainer logs, and with `log_completions=True` also the completions that TRL keeps in the
    output folder: more rules can then be read. Alarms are warnings (HealthWarning), and kept in `alarms`.

    Args:
        stop_at: Level at which the training is asked to stop after the step; None: never.
        columns: Which column of the log is what, where the trainer uses names of its own.
    """

    def __init__(self, *, stop_at: HealthLevel | None = None, columns: dict[str, str] | None = None) -> None:
        self._stop_at = stop_at
        self._monitor = Monitor(columns=columns)
        self._read: set[str] = set()
        self.alarms: list[LogFinding] = []

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Read what was logged, and warn of what newly rings."""
        if not state.is_world_process_zero or not logs:
            return
        self._monitor.add({name: _number(value) for name, value in logs.items()}, state.global_step)
        self._read_completions(args)
        self._ring(control, at_once=False)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Read the rest, and say what could not be measured."""
        if not state.is_world_process_zero:
            return
        self._read_completions(args)
        self._ring(control, at_once=True)

    @property
    def monitor(self) -> Monitor:
        """What was read: `monitor.health()` is all that the rules say of it."""
        return self._monitor

    def _ring(self, control: TrainerControl, *, at_once: bool) -> None:
        for alarm in self._monitor.new_alarms(at_once=at_once):
            self.alarms.append(alarm)
            warnings.warn(
                f"{alarm.level} since step {alarm.since}, {alarm.rule}: {alarm.said}",
                HealthWarning,
                stacklevel=2,
            )
            if self._stop_at is not None and HEALTH_LEVELS.index(alarm.level) >= HEALTH_LEVELS.index(
                self._stop_at
            ):
                control.should_training_stop = True

    def _read_completions(self, args: TrainingArguments) -> None:
        folder = Path(args.output_dir or ".") / "completions"
        for path in sorted(folder.glob("completions_*.parquet")):
            if path.name not in self._read:
                self._read.add(path.name)
                for _, row in parquet_rows(path):
                    self._monitor.add(row)


def _number(value: Any) -> object:
    """Return a scalar of numpy or torch as a plain number; all else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 else value
