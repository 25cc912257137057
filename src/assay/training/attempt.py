"""One go at a training: everything assembled, from the beginning or from a checkpoint, to the end or to a poisoned step."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from assay.config.settings import Params
from assay.console import complain
from assay.errors import Interrupted, TrainingStopped
from assay.evaluation.phases import Phases
from assay.evaluation.rollout import Rollout, play
from assay.evaluation.suite import Play, Suite, choose
from assay.policy.decoding import Decoding
from assay.policy.model import Policy
from assay.records import Episode
from assay.storage.json import as_written
from assay.tasks.protocol import Item, Task
from assay.training.adapter import Tensors, Trained, adapter_config, adapter_tensors
from assay.training.checkpoints import Checkpoint, Checkpoints
from assay.training.digests import trainable
from assay.training.divergence import kl_to_base
from assay.training.guard import Guard
from assay.training.health import Monitor
from assay.training.history import History, Validation
from assay.training.interruption import Interruption
from assay.training.processes import Processes
from assay.training.randomness import untouched
from assay.training.recipe import chosen_step, grpo_config
from assay.training.recorder import Ledger, Recorder, Schedule, Tell
from assay.training.rollouts import GroupRollouts
from assay.training.watch import Watch

REFERENCE = "ref"  # TRL's name for its copy of the adapter, kept where beta is not 0
LEDGER, BEST = "ledger.json", "best.safetensors"
TRL = "trl"  # the folder TRL insists on; nothing of ours is in it


class Attempt:
    """What a training needs, and `run`, which may be called again after a step was poisoned.

    Args:
        policy: With its fresh adapter, which is the identity: it plays the probe that the KL is measured on.
        task: What is trained on.
        judged: What is validated on.
        order: Items of all steps.
        items: All training items.
        validation: The suite that chooses the checkpoint.
        params: All settings.
        processes: Everyone who trains together.
        checkpoints: Where the training is saved.
        history: Filled in place.
        watch: Filled in place.
        on_step: Told each finished step.
        tell: Told what happens.
    """

    def __init__(
        self, policy: Policy, task: Task, judged: Task, order: Sequence[Item], items: Sequence[Item], validation: Suite,
        params: Params, *, processes: Processes, checkpoints: Checkpoints, history: History, watch: Watch,
        on_step: Callable[[int], None], tell: Tell,
    ) -> None:  # fmt: skip
        self._policy, self._task, self._judged, self._order, self._items = policy, task, judged, order, items
        self._validation, self._params, self._processes, self._checkpoints = validation, params, processes, checkpoints
        self._on_step, self._tell = on_step, tell
        generation = params.generation
        self._decoding = Decoding(generation.temperature, params.task.max_new_tokens[generation.surface])
        self._ledger = Ledger(history, watch, Monitor(params.health, task))
        self._best: Tensors = {}
        suite = choose(items, params.train.kl_probe_episodes, split="train", draws=1, seed=0)
        self._probe = self._play(task, suite.plays(), self._decoding)
        self._guard = Guard(params.health, processes, {})
        self._fresh = [(p, p.detach().clone()) for _, p in trainable(policy.model)]

    @property
    def skipped(self) -> Mapping[int, str]:
        """The steps that moved no weight so far, and why."""
        return self._guard.skipped

    @property
    def monitor(self) -> Monitor:
        """The alarms as they stand."""
        return self._ledger.monitor

    def run(self, start: Checkpoint | None, skipped: Mapping[int, str]) -> Trained:
        """Train from a checkpoint, or from the beginning, to the end.

        Raises:
            Poisoned: A step cannot be gone through with.
            TrainingStopped: An alarm says that nothing can be learned.
            Interrupted: A signal asked to stop.
        """
        os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # rollout_func is experimental; we pin trl exactly
        from datasets import Dataset
        from datasets.utils.logging import disable_progress_bar
        from transformers import PrinterCallback

        from assay.training.trainer import Trainer

        disable_progress_bar()
        params, settings, generation, ledger = self._params, self._params.train, self._params.generation, self._ledger
        self._guard = guard = Guard(params.health, self._processes, skipped)
        self._reset_adapters()
        if start is not None:
            self._go_back(start)
        phases = Phases()
        rollouts = GroupRollouts(
            self._policy, self._task, {item.id: item for item in self._items}, self._decoding,
            batch_size=generation.batch_size, seed=params.seed, retries=params.health.retries,
            max_lost_share=params.health.max_lost_share, phases=phases, guard=guard,
        )  # fmt: skip
        # TRL wants a prompt column; what the policy really reads comes from Task.start.
        rows = Dataset.from_list([{"prompt": item.id, "item_id": item.id} for item in self._order])
        schedule = Schedule(params.validation.interval, params.checkpoint.every, settings.steps)
        with Interruption(self._say_wait) as interruption, warnings.catch_warnings():
            # transformers renames gradient_checkpointing; TRL 1.16 still asks for the old name.
            warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
            trainer = Trainer(
                rollouts, guard=guard, phases=phases, processes=self._processes, on_save=self._save,
                model=self._policy.model, args=grpo_config(params, str(self._checkpoints.folder / TRL)), train_dataset=rows,
                processing_class=self._policy.tokenizer,
            )  # fmt: skip
            recorder = Recorder(
                ledger, trainer, self._task, schedule, interruption, processes=self._processes, guard=guard, phases=phases,
                latest=lambda: rollouts.latest, kl=self._kl, validate=self._validate, tell=self._tell, on_step=self._on_step,
            )  # fmt: skip
            trainer.remove_callback(PrinterCallback)
            trainer.add_callback(recorder)
            trainer.train(resume_from_checkpoint=None if start is None else str(start.folder))
        step = int(trainer.state.global_step)
        if ledger.stopped is not None:
            raise TrainingStopped(
                "a training that can learn",
                found=ledger.stopped.message.rstrip("."),
                where=f"step {ledger.stopped.step}",
                fix="do what it says (health.jsonl has all of it), or change the stop levels under health: either begins anew",
            )
        if step < settings.steps:
            name = "a signal" if interruption.signal is None else interruption.signal.name
            raise Interrupted(name, where=f"after step {step} of {settings.steps}", exit_code=interruption.exit_code)
        chosen = chosen_step(ledger.history.validations, params.claim.checkpoint_rule)
        return Trained(chosen, self._best, adapter_config(self._policy), ledger.monitor.unmeasured)

    def _reset_adapters(self) -> None:
        """Make the policy what it was before the first go: TRL takes the adapter it finds for the reference of its KL."""
        if REFERENCE in self._policy.model.peft_config:
            self._policy.model.delete_adapter(REFERENCE)
        with torch.no_grad():
            for parameter, fresh in self._fresh:
                parameter.copy_(fresh)

    def _say_wait(self, name: str) -> None:
        if self._processes.main:
            complain(f"{name}: the step at work will be finished and saved first; once more stops at once")

    def _kl(self) -> float:
        temperature, size = self._params.generation.temperature, self._params.train.micro_batch_size
        return kl_to_base(self._policy, self._probe, temperature=temperature, batch_size=size)

    def _validate(self, step: int) -> Validation:
        sampled = self._played(self._validation, self._params.generation.temperature)
        validation = Validation(step, sampled, self._played(replace(self._validation, draws=1), 0.0))
        history = self._ledger.history
        if chosen_step([*history.validations, validation], self._params.claim.checkpoint_rule) == step:
            self._best = adapter_tensors(self._policy)
        if self._processes.main:
            self._checkpoints.keep_validation(step, validation.lines())
        return validation

    def _played(self, suite: Suite, temperature: float) -> list[Episode]:
        """Play a suite, each process its share of the batches; everybody gets all episodes."""
        plays, size = suite.plays(), self._params.generation.batch_size
        batches = [plays[start : start + size] for start in range(0, len(plays), size)]
        decoding = replace(self._decoding, temperature=temperature)
        # Training goes on as if nobody had looked: whatever is drawn while a policy is validated is put back.
        with untouched():
            mine = [
                (index, [r.episode for r in self._play(self._judged, batch, decoding)])
                for index, batch in self._processes.share(batches)
            ]
        everyone = sorted((pair for part in self._processes.gather(mine) for pair in part), key=lambda pair: pair[0])
        return [episode for _, episodes in everyone for episode in episodes]

    def _play(self, task: Task, plays: Sequence[Play], decoding: Decoding) -> list[Rollout]:
        size, retries = self._params.generation.batch_size, self._params.health.retries
        return play(self._policy, task, plays, decoding, batch_size=size, retries=retries)

    def _save(self, step: int, files: dict[str, bytes]) -> None:
        ledger = self._ledger
        state = {
            "rows": ledger.history.rows(), "watch": ledger.watch.state(), "monitor": ledger.monitor.state(),
            "chain": ledger.chain, "seconds": ledger.seconds, "skipped": {str(k): v for k, v in self._guard.skipped.items()},
        }  # fmt: skip
        content = {**files, LEDGER: as_written(state).encode(), BEST: save_tensors(self._best)}
        self._checkpoints.save(step, content, healthy="RED" not in ledger.levels())
        self._tell("checkpoint", {"step": step})

    def _go_back(self, start: Checkpoint) -> None:
        ledger, state = self._ledger, json.loads(start.read(LEDGER))
        validated = state["rows"]["validated"]
        validations = [Validation.of_lines(step, self._checkpoints.validation(step)) for step in validated]
        ledger.history.go_back(state["rows"], validations)
        ledger.watch.go_back(state["watch"])
        ledger.monitor = Monitor.restore(self._params.health, self._task, state["monitor"])
        ledger.chain, ledger.seconds, ledger.stopped = state["chain"], state["seconds"], None
        self._guard.skipped = {int(k): v for k, v in state["skipped"].items()} | self._guard.skipped
        self._best = load_tensors(start.read(BEST))
