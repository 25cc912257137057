"""What of a training is logged, to be had with it and without (part `overhead` of speed_cpu.py).

Both make the very same steps. The KL probe is a measurement and runs in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

from assay.core.config.settings import Params
from assay.pipeline.live_log import Live
from assay.pipeline.resume import RunKey
from assay.pipeline.run_folder import RunFolder
from assay.rollout.dataset.suite import Suite
from assay.rollout.evaluation.phases import Phases
from assay.training import trainer
from assay.training.log.callback import Recorder
from assay.training.log.history import History, Watch

ROWS = 200


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


def live(root: Path, params: Params, history: History, watch: Watch, suite: Suite) -> Live:
    """Return what writes the live tables of a training into a folder."""
    folder = RunFolder(root / "run", RunKey("bench", {}), {}, params.checkpoint, main=True)
    return Live(root, params.train.steps, history, watch, suite, folder, main=True)


def lengthen(history: History) -> None:
    """Make the tables as long as after a whole training."""
    for rows in (history.training_log, history.reward_components, history.train_log, history.observed):
        rows += [rows[-1]] * (ROWS - len(rows))
