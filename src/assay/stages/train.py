"""Stage 4: GRPO on train items, checkpoint evaluations on the validation suite; held-out items are never
read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from assay.core.console import progress
from assay.core.evidence_files import LOGS, folder_of, place_of
from assay.core.records import TrainFacts
from assay.core.storage.files import read_bytes, sha256_bytes
from assay.core.storage.json import write_json, write_jsonl
from assay.pipeline.external import take
from assay.pipeline.inputs import Inputs
from assay.pipeline.live_log import Live
from assay.pipeline.note_openings import note_opening
from assay.pipeline.policies import ADAPTER, BASE, open_policy
from assay.pipeline.project import Project
from assay.pipeline.run_folder import RunFolder, open_run, start_together
from assay.rollout.policy.digests import adapted_digest
from assay.rollout.policy.model import Policy
from assay.rollout.policy.processes import Processes
from assay.training.adapter import save_adapter
from assay.training.checkpoints.store import Checkpoint
from assay.training.grpo import train
from assay.training.setup import Setup

READS = (
    "${task.code}",
    place_of("fingerprint.json"),
    place_of("claim_plan.json"),
    "${dataset.root}/train.jsonl",
    "${dataset.root}/${validation.suite}.jsonl",
    BASE,
)
WRITES = (ADAPTER, folder_of("train"), f"{LOGS}/train")


@dataclass(frozen=True, slots=True)
class Training:
    """A training that is about to begin, or to go on: all that it is made of."""

    project: Project  # where it writes
    inputs: Inputs  # settings, train items and the validation suite, held to the fingerprint
    setup: Setup  # the training that they make: with shaping rewards, where the settings have some
    base: Policy  # that it begins with
    plan_sha256: str  # of the claim's plan, which was fixed before
    processes: Processes  # everyone who trains together
    folder: RunFolder  # keeps what it needs to go on after an interruption
    start: Checkpoint | None  # where it goes on from; None: it begins


def run(project: Project, resume_from: Path | None = None) -> None:
    """Train, or go on from `resume_from` or the newest checkpoint of this very run; publish curves meanwhile,
    and the chosen adapter at the end. What was trained elsewhere is taken as it is.

    `assay train` makes the same two calls, and looks in between at what is about to be trained.
    """
    if project.params.external is not None:
        take(project.root, project.inputs("train"), project.params.external)
        return
    with open_training(project, resume_from) as training:
        train_through(training)


@contextmanager
def open_training(project: Project, resume_from: Path | None = None) -> Iterator[Training]:
    """Read all that a training starts from, once, and hold its run folder meanwhile."""
    params, root = project.params, project.root
    processes = Processes.joined(params.distributed)
    with open_run(root, params, "train", READS, main=processes.main) as folder:
        start = start_together(folder, processes, resume_from)
        plan = sha256_bytes(read_bytes(project.results("claim_plan.json"), fix="./run dvc repro fingerprint"))
        inputs, shaped = project.inputs("train", "validation"), project.task(shaping=True)
        setup = Setup(shaped, inputs.task, inputs.train, inputs.validation, params)
        base = open_policy(params, root / BASE)
        if processes.main:  # its records may be held out elsewhere, and whoever trains looks at them
            note_opening(root, params, "train", inputs.validation, folder.key.digest, base=base.digest)
        yield Training(project, inputs, setup, base, plan, processes, folder, start)
    processes.leave()


def train_through(training: Training) -> None:
    """Train to the end, and publish what came of it.

    Raises:
        TrainingStopped: Something is not finite, or an alarm says that nothing can be learned.
        Interrupted: A signal asked to stop; the last finished step is saved.
    """
    root, inputs, folder, start = training.project.root, training.inputs, training.folder, training.start
    main, steps = training.processes.main, inputs.params.train.steps
    with Live(root, inputs, folder, training.processes, start) as live:
        with progress("train: steps", steps, done=0 if start is None else start.step) as advance:
            trained = train(
                training.base,
                training.setup,
                checkpoints=folder.checkpoints,
                start=start,
                history=live.history,
                watch=live.watch,
                on_step=lambda step: live.step(step, advance),
                tell=live.tell,
            )
        if main:
            save_adapter(root / ADAPTER, trained)
            write_jsonl(root / place_of("validation.jsonl"), live.history.validation_episodes())
            facts = TrainFacts(
                seed=inputs.params.seed,
                steps=steps,
                chosen_step=trained.chosen_step,
                claim_plan_sha256=training.plan_sha256,
                base_digest=training.base.digest,
                policy_digest=adapted_digest(training.base.digest, root / ADAPTER),
                validation_suite=inputs.validation.digest,
                chain=trained.chain,
                alarms=live.watch.facts(),
                health=trained.health,
                honest=trained.honest,
                honest_play=trained.play,
                other_machines=folder.other_machines,
            )
            write_json(root / place_of("train.json"), facts)
            live.finish(facts)
    if main:
        folder.finish(root / folder_of("train"))
