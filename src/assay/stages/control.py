"""Stage 5: the same training for rewards that mean nothing, where the claim asks for it: what that gains is
not learning."""

from __future__ import annotations

import shutil
from functools import partial

from assay.core.console import complain, progress, say
from assay.core.counting import counted
from assay.core.errors import TrainingStopped
from assay.core.evidence_files import folder_of, place_of
from assay.core.records import ControlFacts, HealthSummary
from assay.core.storage.json import write_json
from assay.pipeline.heldout import open_suites
from assay.pipeline.policies import BASE, open_policy
from assay.pipeline.project import Project
from assay.pipeline.run_folder import open_run, start_together
from assay.rollout.policy.processes import Processes
from assay.training.adapter import save_adapter
from assay.training.grpo import train
from assay.training.log.history import History, Watch
from assay.training.recipe import chosen_step, coin, to_the_end
from assay.training.setup import Setup

STAGE, RANDOM_REWARD, FOLDER = "control", "random_reward", folder_of("control")
READS = (
    "${task.code}",
    place_of("fingerprint.json"),
    "${dataset.root}/train.jsonl",
    "${dataset.root}/${validation.suite}.jsonl",
    "${dataset.root}/heldout.jsonl",
    BASE,
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
    params, root, result = project.params, project.root, project.results("control.json")
    if RANDOM_REWARD not in params.claim.controls:
        shutil.rmtree(root / FOLDER, ignore_errors=True)
        write_json(result, ControlFacts(asked=False))
        say("control: none was asked for (claim.controls)")
        return
    processes, steps = Processes.joined(params.distributed), params.control_steps
    with open_run(root, params, STAGE, READS, main=processes.main) as folder:
        start = start_together(folder, processes)
        done = 0 if start is None else start.step
        folder.tell("started" if start is None else "resumed", {"step": done})
        inputs, shaped = project.inputs("train", "validation", "heldout"), project.task(shaping=True)
        ended, pay = to_the_end(params), partial(coin, params.seed)
        setup = Setup(shaped, inputs.task, inputs.train, inputs.validation, ended, credit=pay)
        base, history = open_policy(params, root / BASE), History()
        facts = ControlFacts(asked=True, base_digest=base.digest, seed=params.seed, steps=steps)
        shutil.rmtree(root / FOLDER, ignore_errors=True)
        try:
            with progress("control: steps", steps, done=done) as advance:
                trained = train(
                    base,
                    setup,
                    checkpoints=folder.checkpoints,
                    start=start,
                    history=history,
                    watch=Watch(inputs.task),
                    on_step=lambda step: advance(1, f"step {step}") if processes.main else None,
                    tell=folder.tell,
                )
        except TrainingStopped as error:
            # Poisoned: the training proper is not to blame, so the pipeline goes on, to a claim that says so.
            if processes.main:
                why = f"{error.where}: expected {error.expected}, found {error.found}"
                write_json(result, facts.model_copy(update={"stopped": why}))
                complain(f"control: {why}")
        else:
            adapter = folder.path / "adapter"
            with processes.as_one():
                if processes.main:
                    save_adapter(adapter, trained)
            del base  # a device holds one of them at a time
            folder.tell("trained", {"step": steps})
            with processes.as_one():
                policy = open_policy(params, root / BASE, adapter)
            suites = [inputs.heldout]
            with open_suites(
                root, inputs, policy, STAGE, READS, suites=suites, processes=processes
            ) as opened:
                opened.play("control_eval", inputs.heldout)
            if processes.main:
                by_validation = chosen_step(history.validations, "best_validation_reward")
                known = {
                    "policy_digest": policy.digest,
                    "chosen_step": trained.chosen_step,
                    "validation_step": by_validation,
                    "chain": str(history.train_log[-1]["chain"]),
                    "health": HealthSummary.of(history.health, trained.unmeasured),
                    "other_machines": folder.other_machines,
                }
                write_json(result, facts.model_copy(update=known))
                said = f"the last checkpoint was played, validation would have chosen step {by_validation}"
                say(f"control: {counted(steps, 'steps')} for random rewards; {said}")
                folder.close()
                shutil.rmtree(folder.path, ignore_errors=True)
    processes.leave()
