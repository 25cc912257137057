"""One GRPO trainer on top of TRL's: loss, advantages and optimisation are TRL's, rollouts, guard and
checkpoints are ours."""

from __future__ import annotations

import errno
import io
import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from trl import GRPOTrainer  # type: ignore[attr-defined,unused-ignore]

from assay.core.errors import TrainingStopped
from assay.rollout.evaluation.phases import Phases
from assay.rollout.policy.processes import Processes
from assay.training.adapter import finite, tensors_digest, trainable
from assay.training.guard import Guard
from assay.training.logprobs import install, regrouped
from assay.training.rollouts import GroupRollouts
from assay.training.sharded import Shards

ADAPTER = "adapter.safetensors"
TRL_LOGGER, NO_REWARD = "trl.trainer.grpo_trainer", "All reward functions returned None"


def _says_something_new(record: logging.LogRecord) -> bool:
    """Return False for TRL's warning, with a whole prompt in it, of an episode without a reward: it was lost,
    and counted."""
    return not record.getMessage().startswith(NO_REWARD)


logging.getLogger(TRL_LOGGER).addFilter(_says_something_new)


class Trainer(GRPOTrainer):
    """TRL's GRPOTrainer fed by our rollouts, guarded at every link, and saved as a value.

    Private names of TRL and transformers that are relied on each have a contract test
    (tests/training/test_trl_contract.py).

    Args:
        rollouts: Plays the episodes of a step.
        guard: Settles whether a step may move a weight.
        phases: Where the seconds go.
        processes: Everyone who trains together.
        shard: Whether each process holds a part of the frozen base only, while it learns.
        on_save: Given the step and the trainer's files when a checkpoint is due; called by the main process
            alone.
    """

    _buffered_inputs: Any  # of TRL

    def __init__(
        self,
        rollouts: GroupRollouts,
        *,
        guard: Guard,
        phases: Phases,
        processes: Processes,
        shard: bool,
        on_save: Callable[[int, dict[str, bytes]], None],
        **arguments: Any,
    ) -> None:
        self.rollouts, self.guard, self.phases, self.processes = rollouts, guard, phases, processes
        self._on_save = on_save
        self._item_ids: list[str] = []
        self._shard, self._shards = shard, cast("Shards | None", None)
        self.links: dict[str, str] = {}
        self.begun = False  # whether a step has been begun, so that all that was saved is taken up
        rewards: list[Any] = [episode_reward]
        rollout: Any = _roll_out
        super().__init__(reward_funcs=rewards, rollout_func=rollout, **arguments)
        for _, parameter in trainable(self.model):
            # QLoRA's adapters arrive in bfloat16, where small steps round away
            parameter.data = parameter.data.float()
        self._counted = torch.zeros(0, 0, dtype=torch.bool)
        policy: Any = self.model
        # Stock scores whole rows: models of one piece, and mixtures of experts whose routers look at all
        # tokens.
        self._narrow = not self.aux_loss_enabled and install(policy.get_base_model())

    @property
    def step_at_work(self) -> int:
        """The optimizer step that is being made, counted from 1."""
        return int(self.state.global_step) + 1

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._item_ids = [row["item_id"] for row in inputs]
        with self.whole():
            scored: dict[str, Any] = super()._generate_and_score_completions(inputs)
        return scored

    def whole(self) -> AbstractContextManager[None]:
        """Hold the whole base meanwhile, which playing and looking need. Every process has to enter."""
        return nullcontext() if self._shards is None else self._shards.whole()

    def part(self) -> None:
        """Leave the model as it was before training but for its adapter. Every process has to call this."""
        if self._shards is not None:
            self._shards.part()
            self._shards = None

    def _wrap_model(self, model: Any, training: bool = True, dataloader: Any = None) -> Any:
        """Return what learns: what is wrapped here accelerate leaves alone."""
        if not self._shard or not training:
            return super()._wrap_model(model, training, dataloader)
        self._shards = Shards(self.model, self.args.device)
        return self._shards.learner

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        """Return the next micro-batch; those of a step are dealt anew, unless the loss depends on who is in
        one."""
        self.begun = True
        window = self.args.steps_per_generation * self.num_iterations  # type: ignore[attr-defined]
        inputs = super()._prepare_inputs(generation_batch)
        if self._step % window == 0 and self.loss_type != "bnpo":
            self._buffered_inputs = regrouped(self._buffered_inputs)
            inputs = self._buffered_inputs[0]
        return inputs

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        **rest: Any,
    ) -> Any:
        if not self._narrow:
            return super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, batch_size, compute_entropy, **rest
            )
        with self.accelerator.autocast():
            scored = model(
                input_ids=input_ids,
                attention_mask=attention_mask,
                counted=self._counted.to(input_ids.device),
                most=batch_size or len(input_ids),
                together=self._shards is not None and model is self._shards.learner,
            )
        return scored.log_probs, scored.entropy if compute_entropy else None, None

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the loss of one micro-batch."""
        self._counted = (inputs["completion_mask"] * inputs["tool_mask"]).bool()
        with self.phases("forward"):
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Take one forward and backward pass; a loss that is not finite is noted, and counts as missing."""
        # What is neither playing nor the forward pass is the backward pass, but for TRL's bookkeeping.
        with self.phases("backward"):
            loss: torch.Tensor = super().training_step(model, inputs, num_items_in_batch)  # type: ignore[no-untyped-call]
        return loss if self.guard.note("loss", [float(loss)], self._item_ids) else torch.zeros_like(loss)

    def _clip_grad_norm(self, model: Any) -> Any:
        """Clip as ever, then let the guard settle: a step that must not move a weight loses its gradients
        here."""
        named = trainable(self.model)
        if self._shards is not None:
            with self.phases("backward"):
                self._shards.average([parameter for _, parameter in named])
        with self.phases("logging"):
            self.links["gradients"] = tensors_digest((name, p.grad) for name, p in named)
        with self.phases("optimizer"):
            norm = super()._clip_grad_norm(model)  # type: ignore[no-untyped-call]
        # Clipping spreads one NaN over all gradients, so the norm says of all of them whether they are
        # finite.
        self.guard.note("gradient", [float(norm)], self._item_ids)
        if self.guard.settle(self.step_at_work) is not None:
            for _, parameter in named:
                parameter.grad = None
        return norm

    def look_at_weights(self) -> None:
        """Take the digest of the weights after a step, and refuse a step that has poisoned them.

        Raises:
            Poisoned: A parameter is not finite.
            TrainingStopped: The processes no longer have the same weights.
        """
        named = trainable(self.model)
        self.links["weights"] = tensors_digest(named)
        everywhere = self.processes.gather(self.links["weights"])
        if len(set(everywhere)) > 1:
            raise TrainingStopped(
                "equal weights in all processes",
                found=", ".join(digest[:12] for digest in everywhere),
                where=f"step {int(self.state.global_step)}, by rank",
                fix=(
                    "run on equal machines with equal packages; call again to go on from the newest"
                    " checkpoint"
                ),
            )
        if not finite(p for _, p in named):
            self.guard.refuse(int(self.state.global_step), "parameter", float("nan"), self._item_ids)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        with self.phases("checkpoint"):
            random_states = self.processes.gather(self._random_state())
            if self.processes.main:
                self._on_save(int(self.state.global_step), self._files() | dict(random_states))

    def _random_state(self) -> tuple[str, bytes]:
        """Return the file, by name and content, in which transformers keeps every generator's state of this
        process."""
        with tempfile.TemporaryDirectory(prefix="assay-rng-") as scratch:
            try:
                self._save_rng_state(scratch)
            # Torch tells of a full disk by the line of its own source that noticed
            except RuntimeError as error:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), scratch) from error
            written = next(Path(scratch).iterdir())
            return written.name, written.read_bytes()

    def _files(self) -> dict[str, bytes]:
        window = self.args.steps_per_generation * self.num_iterations  # type: ignore[attr-defined]
        assert self._step % window == 0, (
            "a checkpoint inside a generation window would lose the window's episodes"
        )
        assert self.optimizer is not None and self.lr_scheduler is not None
        files = {
            ADAPTER: save_tensors({name: p.detach().cpu().contiguous() for name, p in trainable(self.model)}),
            "optimizer.pt": _saved(self.optimizer.state_dict()),
            "scheduler.pt": _saved(self.lr_scheduler.state_dict()),
            "trainer_state.json": _trainer_state(self.state),
        }
        scaler = getattr(self.accelerator, "scaler", None)
        return files if scaler is None else files | {"scaler.pt": _saved(scaler.state_dict())}

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """Put the adapter back bit by bit; peft's own way would go through another type where the base is
        quantised."""
        tensors = load_tensors((Path(resume_from_checkpoint) / ADAPTER).read_bytes())
        with torch.no_grad():
            for name, parameter in trainable(self.model):
                parameter.copy_(tensors[name])


def _saved(value: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def _trainer_state(state: Any) -> bytes:
    with tempfile.TemporaryDirectory(prefix="assay-state-") as scratch:
        path = os.path.join(scratch, "trainer_state.json")
        state.save_to_json(path)
        return Path(path).read_bytes()


def _roll_out(prompts: Sequence[Any], trainer: Trainer) -> dict[str, Any]:
    fields = trainer.rollouts(trainer._item_ids, trainer.step_at_work)
    masks = [torch.as_tensor(mask, dtype=torch.bool) for mask in fields["env_mask"]]
    trainer._counted = torch.nn.utils.rnn.pad_sequence(masks, batch_first=True)
    return fields


def episode_reward(
    prompts: Any, completions: Any, episode_reward: Sequence[float | None], **_: Any
) -> list[float | None]:
    """Return the rewards that the environment gave, None for what it lost; the signature is TRL's."""
    return list(episode_reward)
