"""Train an adapter with GRPO, through crashes and poisoned steps: begin, go on, or go back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay.core.config.settings import Params
from assay.core.errors import TrainingStopped
from assay.dataset.suite import Play, Suite
from assay.evaluation.trajectory import GivenUp, open_item, tried
from assay.policy.model import Policy
from assay.policy.processes import Processes
from assay.tasks.protocol import Item, Task
from assay.training.adapter import TrainedAdapter, attach_adapter
from assay.training.checkpoints.store import Checkpoint, Checkpoints
from assay.training.grpo import Attempt
from assay.training.health.guard import Poisoned
from assay.training.log.callback import Tell
from assay.training.log.history import History, Watch
from assay.training.recipe import item_order
from assay.training.rollouts import Credit


def train(
    base: Policy,
    task: Task,
    judged: Task,
    items: Sequence[Item],
    validation: Suite,
    params: Params,
    *,
    checkpoints: Checkpoints,
    start: Checkpoint | None,
    history: History,
    watch: Watch,
    on_step: Callable[[int], None],
    tell: Tell = lambda event, facts: None,
    credit: Credit | None = None,
) -> TrainedAdapter:
    """Train an adapter with GRPO, or go on with it, and return the checkpoint that the rule chooses.

    Args:
        base: The pinned base policy.
        task: What is trained on (shaping may be on).
        judged: The same task as it is evaluated, without shaping.
        items: Training items; this function cannot name the held-out split.
        validation: The suite that chooses the checkpoint; its items are also played greedily.
        params: All settings.
        checkpoints: Where the training is saved as it goes.
        start: Where to go on from; None begins.
        history: Filled while training, so that a caller can publish curves.
        watch: Shown every episode, for alarms and cut prompts.
        on_step: Told each finished step.
        tell: Told what happens, for the log of events.
        credit: Pays for the episodes learned from, instead of the task; validation is always graded by the
            task.

    Raises:
        TaskError: The prompt of an item is longer than the task allows.
        EnvironmentLost: The environment failed for good before the first step, where nothing is lost by
            ending.
        TrainingStopped: Something is not finite, or an alarm says that nothing can be learned.
        Interrupted: A signal asked to stop; the last finished step is saved.
        TrainingError: A checkpoint cannot be written.
    """
    processes = Processes.joined(params.distributed)
    policy = attach_adapter(base, params)
    order = item_order(items, params.train.steps * params.train.items_per_step, params.seed)
    _check_openings(policy, task, [*order, *validation.items], params.health.retries)
    skipped: dict[int, str] = {}
    attempt = Attempt(
        policy,
        task,
        judged,
        order,
        items,
        validation,
        params,
        processes=processes,
        checkpoints=checkpoints,
        history=history,
        watch=watch,
        on_step=on_step,
        tell=tell,
        credit=credit,
    )
    while True:
        try:
            return attempt.run(start, skipped)
        except Poisoned as error:
            start = _after_poison(error, attempt, checkpoints, skipped, params, history)
            tell("rolled back", {"step": error.step, "what": error.poison.what, "to": start.step})


def _after_poison(
    error: Poisoned,
    attempt: Attempt,
    checkpoints: Checkpoints,
    skipped: dict[int, str],
    params: Params,
    history: History,
) -> Checkpoint:
    """Return the checkpoint to go back to, with the poisoned step marked as one to skip.

    Raises:
        TrainingStopped: The settings, or what has been skipped already, do not allow it.
    """
    poison, settings = error.poison, params.health
    skipped |= attempt.skipped
    newest = checkpoints.newest()
    again = (
        settings.on_non_finite != "stop" and len(skipped) < settings.max_skipped and error.step not in skipped
    )
    if again and newest is not None:
        skipped[error.step] = poison.what
        return newest
    history.health += attempt.monitor.non_finite(poison.what, error.step, poison.item_ids, stop=True)
    saved = "none" if newest is None else f"step {newest.step}"
    go_on = (
        "health.on_non_finite: skip or rollback goes on without the step; "
        if settings.on_non_finite == "stop"
        else ""
    )
    raise TrainingStopped(
        f"a finite {poison.what}",
        found=poison.found,
        where=f"step {error.step}, items {', '.join(poison.item_ids[:8])}",
        fix=(
            f"see what these items reward; {go_on}a lower train.learning_rate or train.max_grad_norm begins"
            f" anew. Nothing of the step was saved; newest checkpoint: {saved}"
        ),
    ) from None


def _check_openings(policy: Policy, task: Task, items: Sequence[Item], retries: int) -> None:
    """Refuse a prompt that is too long before the first step, not hours later in the middle of a run."""
    if task.max_prompt_tokens is not None:
        for item in {item.id: item for item in items}.values():
            try:
                tried(retries, open_item, task, policy.dialogue, item, 0)
            except GivenUp as gone:
                raise gone.of(Play(item, 0, seed=0, world_seed=0)) from gone
