"""One GRPO trainer on top of TRL's: loss, advantages and optimisation are TRL's, rollouts and records are ours."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import TrainerCallback
from trl import GRPOTrainer  # type: ignore[attr-defined,unused-ignore]

from assay.errors import TrainingError
from assay.evaluation.rollout import Rollout
from assay.policy.model import Policy
from assay.records import TRAINING_LOG_COLUMNS, Episode
from assay.tasks.protocol import Task
from assay.training.divergence import kl_to_base
from assay.training.history import History, Validation, component_row
from assay.training.rollouts import GroupRollouts
from assay.training.watch import Watch


class Trainer(GRPOTrainer):
    """TRL's GRPOTrainer fed by our rollouts.

    TRL hands a rollout function the prompts only; the item ids are kept aside by `_generate_and_score_completions`,
    which sees whole rows (contract test: tests/training/test_trl_contract.py).
    """

    def __init__(self, rollouts: GroupRollouts, **arguments: Any) -> None:
        self._rollouts = rollouts
        self._item_ids: list[str] = []
        rewards: list[Any] = [episode_reward]
        rollout: Any = _roll_out
        super().__init__(reward_funcs=rewards, rollout_func=rollout, **arguments)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._item_ids = [row["item_id"] for row in inputs]
        scored: dict[str, Any] = super()._generate_and_score_completions(inputs)
        return scored

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Take one forward and backward pass; refuse a loss that is not finite before it reaches a weight."""
        loss: torch.Tensor = super().training_step(model, inputs, num_items_in_batch)  # type: ignore[no-untyped-call]
        if not torch.isfinite(loss):
            raise TrainingError(
                "a finite loss",
                found=str(float(loss)),
                where=f"step {self.state.global_step + 1}, items {sorted(set(self._item_ids))[:4]}",
                fix="lower train.learning_rate or train.max_grad_norm; nothing was saved from this step",
            )
        return loss


def _roll_out(prompts: Sequence[Any], trainer: Trainer) -> dict[str, list[Any]]:
    return trainer._rollouts(trainer._item_ids, trainer.state.global_step + 1)


def episode_reward(prompts: Any, completions: Any, episode_reward: Sequence[float], **_: Any) -> list[float]:
    """Return the rewards that the environment gave; the signature is TRL's."""
    return list(episode_reward)


class Recorder(TrainerCallback):
    """Turns what the trainer logs into rows, and runs the validation suite every so many updates.

    Args:
        history: Filled in place.
        rollouts: The source of each step's episodes.
        task: Names the reward parts and flags.
        policy: Validated and compared with its base.
        probe: Episodes of the base policy for the KL.
        probe_settings: Temperature and batch size of the KL probe.
        validate: Plays the validation suite and returns its episodes, sampled and greedy.
        watch: Shown the episodes of every batch and validation.
        every: Updates between validations.
        total_steps: The last step is always validated.
        on_validation: Told each step that was validated, when its episodes are in the history.
        on_step: Told each finished step.
    """

    def __init__(
        self, *, history: History, rollouts: GroupRollouts, task: Task, policy: Policy, probe: Sequence[Rollout],
        probe_settings: tuple[float, int], validate: Callable[[], tuple[list[Episode], list[Episode]]],
        watch: Watch, every: int, total_steps: int, on_validation: Callable[[int], None], on_step: Callable[[int], None],
    ) -> None:  # fmt: skip
        self._history, self._rollouts, self._task, self._policy = history, rollouts, task, policy
        self._probe, self._probe_settings = probe, probe_settings
        self._validate, self._watch, self._every, self._total = validate, watch, every, total_steps
        self._on_validation, self._on_step = on_validation, on_step
        self._started = time.monotonic()

    def _run_validation(self, step: int) -> None:
        sampled, greedy = self._validate()
        self._history.validations.append(Validation(step, sampled, greedy))
        self._watch.look(step, "validation", sampled)
        self._watch.look(step, "greedy validation", greedy)
        self._on_validation(step)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Validate the untrained policy: the first point of the curve."""
        self._run_validation(0)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Write one row a step."""
        if not logs or "loss" not in logs:
            return
        step = int(state.global_step)
        temperature, batch_size = self._probe_settings
        kl = kl_to_base(self._policy, self._probe, temperature=temperature, batch_size=batch_size)
        row = {"step": step, "epoch": state.epoch, "kl": kl}
        row |= {name: _number(logs.get(name)) for name in TRAINING_LOG_COLUMNS if name not in row}
        for name in ("loss", "grad_norm", "kl", "reward"):
            value = row[name]
            if value is None or not math.isfinite(value):
                raise TrainingError(
                    f"a finite {name}", found=str(value), where=f"step {step}",
                    fix="lower train.learning_rate; the adapter of this step is not published",
                )  # fmt: skip
        self._history.training_log.append({name: row[name] for name in TRAINING_LOG_COLUMNS})
        episodes = [r.episode for r in self._rollouts.latest]
        self._history.reward_components.append(component_row(step, episodes, self._task))
        self._watch.look(step, "batch", episodes)
        clocked = {name: _number(value) for name, value in logs.items() if "time" in name or "runtime" in name}
        wall = {"step": step, "wall_time_s": round(time.monotonic() - self._started, 3)}
        self._history.observed.append(wall | clocked)
        plain = {name: _number(value) for name, value in logs.items() if name not in clocked and name != "total_flos"}
        self._history.train_log.append(
            {"step": step, "kl_probe": kl, "item_ids": sorted({e.item_id for e in episodes})} | plain
        )
        self._on_step(step)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Validate every so many updates."""
        step = int(state.global_step)
        if step % self._every == 0 or step == self._total:
            self._run_validation(step)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
