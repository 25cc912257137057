"""Scenes of two processes that hold a base in parts, which distributed_worker.py plays after its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

from torch.distributed.tensor import DTensor

from assay.core.config.settings import Params
from assay.rollout.policy.model import Policy
from assay.rollout.policy.processes import Processes
from assay.training import logprobs, rollouts
from assay.training import trainer as trainer_room
from tests.small_policy import small_policy
from tests.training import distributed_worker as worker
from tests.training import test_training as toy
from tests.training.distributed_worker import CRASH_STEP, Report, poisoned, training

STOP = "the toy is taken away"


def settings(engine: str, *, gradient_checkpointing: bool = False, **rest: Any) -> Params:
    """Return the settings of test_distributed for an engine, played by one backend."""
    made = worker_settings(**rest)
    return made.model_copy(
        update={
            "distributed": made.distributed.model_copy(update={"engine": engine}),
            # Computing layers again puts a hook on the embedding, and then lean does not serve the policy.
            "generation": made.generation.model_copy(update={"backend": "cached"}),
            "train": made.train.model_copy(update={"gradient_checkpointing": gradient_checkpointing}),
        }
    )


worker_settings = worker.settings


def two_layers() -> Policy:
    """Return a policy with more than one layer to cut, and a matrix whose rows two processes cannot share
    evenly."""
    return small_policy(toy.TASK.vocabulary(), 5, layers=2, max_positions=256)


def seen(folder: Path) -> Report:
    """Train, and note how much of the base this process holds while it learns, and while it plays."""
    report: Report = {"learning": set(), "playing": set(), "own": set()}
    step, played = trainer_room.Trainer.compute_loss, rollouts.SideRollouts.played

    def base_of(model: Any) -> int:
        return sum(p.numel() for p in model.parameters() if not p.requires_grad)

    def compute_loss(self: Any, model: Any, *arguments: Any, **named: Any) -> Any:
        parts = [p for p in model.parameters() if isinstance(p, DTensor)]
        report["learning"].add((sum(p.to_local().numel() for p in parts), sum(p.numel() for p in parts)))
        report["own"].add(base_of(self.model))
        return step(self, model, *arguments, **named)

    def play(self: Any, *arguments: Any) -> Any:
        report["playing"].add(base_of(self._policy.model))
        return played(self, *arguments)

    with (
        mock.patch.object(trainer_room.Trainer, "compute_loss", compute_loss),
        mock.patch.object(rollouts.SideRollouts, "played", play),
    ):
        whole = training(folder, settings("fsdp", dropout=0.0))
    return whole | {name: sorted(values) for name, values in report.items()}


def again(folder: Path) -> Report:
    """Train until something breaks after a step, and go on from the checkpoint before it."""

    def broken(step: int) -> None:
        if step == CRASH_STEP:
            raise KeyboardInterrupt(STOP)

    try:
        training(folder, settings("fsdp"), on_step=broken)
    except KeyboardInterrupt as error:
        assert str(error) == STOP
    return training(folder, settings("fsdp"))


SCENES = ("parts_ddp", "parts", "parts_recomputed", "parts_clean", "parts_resumed", "parts_poisoned")


def play(scene: str, folder: Path, processes: Processes) -> Report:
    """Play one scene, with as many passes in one process and the other as the rows ask for."""
    # Passes cost nothing: so rows of unlike length go apart, and one process has more passes to make than the
    # other.
    with (
        mock.patch.dict(logprobs.PASS_COST, {"cpu": 1.0}),
        mock.patch.object(toy, "fresh_policy", two_layers),
    ):
        return _played(scene, folder / scene, processes)


def _played(scene: str, folder: Path, processes: Processes) -> Report:
    if scene == "parts_ddp":
        return training(folder, settings("ddp", dropout=0.0))
    if scene == "parts":
        return seen(folder)
    if scene == "parts_clean":
        return training(folder, settings("fsdp"))
    if scene == "parts_resumed":
        return again(folder)
    if scene == "parts_recomputed":
        return training(folder, settings("fsdp", dropout=0.0, gradient_checkpointing=True))
    assert scene == "parts_poisoned", scene
    with mock.patch.object(worker, "settings", lambda **health: settings("fsdp", **health)):
        return poisoned(folder, processes.rank, "poison_rollback")
