"""Training health inside a trainer of transformers or TRL."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from assay.core.errors import ConfigError, DataError
from assay.core.records import HEALTH_LEVELS, HealthLevel
from assay.health.logs.records import NOT_MEASURED, LogFinding
from assay.health.monitor import Monitor
from assay.rollout.tables.lines import parquet_rows


class HealthWarning(UserWarning):
    """An alarm of a training."""


class HealthCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Warns when a training stops being well: `GRPOTrainer(..., callbacks=[HealthCallback()])`.

    It reads what the trainer logs, and with `log_completions=True` also the completions that TRL keeps in the
    output folder: more rules can then be read. Alarms are warnings (HealthWarning), and kept in `alarms`.

    Args:
        stop_at: Level at which the training is asked to stop after the step, of several processes after the
            next one; None: never.
        columns: Which column of the log is what, where the trainer uses names of its own.

    Raises:
        ConfigError: There is no such level.
    """

    def __init__(self, *, stop_at: HealthLevel | None = None, columns: dict[str, str] | None = None) -> None:
        if stop_at not in (None, *HEALTH_LEVELS[1:]):
            levels = ", ".join(HEALTH_LEVELS[1:])
            fix = f"stop_at={HEALTH_LEVELS[-1]!r}"
            raise ConfigError(
                f"one of {levels}", found=repr(stop_at), where="HealthCallback, stop_at", fix=fix
            )
        self._stop_at, self._stop = stop_at, False
        self._begun = 0.0
        self._monitor = Monitor(columns=columns)
        self._read: set[str] = set()
        self.alarms: list[LogFinding] = []

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Note when the training begins: what an earlier one left in the output folder is not read."""
        self._begun = 0.0 if state.global_step else time.time()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Stop all processes where the first one, which alone reads the log, asks for it."""
        if self._stop_at is not None and args.world_size > 1:
            told = [self._stop]
            broadcast_object_list(told)
            control.should_training_stop = control.should_training_stop or told[0]

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
        self._take({**logs, "step": state.global_step})
        self._read_completions(args)
        self._ring(at_once=False)
        if self._stop and args.world_size == 1:
            control.should_training_stop = True

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Read the rest, and say what could not be measured."""
        if not state.is_world_process_zero:
            return
        self._read_completions(args)
        self._ring(at_once=True)
        health = self._monitor.health()
        if health is None or health.worst == NOT_MEASURED:
            why = "nothing that was logged can be read" if health is None else health.lacking
            warnings.warn(f"{NOT_MEASURED}: {why}", HealthWarning, stacklevel=2)

    @property
    def monitor(self) -> Monitor:
        """What was read: `monitor.health()` is all that the rules say of it."""
        return self._monitor

    def _take(self, record: Mapping[str, Any]) -> None:
        try:
            self._monitor.add(record)
        except DataError as error:  # no training ends because its log is odd
            warnings.warn(str(error), HealthWarning, stacklevel=2)

    def _ring(self, *, at_once: bool) -> None:
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
                self._stop = True

    def _read_completions(self, args: TrainingArguments) -> None:
        folder = Path(args.output_dir or os.devnull) / "completions"
        for path in sorted(folder.glob("completions_*.parquet")):
            if path.name not in self._read and path.stat().st_mtime >= self._begun:
                self._read.add(path.name)
                for _, row in parquet_rows(path):
                    self._take(row)
