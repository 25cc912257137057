"""What a training will do, as a function of its settings: which items when, TRL's settings, which checkpoint
counts; and how the random-reward arm differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.core.config.settings import Params
from assay.core.seeds import derive_seed, rng
from assay.rollout.tasks.protocol import Item
from assay.training.log.history import Validation


def item_order(items: Sequence[Item], n: int, seed: int) -> list[Item]:
    """Return the n items that will be trained on, in order: one permutation an epoch, a function of (seed,
    epoch)."""
    order: list[Item] = []
    while len(order) < n:
        permutation = rng("item order", seed, len(order) // len(items)).permutation(len(items))
        order += [items[i] for i in permutation]
    return order[:n]


def chosen_step(validations: Sequence[Validation], rule: str, last: int | None = None) -> int:
    """Return the step whose checkpoint is published, by a rule fixed before training.

    best_validation_reward takes the highest mean reward over the sampled draws of the validation suite, the
    earlier step on a tie; last takes the last, which is that of the last validation unless `last` names a
    later one (whose validation was lost: the rule does not ask what it showed).
    """
    if rule == "last":
        return validations[-1].step if last is None else last
    if rule != "best_validation_reward":
        raise NotImplementedError(f"claim.checkpoint_rule: {rule}")
    means = [float(np.mean([e.reward for e in validation.sampled])) for validation in validations]
    return validations[int(np.argmax(means))].step


def is_newest_chosen(validations: Sequence[Validation], rule: str) -> bool:
    """Return whether the rule moves to the newest validation, whose weights are then kept.

    Raises:
        NotImplementedError: It goes back to an older one, whose weights are gone.
    """
    newest, now = validations[-1].step, chosen_step(validations, rule)
    if now != newest and now != chosen_step(validations[:-1], rule):
        raise NotImplementedError(
            f"claim.checkpoint_rule: {rule}: with step {newest} it goes back to step {now}, whose weights are"
            " gone; a rule keeps its choice, or moves to the newest validation"
        )
    return now == newest


def grpo_config(params: Params, scratch: str) -> Any:
    """Return TRL's configuration for our settings; every surprising default is set by name."""
    from trl import GRPOConfig  # type: ignore[attr-defined,unused-ignore]

    settings = params.train
    episodes = settings.items_per_step * settings.group_size // params.distributed.processes
    return GRPOConfig(
        output_dir=scratch,
        seed=derive_seed("trainer", params.seed) % 2**31,
        max_steps=settings.steps,
        per_device_train_batch_size=settings.micro_batch_size,
        gradient_accumulation_steps=episodes // settings.micro_batch_size,
        num_generations=settings.group_size,
        num_iterations=settings.num_iterations,
        max_completion_length=None,
        temperature=params.generation.temperature,
        learning_rate=settings.learning_rate,
        lr_scheduler_type=settings.lr_scheduler,
        warmup_steps=settings.warmup_steps,
        weight_decay=0.0,
        max_grad_norm=settings.max_grad_norm,
        beta=settings.beta,
        epsilon=settings.epsilon_low,
        epsilon_high=settings.epsilon_high,
        loss_type=settings.loss_type,
        scale_rewards=settings.scale_rewards,
        shuffle_dataset=False,
        mask_truncated_completions=False,
        disable_dropout=False,
        bf16=False,
        fp16=False,
        use_cpu=params.device == "cpu",
        gradient_checkpointing=settings.gradient_checkpointing,
        logging_steps=1,
        logging_nan_inf_filter=False,
        log_completions=False,
        save_strategy="no",  # when to save is said by our own callback, how by our own trainer
        eval_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        ddp_backend=params.distributed.backend if params.distributed.processes > 1 else None,
        ddp_find_unused_parameters=False,
        remove_unused_columns=False,
    )


def to_the_end(params: Params) -> Params:
    """Return the settings of the random-reward arm: its steps, the last checkpoint for the rule, and none of
    the alarms that end a training, since what becomes of this one is what is asked."""
    endless = {
        name: getattr(params.health, name).model_copy(update={"stop_for": params.train.steps + 1})
        for name in ("zero_variance", "truncated")
    }
    return params.model_copy(
        update={
            "health": params.health.model_copy(update=endless),
            "claim": params.claim.model_copy(update={"checkpoint_rule": "last"}),
            "train": params.train.model_copy(update={"steps": params.control_steps}),
        }
    )


def coin(seed: int, step: int, item_id: str, member: int) -> float:
    """Return 0.0 or 1.0, a function of training seed, step, item and place in the group, and of nothing that
    was played.

    Source: the random reward of Shao et al. (2025), arXiv 2506.10947, section 2, with probability one half.
    """
    return float(derive_seed("random reward", seed, step, item_id, member) & 1)
