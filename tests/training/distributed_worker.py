"""One of several processes that torchrun starts for test_distributed.py: plays scenes, and writes down what
it saw.

    python -m torch.distributed.run --standalone --nproc-per-node=2 -m tests.training.distributed_worker
    FOLDER SCENE...

Each scene leaves FOLDER/<scene>.rank<n>.json. The processes play the same scenes in the same order, since
every training is one long conversation between them.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import torch

from assay.core.config.settings import Params
from assay.core.errors import AssayError
from assay.core.seeds import derive_seed
from assay.rollout.evaluation.rollout import Lost, Rollout
from assay.rollout.policy.processes import Processes
from assay.training import rollouts as rollouts_room
from assay.training import trainer as trainer_room
from assay.training.adapter import tensors_digest
from assay.training.checkpoints.store import Checkpoints
from assay.training.grpo import train
from assay.training.log.history import History, Watch
from assay.training.recipe import item_order
from assay.training.setup import Setup
from tests.evaluation.failing_environment import Failing
from tests.training import test_training as toy

WORLD, STEPS, CRASH_STEP = 2, 5, 3
RETRIES = 1
TORCHRUN = int(os.environ.get("CALLED_BY", os.getppid()))
RUN, KEY = "run", "0123456789abcdef" * 4
Report = dict[str, Any]


def settings(processes: int = WORLD, *, dropout: float = 0.2, **health: Any) -> Params:
    """Return settings of four items a step, each process two passes a step, with checkpoints that fall
    between validations."""
    made = toy.params(every=3, steps=STEPS, items_per_step=4, micro_batch_size=4)
    lora = made.train.lora.model_copy(update={"dropout": dropout})
    return made.model_copy(
        update={
            "checkpoint": made.checkpoint.model_copy(update={"every": 2}),
            "distributed": made.distributed.model_copy(update={"processes": processes}),
            "health": made.health.model_copy(update={"retries": RETRIES} | health),
            "train": made.train.model_copy(update={"lora": lora, "beta": 0.05}),
        }
    )


def failing(lost: Sequence[tuple[int, int]], times: int) -> Failing:
    """Return the task, whose environment fails so often for the items at these (step, place in the step)."""
    made = settings()
    order = [item.id for item in item_order(toy.ITEMS, STEPS * made.train.items_per_step, made.seed)]
    items = [(step, order[(step - 1) * made.train.items_per_step + place]) for step, place in lost]
    worlds = {
        ("step 0", item, derive_seed("world", "train", made.seed, step, item)): times for step, item in items
    }
    return Failing(toy.TASK, worlds)


def training(
    folder: Path, params: Params, task: Any = toy.TASK, on_step: Callable[[int], None] = lambda step: None
) -> Report:
    """Train in a folder, or go on there; return all that one process knows of it."""
    checkpoints = Checkpoints(folder, RUN, 10)
    start, history, report = checkpoints.newest(), History(), Report()
    played: dict[int, list[Mapping[str, Any]]] = {}
    original = rollouts_room.GroupRollouts.__call__

    def noted(self: Any, item_ids: Sequence[str], step: int) -> Any:
        fields = original(self, item_ids, step)
        played[step] = [
            {"item": item_of(each), "seed": seed_of(each), "lost": isinstance(each, Lost)}
            for each in self.latest
        ]
        return fields

    with mock.patch.object(rollouts_room.GroupRollouts, "__call__", noted):
        try:
            trained = train(
                toy.fresh_policy(),
                Setup(task, toy.TASK, toy.ITEMS, toy.validation(), params),
                checkpoints=checkpoints,
                start=start,
                history=history,
                watch=Watch(toy.TASK),
                on_step=on_step,
            )
            report |= {
                "adapter": tensors_digest(sorted(trained.adapter.items())),
                "chosen": trained.chosen_step,
            }
        except AssayError as error:
            report |= told(error)
    rows = history.train_log
    newest = checkpoints.newest()
    return report | {
        "start": start and start.step,
        "newest": newest and newest.step,
        "played": played,
        "chain": rows[-1]["chain"] if rows else None,
        "digests": [row["digests"] for row in rows],
        "skipped": {row["step"]: row["skipped"] for row in rows if row["skipped"]},
        "alarms": [[event.step, event.rule, event.message, list(event.item_ids)] for event in history.health],
        "lost": [row["lost"] for row in rows],
        "steps": [row["step"] for row in rows],
        "validations": [[step, [e.reward for e in sampled]] for step, sampled, _ in history.validations],
    }


def item_of(each: Rollout | Lost) -> str:
    """Return the item that was played."""
    return each.play.item.id if isinstance(each, Lost) else each.episode.item_id


def seed_of(each: Rollout | Lost) -> int:
    """Return the seed of the episode."""
    return each.play.seed if isinstance(each, Lost) else each.episode.seed


def told(error: AssayError) -> Report:
    """Return an error as a report holds it."""
    return {"error": type(error).__name__, "message": str(error), "exit_code": error.exit_code}


def poisoned(folder: Path, rank: int, name: str) -> Report:
    """Train with a loss that is NaN in process 1 alone, at one step, the first time it is made."""
    times = []
    original = trainer_room.Trainer.compute_loss

    def loss(self: Any, *arguments: Any, **named: Any) -> torch.Tensor:
        value: torch.Tensor = original(self, *arguments, **named)
        if rank == 1 and self.step_at_work == CRASH_STEP and not times:
            times.append(1)
            return value * float("nan")
        return value

    with mock.patch.object(trainer_room.Trainer, "compute_loss", loss):
        return training(folder / name, settings(on_non_finite=name.removeprefix("poison_")))


def refusals(folder: Path, processes: Processes) -> Report:
    """Ask for what must be refused, in each process, and go on."""
    report: Report = {}

    def attempt(name: str, asked: Callable[[], object]) -> None:
        try:
            asked()
            report[name] = "accepted"
        except AssayError as error:
            report[name] = told(error)

    attempt("as many as there are", lambda: Processes.joined(settings().distributed))
    attempt("one more than there are", lambda: Processes.joined(settings(WORLD + 1).distributed))
    attempt("the same everywhere", lambda: processes.agree("run and checkpoint", (KEY, 4)))
    seen = Checkpoints(folder / ("clean" if processes.main else "nothing here"), RUN, 10).newest()
    attempt("other checkpoints", lambda: processes.agree("run and checkpoint", (KEY, seen and seen.step)))
    return report


def killed(step: int, rank: int) -> None:
    """Kill process 1 after a step."""
    if rank == 1 and step == CRASH_STEP:
        os.kill(os.getpid(), signal.SIGKILL)


def terminated(step: int, rank: int) -> None:
    """Ask torchrun to stop, once, and then be slow, so that the training is still going on when it passes it
    on."""
    if step >= CRASH_STEP:
        if rank == 0 and step == CRASH_STEP:
            called = " ".join(psutil.Process(TORCHRUN).cmdline())
            assert "launching" in called, "whoever that is now, it is not ours to end"
            os.kill(TORCHRUN, signal.SIGTERM)
        time.sleep(1.0)


def play(scene: str, folder: Path, processes: Processes) -> Report:
    """Play one scene."""
    rank = processes.rank
    if scene in ("clean", "again", "resume_killed", "resume_terminated"):
        return training(folder / scene.removeprefix("resume_"), settings())
    if scene in ("killed", "terminated"):
        disturb = killed if scene == "killed" else terminated
        return training(folder / scene, settings(), on_step=lambda step: disturb(step, rank))
    if scene == "plain":
        return training(folder / scene, settings(dropout=0.0))
    if scene == "environment":
        # One episode of step 2, and one of step 4: both are played by process 1.
        return training(folder / scene, settings(dropout=0.0), failing([(2, 2), (4, 3)], RETRIES + 1))
    if scene == "environment_gone":
        # All episodes of process 1 at step 2: half of the step's.
        return training(folder / scene, settings(dropout=0.0), failing([(2, 2), (2, 3)], 10**6))
    if scene.startswith("poison_"):
        return poisoned(folder, rank, scene)
    if scene == "refusals":
        return refusals(folder, processes)
    from tests.training import sharded_worker  # which is made of what stands here

    return sharded_worker.play(scene, folder, processes)


def watched(folder: Path) -> list[str]:
    """Return a list that fills with what this process writes, renames or removes below a folder, as the
    system is asked."""
    seen: list[str] = []
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            writes = flags & writing or (mode and set(mode) & set("wax+"))
        elif event in (
            "os.mkdir",
            "os.link",
            "os.symlink",
            "os.rename",
            "os.remove",
            "os.rmdir",
            "shutil.rmtree",
            "os.truncate",
        ):
            path, writes = arguments[0], True
        else:
            return
        if writes and isinstance(path, str | os.PathLike) and str(path).startswith(f"{folder}{os.sep}"):
            seen.append(f"{event} {path}")

    sys.addaudithook(hook)
    return seen


def main() -> None:
    """Play the scenes that the command line names."""
    folder, scenes = Path(sys.argv[1]), sys.argv[2:]
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    processes = Processes.joined(settings().distributed)
    writes = watched(folder)
    for scene in scenes:
        gc.freeze()  # what was imported is no garbage, and trainers look for it at every end
        report = play(scene, folder, processes)
        report |= {"rank": processes.rank, "wrote": list(writes)}
        (folder / f"{scene}.rank{processes.rank}.json").write_text(json.dumps(report), encoding="utf-8")
        writes.clear()
    processes.leave()


if __name__ == "__main__":
    main()
