"""Stage 4: GRPO on train items, checkpoint evaluations on the validation suite; held-out items are never
read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from assay.core.console import progress, say
from assay.core.counting import counted
from assay.core.evidence_files import LOGS, folder_of, place_of
from assay.core.provenance import now
from assay.core.records import HealthSummary, TrainFacts
from assay.core.storage.files import read_bytes, sha256_bytes, sweep
from assay.core.storage.json import write_json, write_jsonl
from assay.pipeline.external import take
from assay.pipeline.inputs import Inputs
from assay.pipeline.live_log import Live
from assay.pipeline.manifest import manifest_of
from assay.pipeline.note_openings import note_opening
from assay.pipeline.policies import ADAPTER, BASE, open_policy
from assay.pipeline.project import Project
from assay.pipeline.run_folder import RunFolder, open_run, start_together
from assay.rollout.evaluation.alarms import cuts_in_words
from assay.rollout.policy.digests import adapted_digest
from assay.rollout.policy.model import Policy
from assay.rollout.policy.processes import Processes
from assay.training.adapter import TrainedAdapter, save_adapter
from assay.training.checkpoints.store import Checkpoint
from assay.training.grpo import train
from assay.training.log.history import History, Watch
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
    """A training that is about to begin, or to go on: all that it is made of.

    Attributes:
        project: Where it writes.
        inputs: Settings, train items and the validation suite, held to the fingerprint.
        setup: The training that they make: with shaping rewards, where the settings have some.
        base: The policy that it begins with.
        plan_sha256: Of the claim's plan, which was fixed before.
        processes: Everyone who trains together.
        folder: Keeps what it needs to go on after an interruption.
        start: Where it goes on from; None: it begins.
    """

    project: Project
    inputs: Inputs
    setup: Setup
    base: Policy
    plan_sha256: str
    processes: Processes
    folder: RunFolder
    start: Checkpoint | None


def run(project: Project, resume_from: Path | None = None) -> None:
    """Train, or go on with a training that was interrupted; publish curves meanwhile, and the chosen adapter
    at the end. What was trained elsewhere is taken as it is.

    `assay train` makes the same two calls, and looks in between at what is about to be trained.

    Args:
        project: What to train.
        resume_from: A checkpoint or run folder to go on from; None: the newest checkpoint of this very run,
            if any.
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
        if processes.main:
            written = (project.results(name).parent for name in ("train.json", "train_log.jsonl"))
            sweep(*written, project.observed("manifest.json").parent, root / "models")
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
    project, inputs, folder, start = training.project, training.inputs, training.folder, training.start
    steps, main = inputs.params.train.steps, training.processes.main
    history, watch = History(), Watch(inputs.task)
    live = Live(project.root, steps, history, watch, inputs.validation, folder, main=main)
    live.tell("started" if start is None else "resumed", {"step": 0 if start is None else start.step})
    manifest = manifest_of(project.root, inputs, folder, training.processes)
    if main:
        write_json(project.observed("manifest.json"), manifest | {"finished": None, "chain": None})
    with live.shown():
        with progress("train: steps", steps, done=0 if start is None else start.step) as advance:
            trained = train(
                training.base,
                training.setup,
                checkpoints=folder.checkpoints,
                start=start,
                history=history,
                watch=watch,
                on_step=lambda step: live.step(step, advance),
                tell=live.tell,
            )
        if main:
            _publish(training, trained, history, watch)
            chain = str(history.train_log[-1]["chain"])
            write_json(project.observed("manifest.json"), manifest | {"finished": now(), "chain": chain})
            live.tell("finished", {"step": steps, "chosen": trained.chosen_step})
    if main:
        folder.finish(project.results("train.json").parent)


def _publish(training: Training, trained: TrainedAdapter, history: History, watch: Watch) -> None:
    project, params = training.project, training.inputs.params
    save_adapter(project.root / ADAPTER, trained)
    write_jsonl(project.results("validation.jsonl"), history.validation_episodes())
    facts = TrainFacts(
        seed=params.seed,
        steps=params.train.steps,
        chosen_step=trained.chosen_step,
        claim_plan_sha256=training.plan_sha256,
        base_digest=training.base.digest,
        policy_digest=adapted_digest(training.base.digest, project.root / ADAPTER),
        validation_suite=training.inputs.validation.digest,
        chain=str(history.train_log[-1]["chain"]),
        alarms=watch.facts(),
        health=HealthSummary.of(history.health, trained.unmeasured),
        honest=trained.honest,
        honest_play=trained.play,
        other_machines=training.folder.other_machines,
    )
    write_json(project.results("train.json"), facts)
    say(
        f"trained {counted(facts.steps, 'steps')}; validation chose step {trained.chosen_step}; health"
        f" {facts.health.worst}"
    )
    if cut := cuts_in_words(watch.cuts, len(watch.items)):
        say(cut)
