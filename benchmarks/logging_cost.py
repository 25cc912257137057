"""A training with everything that is logged, and without: digests, rows, alarms, clocks, events, live tables.

speed_cpu.py asks for both in turn (its part `overhead`). Both make the very same steps, which is checked on
the weights, and the tables are as long as after a whole training. The KL probe is a measurement and runs in
both; validations and checkpoints lie outside of the steps timed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.common import changed

from assay.evaluation.phases import Phases
from assay.pipeline.inputs import items_of, task_of, validation_suite
from assay.pipeline.live_log import Live
from assay.pipeline.policies import open_policy
from assay.pipeline.project import Project
from assay.pipeline.resume import RunKey
from assay.pipeline.run_folder import RunFolder
from assay.training import trainer
from assay.training.adapter import TrainedAdapter
from assay.training.checkpoints.store import Checkpoints
from assay.training.grpo import train
from assay.training.log.callback import Recorder
from assay.training.log.history import History, Watch

STEPS, WARM_UP, ROWS = 14, 3, 200
NEVER = 10**6
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


@contextmanager
def without() -> Iterator[None]:
    """Leave out all logging, and nothing that decides about a step."""

    def on_log(self: Any, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        state.log_history.clear()
        if logs and "loss" in logs:
            self._kl(int(state.global_step))
            self._on_step(int(state.global_step))

    with (
        mock.patch.object(Recorder, "on_log", on_log),
        mock.patch.object(Recorder, "on_save", lambda self, *_, **__: None),
        mock.patch.object(trainer, "tensors_digest", lambda tensors: "0" * 64),
        mock.patch.object(Phases, "__call__", lambda phases, name: nullcontext()),
    ):
        yield


def run(project: Project, *, logged: bool) -> tuple[TrainedAdapter, dict[str, float]]:
    """Train the project's recipe for STEPS steps; return what came out, and seconds a step by clock."""
    params = changed(
        project.params,
        train={"steps": STEPS},
        validation={"items": 8, "draws": 1, "interval": NEVER},
        checkpoint={"every": NEVER},
        claim={"checkpoint_rule": "last"},
    )
    project = Project(project.root, params)
    judged, history, suite = task_of(project), History(), validation_suite(project)
    watch, begun, seconds = Watch(judged), dict[str, float](), dict[str, float]()
    with (
        tempfile.TemporaryDirectory(prefix="assay-logging-") as folder,
        nullcontext() if logged else without(),
    ):
        root = Path(folder)
        run_folder = RunFolder(root / "run", RunKey("bench", {}), {}, params.checkpoint, main=True)
        live = Live(Project(root, params), history, watch, suite, run_folder, main=True)

        def on_step(step: int) -> None:
            if logged:
                live.step(step, lambda *_: None)
            if step == WARM_UP:
                tables = (
                    history.training_log,
                    history.reward_components,
                    history.train_log,
                    history.observed,
                )
                for rows in tables if logged else ():  # as long as after a whole training
                    rows += [rows[-1]] * (ROWS - len(rows))
                begun.update({name: clock() for name, clock in CLOCKS.items()})
            if step == STEPS:
                took = {name: clock() - begun[name] for name, clock in CLOCKS.items()}
                seconds.update({name: value / (STEPS - WARM_UP) for name, value in took.items()})

        trained = train(
            open_policy(project, None),
            task_of(project, shaping=True),
            judged,
            items_of(project, "train"),
            suite,
            params,
            checkpoints=Checkpoints(root / "run", "bench", 1),
            start=None,
            history=history,
            watch=watch,
            on_step=on_step,
            tell=live.tell if logged else lambda event, facts: None,
        )
    return trained, seconds
