"""What drawing the curves beside a training costs a training step; writes results/live_cost.json.

The chosen task on models/base is trained for a few steps with the process that draws and without it, in
alternation, so that a busy machine slows both alike. Tables are published in both, and are as long as after a
whole training. Both make the very same steps (this is checked on the weights). What the drawing process
itself takes is counted when it has ended. Usage: ./run repro base, then ./run bench live_cost
"""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from transformers.utils.logging import disable_progress_bar

from assay.core.config.settings import Params
from assay.pipeline.inputs import items_of, task_of, validation_suite
from assay.pipeline.live_log import DEFAULT_S, VARIABLE, Live
from assay.pipeline.policies import open_policy
from assay.pipeline.project import Project
from assay.pipeline.resume import RunKey
from assay.pipeline.run_folder import RunFolder
from assay.training.adapter import TrainedAdapter
from assay.training.checkpoints.store import Checkpoints
from assay.training.grpo import train
from assay.training.log.history import History, Watch

PAIRS, STEPS, WARM_UP, ROWS = 6, 40, 4, 200
RESULT = Path(__file__).parent / "results" / "live_cost.json"
ROOT = Path(__file__).resolve().parent.parent
NEVER = 10**6


def settings(params: Params) -> Params:
    """Return the settings with short steps, and with validations and checkpoints at the two ends only."""
    few = {
        "steps": STEPS,
        "items_per_step": 4,
        "group_size": 4,
        "micro_batch_size": 16,
        "kl_probe_episodes": 8,
    }
    changes: dict[str, Any] = {
        "train": params.train.model_copy(update=few),
        "validation": params.validation.model_copy(update={"items": 8, "draws": 1, "interval": NEVER}),
        "checkpoint": params.checkpoint.model_copy(update={"every": NEVER}),
        "claim": params.claim.model_copy(update={"checkpoint_rule": "last"}),
    }
    return params.model_copy(update=changes)


def fill(history: History) -> None:
    """Make the tables as long as after a whole training, by what is in them already."""
    for rows in (history.training_log, history.reward_components, history.train_log, history.observed):
        rows += [rows[-1]] * (ROWS - len(rows))


def children() -> float:
    """Return the CPU seconds of all processes that this one has started and seen the end of."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def peak_mib(process: int) -> float | None:
    """Return the most memory that a living process has had; None where the system does not say."""
    status = Path(f"/proc/{process}/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), None)


def run(project: Project, *, drawn: bool) -> tuple[TrainedAdapter, dict[str, float]]:
    """Train and return what came out, with seconds a step by clock, and what the process beside it took."""
    os.environ[VARIABLE] = str(DEFAULT_S if drawn else 0)
    params, policy = project.params, open_policy(project, None)
    judged, history = task_of(project), History()
    watch, suite, marks = Watch(judged), validation_suite(project), [0.0, 0.0]
    seconds: dict[str, float] = {}
    before = children()
    with tempfile.TemporaryDirectory(prefix="assay-live-") as folder:
        root = Path(folder)
        shutil.copy(ROOT / "params.yaml", root)
        run_folder = RunFolder(root / "run", RunKey("bench", {}), {}, params.checkpoint, main=True)
        live = Live(Project(root, params), history, watch, suite, run_folder, main=True)
        live.tell("started", {"step": 0})
        live.begin()

        def on_step(step: int) -> None:
            live.step(step, lambda *_: None)
            if step == WARM_UP:
                fill(history)
                live.publish()
                marks[:] = time.perf_counter(), time.process_time()
            if step == STEPS:
                seconds["wall"] = (time.perf_counter() - marks[0]) / (STEPS - WARM_UP)
                seconds["cpu"] = (time.process_time() - marks[1]) / (STEPS - WARM_UP)
                beside = live._drawer and live._drawer._process
                if beside and (most := peak_mib(beside.pid)) is not None:
                    seconds["peak_mib"] = most

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
            tell=live.tell,
        )
        live.end()
        assert (root / "evidence/observed/live/training_curve.svg").is_file() == drawn
    return trained, seconds | {"beside": children() - before}


def main() -> None:
    """Measure and write the result."""
    warnings.filterwarnings(
        "ignore", category=FutureWarning, module="transformers"
    )  # as the command line does
    disable_progress_bar()
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    project = Project.open(ROOT)
    project = Project(ROOT, settings(project.params))
    measured: dict[bool, list[dict[str, float]]] = {True: [], False: []}
    run(project, drawn=False)  # the first training of a process also imports and allocates
    for pair in range(PAIRS):
        adapters = {}
        for drawn in (True, False) if pair % 2 == 0 else (False, True):
            trained, seconds = run(project, drawn=drawn)
            adapters[drawn] = trained.adapter
            measured[drawn].append(seconds)
        if any(not torch.equal(tensor, adapters[False][name]) for name, tensor in adapters[True].items()):
            raise SystemExit(
                "the two trainings differ: drawing changed a weight, or the machine does not repeat itself"
            )
        print(
            f"pair {pair + 1} of {PAIRS}: with {measured[True][-1]}, without {measured[False][-1]}",
            flush=True,
        )
    ratios = {
        clock: [one[clock] / other[clock] for one, other in zip(measured[True], measured[False], strict=True)]
        for clock in ("wall", "cpu")
    }
    lasted = [STEPS * one["wall"] for one in measured[True]]
    result = {
        "recipe": {
            "task": project.params.task.name,
            "base": project.params.base.kind,
            "device": project.params.device,
        },
        "pairs": PAIRS,
        "steps_timed_a_run": STEPS - WARM_UP,
        "rows_in_the_tables": ROWS,
        "seconds_between_drawings": DEFAULT_S,
        "seconds_a_step": {
            name: {
                clock: round(statistics.median(each[clock] for each in measured[drawn]), 4)
                for clock in ratios
            }
            for name, drawn in (("with", True), ("without", False))
        },
        "ratio_with_to_without": {
            # The range of n pairs holds the true median with probability 1 - 2 / 2^n.
            clock: {"median": round(statistics.median(all_), 4), "all": [round(x, 4) for x in all_]}
            for clock, all_ in ratios.items()
        },
        "range_holds_the_median_with_probability": round(1 - 2 / 2**PAIRS, 4),
        "process_beside": {
            "cpu_seconds_a_run": round(statistics.median(each["beside"] for each in measured[True]), 2),
            "seconds_a_run": round(statistics.median(lasted), 1),
            "peak_mib": (
                round(max((each["peak_mib"] for each in measured[True] if "peak_mib" in each), default=0))
                or None
            ),
        },
        "load_average_at_the_end": [round(load, 1) for load in os.getloadavg()],
        "threads": project.params.threads,
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2, sort_keys=True))


if __name__ == "__main__":
    main()
