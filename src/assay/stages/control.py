"""Stage 5: the same training for rewards that mean nothing, where the claim asks for it: what that gains is
not learning."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import partial
from typing import Any

from assay.core.config.settings import Params
from assay.core.console import complain, progress, say
from assay.core.counting import counted
from assay.core.errors import TrainingStopped
from assay.core.evidence_files import folder_of, place_of
from assay.core.provenance import now
from assay.core.records import ControlFacts, HealthSummary
from assay.core.storage.json import write_json
from assay.pipeline.project import Project

STAGE, RANDOM_REWARD, FOLDER = "control", "random_reward", folder_of("control")
READS = (
    "${task.code}",
    place_of("fingerprint.json"),
    "${dataset.root}/train.jsonl",
    "${dataset.root}/${validation.suite}.jsonl",
    "${dataset.root}/heldout.jsonl",
    "models/base",
)
WRITES = (FOLDER,)


def run(project: Project) -> None:
    """Write control.json, and what the held-out suite says of a policy that was paid by the toss of a coin.

    Everything but the pay, the choice of the checkpoint and, if claim.control_share asks for fewer, the
    number of steps is as in the training that the claim is about: items, order, seed and settings. What is
    played is the last checkpoint: validation, which goes by true rewards, mostly chooses step 0 here, and
    that is the base itself. Nothing is trained unless claim.controls has random_reward. An interrupted call
    is gone on with.

    Source: Shao et al. (2025), Spurious Rewards, arXiv 2506.10947: such rewards alone can raise a score.
    """
    if RANDOM_REWARD in project.params.claim.controls:
        _train_and_measure(project)
    else:
        shutil.rmtree(project.root / FOLDER, ignore_errors=True)
        write_json(project.results("control.json"), ControlFacts(asked=False))
        say("control: none was asked for (claim.controls)")


def _to_the_end(params: Params) -> Params:
    """Return the settings of the control: with its steps, the last checkpoint for the rule, and without the
    alarms that end a training: what becomes of this one is what is asked."""
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


def _train_and_measure(project: Project) -> None:
    # Heavy, and not needed where nothing was asked for.
    from assay.pipeline.heldout import open_suites
    from assay.pipeline.policies import BASE, open_policy
    from assay.pipeline.run_folder import open_run, start_together
    from assay.rollout.policy.processes import Processes
    from assay.training.adapter import save_adapter
    from assay.training.grpo import train
    from assay.training.log.history import History, Watch
    from assay.training.recipe import chosen_step, coin
    from assay.training.setup import Setup

    params, root = project.params, project.root
    processes = Processes.joined(params.distributed)
    with open_run(root, params, STAGE, READS, main=processes.main) as folder:
        start = start_together(folder, processes)

        def tell(event: str, facts: Mapping[str, Any]) -> None:
            """Write an event into the log of the run, for `assay runs watch`."""
            if processes.main:
                folder.log({"time": now(), "event": event} | dict(facts))

        tell("started" if start is None else "resumed", {"step": 0 if start is None else start.step})
        inputs, shaped = project.inputs("train", "validation", "heldout"), project.task(shaping=True)
        setup = Setup(
            shaped,
            inputs.task,
            inputs.train,
            inputs.validation,
            _to_the_end(params),
            credit=partial(coin, params.seed),
        )
        base, history = open_policy(params, root / BASE), History()
        own = ControlFacts(asked=True, base_digest=base.digest, seed=params.seed, steps=params.control_steps)
        shutil.rmtree(root / FOLDER, ignore_errors=True)
        with progress(
            "control: steps", params.control_steps, done=0 if start is None else start.step
        ) as advance:
            try:
                trained = train(
                    base,
                    setup,
                    checkpoints=folder.checkpoints,
                    start=start,
                    history=history,
                    watch=Watch(inputs.task),
                    on_step=lambda step: advance(1, f"step {step}") if processes.main else None,
                    tell=tell,
                )
            except TrainingStopped as error:
                # Poisoned: the training proper is not to blame, so the pipeline goes on, to a claim that says
                # so.
                trained = None
                if processes.main:
                    why = f"{error.where}: expected {error.expected}, found {error.found}"
                    write_json(project.results("control.json"), own.model_copy(update={"stopped": why}))
                    complain(f"control: {why}")
        if trained is not None:
            adapter = folder.path / "adapter"
            with processes.as_one():
                if processes.main:
                    save_adapter(adapter, trained)
            del base
            tell("trained", {"step": params.control_steps})
            with processes.as_one():
                played = open_policy(params, root / BASE, adapter)
            suites = [inputs.heldout]
            with open_suites(
                root, inputs, played, STAGE, READS, suites=suites, processes=processes
            ) as opened:
                opened.play("control_eval", inputs.heldout)
        if processes.main and trained is not None:
            by_validation = chosen_step(history.validations, "best_validation_reward")
            facts = {
                "policy_digest": played.digest,
                "chosen_step": trained.chosen_step,
                "validation_step": by_validation,
                "chain": str(history.train_log[-1]["chain"]),
                "health": HealthSummary.of(history.health, trained.unmeasured),
                "other_machines": folder.other_machines,
            }
            write_json(project.results("control.json"), own.model_copy(update=facts))
            steps = counted(params.control_steps, "steps")
            said = f"the last checkpoint was played, validation would have chosen step {by_validation}"
            say(f"control: {steps} for random rewards; {said}")
            folder.close()
            shutil.rmtree(folder.path, ignore_errors=True)
    processes.leave()
