"""One go at a training: everything assembled, from the beginning or from a checkpoint, to the end or to a
poisoned step."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from assay.core.config.settings import Params
from assay.core.console import complain
from assay.core.decoding import Decoding
from assay.core.errors import Interrupted, TrainingStopped
from assay.core.storage.json import as_written
from assay.dataset.suite import Suite
from assay.evaluation.phases import Phases
from assay.evaluation.rollout import Lost
from assay.policy.model import Policy
from assay.policy.processes import Processes
from assay.tasks.protocol import Item, Task
from assay.training.adapter import Tensors, TrainedAdapter, adapter_config, adapter_tensors, trainable
from assay.training.checkpoints.store import Checkpoint, Checkpoints, refuse_going_on
from assay.training.health.commonest import Honest
from assay.training.health.guard import Guard, Poisoned
from assay.training.health.rules import Monitor
from assay.training.kl import Divergence, Text
from assay.training.log.callback import Interruption, Recorder, Schedule, Tell, TrainingLedger
from assay.training.log.history import History, LostValidation, Validation, Watch
from assay.training.log.reporters import reporting
from assay.training.recipe import chosen_step, grpo_config
from assay.training.rollouts import Credit, GroupRollouts, SideRollouts, whole

REFERENCE = "ref"  # TRL's name for its copy of the adapter, kept where beta is not 0
LEDGER, BEST = "ledger.json", "best.safetensors"
TRL = "trl"  # the folder TRL insists on; nothing of ours is in it


class Attempt:
    """What a training needs, and `run`, which may be called again after a step was poisoned.

    Args:
        policy: With its fresh adapter, which is the identity: it plays the probe that the KL is measured on,
            once a training.
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
        credit: Pays instead of the task; None: the task pays.
    """

    def __init__(
        self,
        policy: Policy,
        task: Task,
        judged: Task,
        order: Sequence[Item],
        items: Sequence[Item],
        validation: Suite,
        params: Params,
        *,
        processes: Processes,
        checkpoints: Checkpoints,
        history: History,
        watch: Watch,
        on_step: Callable[[int], None],
        tell: Tell,
        credit: Credit | None = None,
    ) -> None:
        self._policy, self._task, self._judged, self._order, self._items = policy, task, judged, order, items
        self._validation, self._params, self._processes, self._checkpoints = (
            validation,
            params,
            processes,
            checkpoints,
        )
        self._on_step, self._tell, self._credit = on_step, tell, credit
        generation = params.generation
        limit = params.task.max_new_tokens[generation.surface]
        self._decoding = Decoding(generation.temperature, limit, generation.backend, generation.cuda_graphs)
        self._player = SideRollouts(policy, params, self._decoding, processes)
        self._ledger = TrainingLedger(history, watch, Monitor(params.health, task, Honest(task, items)))
        self._best: Tensors = {}
        self._probe: list[Text] = []
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

    def run(self, start: Checkpoint | None, skipped: Mapping[int, str]) -> TrainedAdapter:
        """Train from a checkpoint, or from the beginning, to the end.

        Raises:
            Poisoned: A step cannot be gone through with.
            TrainingStopped: An alarm says that nothing can be learned.
            Interrupted: A signal asked to stop.
        """
        os.environ.setdefault(
            "TRL_EXPERIMENTAL_SILENCE", "1"
        )  # rollout_func is experimental; we pin trl exactly
        from datasets import Dataset
        from datasets.utils.logging import disable_progress_bar
        from transformers import PrinterCallback

        from assay.training.trainer import Trainer

        disable_progress_bar()
        params, settings, generation, ledger = (
            self._params,
            self._params.train,
            self._params.generation,
            self._ledger,
        )
        self._guard = guard = Guard(params.health, self._processes, skipped)
        self._reset_adapters()
        if start is not None:
            with refuse_going_on(start):
                self._go_back(start)
        self._probe = self._probe or self._player.fixed_probe(self._task, self._items, self._tell)
        with refuse_going_on(start):
            self._divergence = Divergence(
                self._policy,
                self._probe,
                temperature=generation.temperature,
                batch_size=settings.micro_batch_size,
            )
        phases = Phases()
        rollouts = GroupRollouts(
            self._policy,
            self._task,
            {item.id: item for item in self._items},
            self._decoding,
            batch_size=generation.batch_size,
            seed=params.seed,
            retries=params.health.retries,
            max_lost_share=params.health.max_lost_share,
            phases=phases,
            guard=guard,
            processes=self._processes,
            credit=self._credit,
        )
        # TRL wants a prompt column; what the policy really reads comes from Task.start.
        rows = Dataset.from_list([{"prompt": item.id, "item_id": item.id} for item in self._order])
        schedule = Schedule(params.validation.interval, params.checkpoint.every, settings.steps)
        reported = reporting(
            params,
            ledger.history,
            self._checkpoints.folder,
            0 if start is None else start.step,
            main=self._processes.main,
        )
        with Interruption(self._say_wait) as interruption, reported as reports, warnings.catch_warnings():
            # transformers renames gradient_checkpointing; TRL 1.16 still asks for the old name.
            warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
            trainer = Trainer(
                rollouts,
                guard=guard,
                phases=phases,
                processes=self._processes,
                on_save=self._save,
                shard=params.distributed.engine == "fsdp",
                model=self._policy.model,
                args=grpo_config(params, str(self._checkpoints.folder / TRL)),
                train_dataset=rows,
                processing_class=self._policy.tokenizer,
            )
            recorder = Recorder(
                ledger,
                trainer,
                self._task,
                schedule,
                interruption,
                processes=self._processes,
                guard=guard,
                phases=phases,
                latest=lambda: rollouts.latest,
                kl=self._kl,
                validate=self._validate,
                tell=self._tell,
                on_step=self._on_step,
            )
            trainer.remove_callback(PrinterCallback)
            trainer.add_callback(recorder)
            trainer.add_callback(reports)  # behind the recorder: it shows what that has written
            try:
                with refuse_going_on(start, lambda: trainer.begun):
                    trainer.train(resume_from_checkpoint=None if start is None else str(start.folder))
            except Poisoned:  # by all processes alike, who begin anew
                trainer.part()
                raise
            trainer.part()
        step = int(trainer.state.global_step)
        if ledger.stopped is not None:
            raise TrainingStopped(
                "a training that can learn",
                found=ledger.stopped.message.rstrip("."),
                where=f"step {ledger.stopped.step}",
                fix=(
                    "do what it says (health.jsonl has all of it), or change the stop levels under health:"
                    " either begins anew"
                ),
            )
        if step < settings.steps:
            name = "a signal" if interruption.heard is None else interruption.heard.name
            raise Interrupted(
                name, where=f"after step {step} of {settings.steps}", exit_code=interruption.exit_code
            )
        chosen = chosen_step(ledger.history.validations, params.claim.checkpoint_rule, step)
        return TrainedAdapter(
            chosen, self._best, adapter_config(self._policy), ledger.monitor.unmeasured, ledger.monitor.facts
        )

    def _reset_adapters(self) -> None:
        """Make the policy what it was before the first go: TRL takes the adapter it finds for the reference
        of its KL."""
        if REFERENCE in self._policy.model.peft_config:
            self._policy.model.delete_adapter(REFERENCE)
        with torch.no_grad():
            for parameter, fresh in self._fresh:
                parameter.copy_(fresh)

    def _say_wait(self, name: str) -> None:
        if self._processes.main:
            complain(f"{name}: the step at work will be finished and saved first; once more stops at once")

    def _kl(self) -> float:
        return self._divergence()

    def _validate(self, step: int) -> Validation | LostValidation:
        """Play the validation suite, whole or for nothing: episodes left out would choose a checkpoint by an
        easier suite.

        Raises:
            EnvironmentLost: The first validation is incomplete, before anything was learned that could be
                lost.
            TaskError: A reward is not finite, which no other try would change.
        """
        sampled = self._player.played(self._judged, self._validation, self._params.generation.temperature)
        greedy = self._player.played(self._judged, replace(self._validation, draws=1), 0.0)
        history, rule = self._ledger.history, self._params.claim.checkpoint_rule
        n, lost = len(sampled) + len(greedy), [each for each in (*sampled, *greedy) if isinstance(each, Lost)]
        if lost:
            if broken := next(
                (each for each in lost if each.reward is not None or not history.validations), None
            ):
                raise broken.error
            if rule == "last":
                self._best = adapter_tensors(self._policy)
            return LostValidation(
                step, n, len(lost), sorted({each.play.item.id for each in lost}), lost[0].reason
            )
        validation = Validation(step, whole(sampled), whole(greedy))
        if chosen_step([*history.validations, validation], rule) == step:
            self._best = adapter_tensors(self._policy)
        if self._processes.main:
            self._checkpoints.keep_validation(step, validation.lines())
        return validation

    def _state(self) -> bytes:
        ledger = self._ledger
        state = {
            "probe": [list(text) for text in self._probe],
            "rows": ledger.history.rows(),
            "watch": ledger.watch.state(),
            "monitor": ledger.monitor.state(),
            "chain": ledger.chain,
            "seconds": ledger.seconds,
            "skipped": {str(k): v for k, v in self._guard.skipped.items()},
        }
        return as_written(state).encode()

    def _save(self, step: int, files: dict[str, bytes]) -> None:
        ledger = self._ledger
        content = {**files, LEDGER: self._state(), BEST: save_tensors(self._best)}
        self._checkpoints.save(step, content, healthy="RED" not in ledger.levels())
        self._tell("checkpoint", {"step": step})

    def _go_back(self, start: Checkpoint) -> None:
        ledger, state = self._ledger, json.loads(start.read(LEDGER))
        self._probe = [Text(*text) for text in state["probe"]]
        rows = self._policy.model.get_input_embeddings().weight.shape[0]
        if any(token >= rows for text in self._probe for token in (*text.prompt_ids, *text.completion_ids)):
            raise ValueError("a probe of tokens that the base does not know")
        validated = state["rows"]["validated"]
        validations = [Validation.of_lines(step, self._checkpoints.validation(step)) for step in validated]
        ledger.history.go_back(state["rows"], validations)
        ledger.watch.go_back(state["watch"])
        ledger.monitor = Monitor.restore(
            self._params.health, self._task, state["monitor"], ledger.monitor.honest
        )
        ledger.chain, ledger.seconds, ledger.stopped = state["chain"], state["seconds"], None
        self._guard.skipped = {int(k): v for k, v in state["skipped"].items()} | self._guard.skipped
        self._best = load_tensors(start.read(BEST))
