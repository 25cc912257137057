"""Train an adapter with GRPO, through crashes and poisoned steps: begin, go on, or go back.

An attempt is one go at it, from the beginning or from a checkpoint, to the end or to a poisoned step.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from assay.core.console import complain
from assay.core.decoding import Decoding
from assay.core.errors import Interrupted, TrainingStopped
from assay.core.storage.json import as_written
from assay.health.rules.commonest import Honest
from assay.health.rules.rules import Monitor
from assay.rollout.dataset.suite import Play
from assay.rollout.evaluation.phases import Phases
from assay.rollout.evaluation.retries import GivenUp, tried
from assay.rollout.evaluation.rollout import Lost
from assay.rollout.evaluation.trajectory import open_item
from assay.rollout.policy.model import Policy
from assay.rollout.policy.processes import Processes
from assay.rollout.tasks.protocol import Item, Task
from assay.training.adapter import (
    Tensors,
    TrainedAdapter,
    adapter_config,
    adapter_tensors,
    attach_adapter,
    trainable,
)
from assay.training.checkpoints.store import Checkpoint, Checkpoints, refuse_going_on
from assay.training.guard import Guard, Poisoned
from assay.training.honest_play import honest_play
from assay.training.kl import Divergence, Text
from assay.training.log.callback import Interruption, Recorder, Schedule, Tell, TrainingLedger
from assay.training.log.history import History, LostValidation, Validation, Watch
from assay.training.log.reporters import reporting
from assay.training.recipe import chosen_step, grpo_config, is_newest_chosen, item_order
from assay.training.rollouts import GroupRollouts, SideRollouts, whole
from assay.training.setup import Setup

REFERENCE = "ref"  # TRL's name for its copy of the adapter, kept where beta is not 0
LEDGER, BEST = "ledger.json", "best.safetensors"
TRL = "trl"  # the folder TRL insists on; nothing of ours is in it


def train(
    base: Policy,
    setup: Setup,
    *,
    checkpoints: Checkpoints,
    start: Checkpoint | None,
    history: History,
    watch: Watch,
    on_step: Callable[[int], None],
    tell: Tell = lambda event, facts: None,
) -> TrainedAdapter:
    """Train an adapter with GRPO, or go on with it, and return the checkpoint that the rule chooses.

    Args:
        base: The pinned base policy.
        setup: What is trained on, what chooses the checkpoint, and by which settings.
        checkpoints: Where the training is saved as it goes.
        start: Where to go on from; None begins.
        history: Filled while training, so that a caller can publish curves.
        watch: Shown every episode, for alarms and cut prompts.
        on_step: Told each finished step.
        tell: Told what happens, for the log of events.

    Raises:
        TaskError: The prompt of an item is longer than the task allows.
        EnvironmentLost: The environment failed for good before the first step, where nothing is lost by
            ending.
        TrainingStopped: Something is not finite, or an alarm says that nothing can be learned.
        Interrupted: A signal asked to stop; the last finished step is saved.
        TrainingError: A checkpoint cannot be written.
    """
    params, task = setup.params, setup.task
    processes = Processes.joined(params.distributed)
    policy = attach_adapter(base, params)
    order = item_order(setup.items, params.train.steps * params.train.items_per_step, params.seed)
    _check_prompts(policy, task, [*order, *setup.validation.items], params.health.retries)
    ledger = TrainingLedger(history, watch, Monitor(params.health, task, Honest(task, setup.items)))
    attempt = Attempt(policy, setup, order, processes, checkpoints, ledger, on_step, tell)
    skipped: dict[int, str] = {}
    while True:
        try:
            return attempt.run(start, skipped)
        except Poisoned as error:
            start = _after_poison(error, attempt, skipped)
            tell("rolled back", {"step": error.step, "what": error.poison.what, "to": start.step})


def _after_poison(error: Poisoned, attempt: Attempt, skipped: dict[int, str]) -> Checkpoint:
    """Return the checkpoint to go back to, with the poisoned step marked as one to skip.

    Raises:
        TrainingStopped: The settings, or what has been skipped already, do not allow it.
    """
    poison, settings = error.poison, attempt.setup.params.health
    skipped |= attempt.skipped
    newest = attempt.checkpoints.newest()
    again = settings.on_non_finite != "stop" and error.step not in skipped
    if again and len(skipped) < settings.max_skipped and newest is not None:
        skipped[error.step] = poison.what
        return newest
    ledger = attempt.ledger
    ledger.history.health += ledger.monitor.non_finite(poison.what, error.step, poison.item_ids, stop=True)
    saved = "none" if newest is None else f"step {newest.step}"
    go_on = "health.on_non_finite: skip or rollback goes on without the step; "
    go_on = go_on if settings.on_non_finite == "stop" else ""
    raise TrainingStopped(
        f"a finite {poison.what}",
        found=poison.found,
        where=f"step {error.step}, items {', '.join(poison.item_ids[:8])}",
        fix=(
            f"see what these items reward; {go_on}a lower train.learning_rate or train.max_grad_norm begins"
            f" anew. Nothing of the step was saved; newest checkpoint: {saved}"
        ),
    ) from None


def _check_prompts(policy: Policy, task: Task, items: Sequence[Item], retries: int) -> None:
    """Refuse a prompt that is too long before the first step, not hours later in the middle of a run."""
    if task.max_prompt_tokens is not None:
        for item in {item.id: item for item in items}.values():
            try:
                tried(retries, open_item, task, policy.dialogue, item, 0)
            except GivenUp as gone:
                raise gone.of(Play(item, 0, seed=0, world_seed=0)) from gone


@dataclass(eq=False)
class Attempt:
    """What `train` was given and has prepared, and `run`, which may be called again after a step was
    poisoned."""

    policy: (
        Policy  # with its fresh adapter, which is the identity: it plays the probe that the KL is measured on
    )
    setup: Setup
    order: Sequence[Item]  # items of all steps
    processes: Processes
    checkpoints: Checkpoints
    ledger: TrainingLedger
    on_step: Callable[[int], None]
    tell: Tell

    def __post_init__(self) -> None:
        """Prepare what all goes share."""
        params, generation = self.setup.params, self.setup.params.generation
        limit = params.task.max_new_tokens[generation.surface]
        self._decoding = Decoding(
            generation.temperature, limit, generation.backend, generation.cuda_graphs, generation.drafts
        )
        self._beside = SideRollouts(self.policy, params, self._decoding, self.processes)
        self._best: Tensors = {}
        self._probe: list[Text] = []
        self._guard = Guard(params.health, self.processes, {})
        self._fresh = [(p, p.detach().clone()) for _, p in trainable(self.policy.model)]

    @property
    def skipped(self) -> Mapping[int, str]:
        """The steps that moved no weight so far, and why."""
        return self._guard.skipped

    def run(self, start: Checkpoint | None, skipped: Mapping[int, str]) -> TrainedAdapter:
        """Train from a checkpoint, or from the beginning, to the end.

        Raises:
            Poisoned: A step cannot be gone through with.
            TrainingStopped: An alarm says that nothing can be learned.
            Interrupted: A signal asked to stop.
        """
        # rollout_func is experimental; we pin trl exactly.
        os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
        from datasets import Dataset
        from datasets.utils.logging import disable_progress_bar
        from transformers import PrinterCallback

        from assay.training.trainer import Trainer

        disable_progress_bar()
        setup, params, ledger = self.setup, self.setup.params, self.ledger
        settings, generation = params.train, params.generation
        self._guard = guard = Guard(params.health, self.processes, skipped)
        self._reset_adapters()
        if start is None:
            ledger.monitor = self._watched_from_here()
        else:
            with refuse_going_on(start):
                self._go_back(start)
        self._probe = self._probe or self._beside.fixed_probe(setup.task, setup.items, self.tell)
        with refuse_going_on(start):
            self._divergence = Divergence(
                self.policy,
                self._probe,
                temperature=generation.temperature,
                batch_size=settings.micro_batch_size,
            )
        phases = Phases()
        rollouts = GroupRollouts(
            self.policy, setup, self._decoding, phases=phases, guard=guard, processes=self.processes
        )
        # TRL wants a prompt column; what the policy really reads comes from Task.start.
        rows = Dataset.from_list([{"prompt": item.id, "item_id": item.id} for item in self.order])
        schedule = Schedule(params.validation.interval, params.checkpoint.every, settings.steps)
        begun, main = 0 if start is None else start.step, self.processes.main
        reported = reporting(params, ledger.history, self.checkpoints.folder, begun, main=main)
        with Interruption(self._say_wait) as interruption, reported as reports, warnings.catch_warnings():
            # transformers renames gradient_checkpointing; TRL 1.16 still asks for the old name.
            warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
            trainer = Trainer(
                rollouts,
                guard=guard,
                phases=phases,
                processes=self.processes,
                on_save=self._save,
                shard=params.distributed.engine == "fsdp",
                model=self.policy.model,
                args=grpo_config(params, str(self.checkpoints.folder / TRL)),
                train_dataset=rows,
                processing_class=self.policy.tokenizer,
            )
            recorder = Recorder(
                ledger,
                trainer,
                schedule,
                interruption,
                kl=self._kl,
                validate=self._validate,
                tell=self.tell,
                on_step=self.on_step,
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
            where = f"after step {step} of {settings.steps}"
            raise Interrupted(name, where=where, exit_code=interruption.exit_code)
        chosen = chosen_step(ledger.history.validations, params.claim.checkpoint_rule, step)
        alarms = ledger.monitor
        return TrainedAdapter(
            chosen, self._best, adapter_config(self.policy), alarms.unmeasured, alarms.facts, alarms.play
        )

    def _watched_from_here(self) -> Monitor:
        """Return the alarms before the first step; a training that goes on has those of its checkpoint."""
        honest, setup = self.ledger.monitor.honest, self.setup
        keyed = honest is not None and honest.facts is not None
        play = honest_play(setup.judged, self.order, setup.params, keyed=keyed)
        return Monitor(setup.params.health, setup.task, honest, self.processes.gather(play)[0])

    def _reset_adapters(self) -> None:
        """Make the policy what it was before the first go: TRL takes the adapter it finds for the reference
        of its KL."""
        if REFERENCE in self.policy.model.peft_config:
            self.policy.model.delete_adapter(REFERENCE)
        with torch.no_grad():
            for parameter, fresh in self._fresh:
                parameter.copy_(fresh)

    def _say_wait(self, name: str) -> None:
        if self.processes.main:
            complain(f"{name}: the step at work will be finished and saved first; once more stops at once")

    def _kl(self, step: int) -> float | None:
        return self._divergence() if self.setup.params.train.measures_kl(step) else None

    def _validate(self, step: int) -> Validation | LostValidation:
        """Play the validation suite, whole or for nothing: episodes left out would choose a checkpoint by an
        easier suite.

        Raises:
            EnvironmentLost: The first validation is incomplete, before anything was learned that could be
                lost.
            TaskError: A reward is not finite, which no other try would change.
        """
        judged, suite, params = self.setup.judged, self.setup.validation, self.setup.params
        sampled = self._beside.played(judged, suite, params.generation.measured_at)
        greedy = self._beside.played(judged, replace(suite, draws=1), 0.0)
        history, rule = self.ledger.history, params.claim.checkpoint_rule
        n, lost = len(sampled) + len(greedy), [each for each in (*sampled, *greedy) if isinstance(each, Lost)]
        if lost:
            if broken := next(
                (each for each in lost if each.reward is not None or not history.validations), None
            ):
                raise broken.error
            if rule == "last":
                self._best = adapter_tensors(self.policy)
            items = sorted({each.play.item.id for each in lost})
            return LostValidation(step, n, len(lost), items, lost[0].reason)
        validation = Validation(step, whole(sampled), whole(greedy))
        if is_newest_chosen([*history.validations, validation], rule):
            self._best = adapter_tensors(self.policy)
        if self.processes.main:
            self.checkpoints.keep_validation(step, validation.lines())
        return validation

    def _state(self) -> bytes:
        ledger = self.ledger
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
        ledger = self.ledger
        content = {**files, LEDGER: self._state(), BEST: save_tensors(self._best)}
        self.checkpoints.save(step, content, healthy="RED" not in ledger.levels())
        self.tell("checkpoint", {"step": step})

    def _go_back(self, start: Checkpoint) -> None:
        ledger, state = self.ledger, json.loads(start.read(LEDGER))
        self._probe = [Text(*text) for text in state["probe"]]
        rows = self.policy.model.get_input_embeddings().weight.shape[0]
        if any(token >= rows for text in self._probe for token in (*text.prompt_ids, *text.completion_ids)):
            raise ValueError("a probe of tokens that the base does not know")
        validated = state["rows"]["validated"]
        validations = [Validation.of_lines(step, self.checkpoints.validation(step)) for step in validated]
        ledger.history.go_back(state["rows"], validations)
        ledger.watch.go_back(state["watch"])
        ledger.monitor = Monitor.restore(
            self.setup.params.health, self.setup.task, state["monitor"], ledger.monitor.honest
        )
        ledger.chain, ledger.seconds, ledger.stopped = state["chain"], state["seconds"], None
        self._guard.skipped = {int(k): v for k, v in state["skipped"].items()} | self._guard.skipped
        self._best = load_tensors(start.read(BEST))
