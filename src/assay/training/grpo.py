"""Assemble and run one training: adapter on a frozen base, TRL's settings from ours, the checkpoint rule."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from assay.config.settings import Params
from assay.errors import ConfigError, TrainingError
from assay.evaluation.openings import open_item
from assay.evaluation.rollout import play
from assay.evaluation.suite import Suite, choose
from assay.policy.decoding import Decoding
from assay.policy.model import Policy
from assay.records import Episode
from assay.seeds import derive_seed, rng
from assay.tasks.protocol import Item, Task
from assay.training.history import History, Validation
from assay.training.rollouts import GroupRollouts
from assay.training.watch import Watch

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Trained:
    """The outcome of a training: the chosen step and its adapter, and the adapter's configuration."""

    chosen_step: int
    adapter: Tensors
    adapter_config: dict[str, Any]


def item_order(items: Sequence[Item], n: int, seed: int) -> list[Item]:
    """Return the n items that will be trained on, in order: one permutation an epoch, a function of (seed, epoch)."""
    order: list[Item] = []
    while len(order) < n:
        permutation = rng("item order", seed, len(order) // len(items)).permutation(len(items))
        order += [items[i] for i in permutation]
    return order[:n]


def attach_adapter(policy: Policy, params: Params) -> Policy:
    """Return the policy with a fresh LoRA adapter in float32; base weights are frozen.

    The adapter starts as the identity (B = 0) and its A matrices are a function of the training seed.
    """
    from peft import LoraConfig, get_peft_model

    lora = params.train.lora
    torch.manual_seed(derive_seed("adapter", params.seed))
    config = LoraConfig(
        r=lora.r, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=lora.target_modules,
        task_type="CAUSAL_LM",
    )  # fmt: skip
    try:
        model = get_peft_model(policy.model, config)
    except ValueError as error:
        found = str(error).split("\n")[0]
        fix = "name modules the base has, or all-linear"
        raise ConfigError("modules to adapt", found=found, where="params.yaml, train.lora.target_modules", fix=fix) from None
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return Policy(model, policy.tokenizer, policy.dialogue, policy.digest)


def adapter_tensors(policy: Policy) -> Tensors:
    """Return a copy of the adapter's weights on the CPU."""
    from peft import get_peft_model_state_dict

    return {name: t.detach().cpu().clone().contiguous() for name, t in get_peft_model_state_dict(policy.model).items()}


def adapter_config(policy: Policy) -> dict[str, Any]:
    """Return the adapter's configuration with sets sorted, so that equal runs write equal bytes."""
    config = policy.model.peft_config["default"].to_dict()
    plain = {name: sorted(value) if isinstance(value, set) else value for name, value in config.items()}
    plain["inference_mode"] = True
    plain["base_model_name_or_path"] = "models/base"  # peft would write the absolute path of this machine
    decoded: dict[str, Any] = json.loads(json.dumps(plain, sort_keys=True, default=str))
    return decoded


def save_adapter(folder: Path, trained: Trained) -> None:
    """Write an adapter folder that peft reads.

    Raises:
        TrainingError: A weight is not finite; nothing is written.
    """
    for name, tensor in trained.adapter.items():
        if not torch.isfinite(tensor).all():
            raise TrainingError("finite weights", found=f"NaN or Inf in {name}", where="adapter", fix="train again")
    folder.mkdir(parents=True, exist_ok=True)
    save_file(trained.adapter, str(folder / "adapter_model.safetensors"), metadata={"format": "pt"})
    text = json.dumps(trained.adapter_config, indent=2, sort_keys=True) + "\n"
    (folder / "adapter_config.json").write_text(text, encoding="utf-8")


def chosen_step(validations: Sequence[Validation], rule: str) -> int:
    """Return the step whose checkpoint is published, by a rule fixed before training.

    best_validation_reward takes the highest mean reward over the sampled draws of the validation suite, the earlier
    step on a tie; last takes the last.
    """
    if rule == "last":
        return validations[-1].step
    means = [float(np.mean([e.reward for e in validation.sampled])) for validation in validations]
    return validations[int(np.argmax(means))].step


def train(
    base: Policy, task: Task, judged: Task, items: Sequence[Item], validation: Suite, params: Params,
    *, history: History, watch: Watch, on_step: Callable[[int], None],
) -> Trained:  # fmt: skip
    """Train an adapter with GRPO and return the checkpoint that the rule chooses.

    Args:
        base: The pinned base policy.
        task: What is trained on (shaping may be on).
        judged: The same task as it is evaluated, without shaping.
        items: Training items; this function cannot name the held-out split.
        validation: The suite that chooses the checkpoint; its items are also played greedily.
        params: All settings.
        history: Filled while training, so that a caller can publish curves.
        watch: Shown every episode, for alarms and cut prompts.
        on_step: Told each finished step.

    Raises:
        TaskError: The prompt of an item is longer than the task allows.
        TrainingError: Loss, gradient or weights are not finite.
    """
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # rollout_func is experimental; we pin trl exactly
    from datasets import Dataset
    from datasets.utils.logging import disable_progress_bar
    from transformers import PrinterCallback

    from assay.training.trainer import Recorder, Trainer

    disable_progress_bar()
    settings, generation = params.train, params.generation
    decoding = Decoding(generation.temperature, params.task.max_new_tokens[generation.surface])
    policy = attach_adapter(base, params)
    by_id = {item.id: item for item in items}
    rollouts = GroupRollouts(policy, task, by_id, decoding, batch_size=generation.batch_size, seed=params.seed)
    order = item_order(items, settings.steps * settings.items_per_step, params.seed)
    _check_openings(policy, task, [*order, *validation.items])
    # TRL wants a prompt column; what the policy really reads comes from Task.start.
    rows = Dataset.from_list([{"prompt": item.id, "item_id": item.id} for item in order])
    checkpoints: dict[int, Tensors] = {}
    # The untrained adapter is the base: its episodes on a slice of train items are what the KL is measured on.
    probe_suite = choose(items, settings.kl_probe_episodes, split="train", draws=1, seed=0)
    probe = play(policy, task, probe_suite.plays(), decoding, batch_size=generation.batch_size)

    def validated(suite: Suite, temperature: float) -> list[Episode]:
        chosen = replace(decoding, temperature=temperature)
        # Training goes on as if nobody had looked: whatever a model draws while it is validated is put back.
        with torch.random.fork_rng():
            played = play(policy, judged, suite.plays(), chosen, batch_size=generation.batch_size)
        return [r.episode for r in played]

    def validate() -> tuple[list[Episode], list[Episode]]:
        return validated(validation, generation.temperature), validated(replace(validation, draws=1), 0.0)

    def keep_checkpoint(step: int) -> None:
        checkpoints[step] = adapter_tensors(policy)

    with tempfile.TemporaryDirectory(prefix="assay-trl-") as scratch, warnings.catch_warnings():
        # transformers renames gradient_checkpointing; TRL 1.16 still asks for the old name.
        warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
        trainer = Trainer(
            rollouts,
            model=policy.model,
            args=grpo_config(params, scratch),
            train_dataset=rows,
            processing_class=policy.tokenizer,
        )
        recorder = Recorder(
            history=history, rollouts=rollouts, task=task, policy=policy, probe=probe,
            probe_settings=(generation.temperature, settings.micro_batch_size), validate=validate,
            watch=watch, every=params.validation.interval, total_steps=settings.steps,
            on_validation=keep_checkpoint, on_step=on_step,
        )  # fmt: skip
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(recorder)
        trainer.train()
    step = chosen_step(history.validations, params.claim.checkpoint_rule)
    return Trained(step, checkpoints[step], adapter_config(policy))


def _check_openings(policy: Policy, task: Task, items: Sequence[Item]) -> None:
    """Refuse a prompt that is too long before the first step, not hours later in the middle of a run."""
    if task.max_prompt_tokens is not None:
        for item in {item.id: item for item in items}.values():
            open_item(task, policy.dialogue, item, 0)


def grpo_config(params: Params, scratch: str) -> Any:
    """Return TRL's configuration for our settings; every surprising default is set by name."""
    from trl import GRPOConfig  # type: ignore[attr-defined,unused-ignore]

    settings = params.train
    episodes = settings.items_per_step * settings.group_size
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
        save_strategy="no",
        eval_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        remove_unused_columns=False,
    )
