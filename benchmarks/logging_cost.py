"""What logging costs a training step: digests, rows, alarms, clocks, events and live tables; writes
results/logging_cost.json.

The chosen recipe on models/base is trained for a few steps with all of it and without any, in alternation, so
that a busy machine slows both alike. Both make the very same steps (this is checked on the weights), and the
tables are as long as after a whole training. The KL probe is a measurement and runs in both; validations and
checkpoints lie outside of the steps timed. Usage: ./run repro base, then ./run bench logging_cost
"""

from __future__ import annotations

import functools
import json
import platform
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from transformers.utils.logging import disable_progress_bar

from assay.core.config.settings import Params
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
from assay.training.grpo import Attempt, train
from assay.training.log import callback as recorder
from assay.training.log.callback import Recorder
from assay.training.log.history import History, Watch

PAIRS, STEPS, WARM_UP, ROWS = 6, 14, 3, 200
RESULT = Path(__file__).parent / "results" / "logging_cost.json"
ROOT = Path(__file__).resolve().parent.parent
Clock = Callable[[], float]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "cpu": time.process_time}
NEVER = 10**6
PROBE = "KL probe (not logging)"


def settings(params: Params) -> Params:
    """Return the settings with few steps, and with validations and checkpoints at the two ends only."""
    changes: dict[str, Any] = {
        "train": params.train.model_copy(update={"steps": STEPS}),
        "validation": params.validation.model_copy(update={"items": 8, "draws": 1, "interval": NEVER}),
        "checkpoint": params.checkpoint.model_copy(update={"every": NEVER}),
        "claim": params.claim.model_copy(update={"checkpoint_rule": "last"}),
    }
    return params.model_copy(update=changes)


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


@contextmanager
def counted(parts: Phases) -> Iterator[None]:
    """Count, in seconds that belong to one part each, what happens inside the logging."""

    def within(owner: Any, name: str, part: str) -> Any:
        function = getattr(owner, name)

        @functools.wraps(function)
        def wrapped(*arguments: Any, **named: Any) -> Any:
            with parts(part):
                return function(*arguments, **named)

        return mock.patch.object(owner, name, wrapped)

    with ExitStack() as stack:
        for owner, name, part in (
            (Recorder, "on_log", "rows and alarms"),
            (Recorder, "_write_clock", "clock rows"),
            (Attempt, "_kl", PROBE),
            (trainer, "tensors_digest", "digests"),
            (recorder, "rollout_links", "digests"),
            (Live, "tell", "events"),
            (Live, "publish", "live tables"),
        ):
            stack.enter_context(within(owner, name, part))
        yield


def fill(history: History) -> None:
    """Make the tables as long as after a whole training, by what is in them already."""
    for rows in (history.training_log, history.reward_components, history.train_log, history.observed):
        rows += [rows[-1]] * (ROWS - len(rows))


def run(project: Project, *, logged: bool) -> tuple[TrainedAdapter, dict[str, float], dict[str, float]]:
    """Train and return what came out, seconds a step by clock, and seconds a step by part of the logging."""
    params, policy = project.params, open_policy(project, None)
    judged, history, parts = task_of(project), History(), Phases()
    watch, suite, marks = Watch(judged), validation_suite(project), dict.fromkeys(CLOCKS, 0.0)
    seconds, inside = dict[str, float](), dict[str, float]()
    with (
        tempfile.TemporaryDirectory(prefix="assay-logging-") as folder,
        counted(parts) if logged else without(),
    ):
        root = Path(folder)
        run_folder = RunFolder(root / "run", RunKey("bench", {}), {}, params.checkpoint, main=True)
        live = Live(Project(root, params), history, watch, suite, run_folder, main=True)

        def on_step(step: int) -> None:
            if logged:
                live.step(step, lambda *_: None)
            if step == WARM_UP:
                if logged:
                    fill(history)
                parts.take()
                marks.update({name: clock() for name, clock in CLOCKS.items()})
            if step == STEPS:
                n = STEPS - WARM_UP
                seconds.update({name: (clock() - marks[name]) / n for name, clock in CLOCKS.items()})
                inside.update({name: value / n for name, value in parts.take().items()})

        trained = train(
            policy,
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
    return trained, seconds, inside


def spread(values: list[float]) -> dict[str, Any]:
    """Return the median of some values, and all of them."""
    return {"median": round(statistics.median(values), 4), "all": [round(value, 4) for value in values]}


def main() -> None:
    """Measure and write the result."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    disable_progress_bar()
    project = Project.open(ROOT)
    project = Project(ROOT, settings(project.params))
    measured: dict[bool, list[dict[str, float]]] = {True: [], False: []}
    insides: list[dict[str, float]] = []
    run(project, logged=True)  # the first training of a process also imports and allocates
    for pair in range(PAIRS):
        adapters = {}
        for logged in (True, False) if pair % 2 == 0 else (False, True):
            trained, seconds, inside = run(project, logged=logged)
            adapters[logged] = trained.adapter
            measured[logged].append(seconds)
            insides += [inside] if logged else []
        if any(not torch.equal(tensor, adapters[False][name]) for name, tensor in adapters[True].items()):
            raise SystemExit(
                "the two differ: logging changed a weight, or the machine does not repeat itself"
            )
        told = f"with {measured[True][-1]}, without {measured[False][-1]}"
        print(f"pair {pair + 1} of {PAIRS}: {told}", flush=True)
    # What is counted inside is slowed by a busy machine as the step around it is; clocks of phases are in the
    # ratio alone.
    shares = [
        sum(value for name, value in inside.items() if name != PROBE) / seconds["wall"]
        for inside, seconds in zip(insides, measured[True], strict=True)
    ]
    pairs = list(zip(measured[True], measured[False], strict=True))
    ratios = {clock: [one[clock] / other[clock] for one, other in pairs] for clock in CLOCKS}
    sides = {"with": measured[True], "without": measured[False]}
    params = project.params
    result = {
        "recipe": {"task": params.task.name, "base": params.base.kind, "device": params.device},
        "pairs": PAIRS,
        "steps_timed_a_run": STEPS - WARM_UP,
        "rows_in_the_tables": ROWS,
        "seconds_a_step": {
            name: {clock: round(statistics.median(each[clock] for each in runs), 4) for clock in CLOCKS}
            for name, runs in sides.items()
        },
        # The range of n pairs holds the true median with probability 1 - 2 / 2^n.
        "ratio_with_to_without": {clock: spread(all_) for clock, all_ in ratios.items()},
        "range_holds_the_median_with_probability": round(1 - 2 / 2**PAIRS, 4),
        "milliseconds_a_step_inside": {
            name: round(1000 * statistics.median(inside.get(name, 0.0) for inside in insides), 3)
            for name in sorted({name for inside in insides for name in inside})
        },
        "share_of_a_step_inside": spread(shares),
        "threads": params.threads,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2, sort_keys=True))


if __name__ == "__main__":
    main()
