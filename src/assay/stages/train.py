"""Stage 4: GRPO on train items, checkpoint evaluations on the validation suite; held-out items are never
read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from assay.core.console import progress, say
from assay.core.counting import counted
from assay.core.errors import Interrupted, RecordError, TrainingStopped
from assay.core.evidence_files import LOGS, folder_of, place_of
from assay.core.provenance import environment, git_state, hardware, now, packages
from assay.core.records import HealthSummary, TrainFacts
from assay.core.storage.files import read_bytes, sha256_bytes, sweep
from assay.core.storage.json import write_json, write_jsonl
from assay.dataset.suite import Suite
from assay.evaluation.alarms import cuts_in_words
from assay.pipeline.external import take
from assay.pipeline.inputs import fingerprint_of, items_of, task_of, validation_suite
from assay.pipeline.live_log import Live
from assay.pipeline.note_openings import note_opening
from assay.pipeline.policies import ADAPTER, open_policy
from assay.pipeline.project import Project
from assay.pipeline.resume import machine_of
from assay.pipeline.run_folder import RunFolder, open_run
from assay.policy.digests import adapted_digest
from assay.policy.model import Policy
from assay.policy.processes import Processes
from assay.tasks.protocol import Item, Task
from assay.training.adapter import TrainedAdapter, save_adapter
from assay.training.grpo import train
from assay.training.log.history import History, Watch

READS = (
    "${task.code}",
    place_of("fingerprint.json"),
    place_of("claim_plan.json"),
    "${dataset.root}/train.jsonl",
    "${dataset.root}/${validation.suite}.jsonl",
    "models/base",
)
WRITES = (ADAPTER, folder_of("train"), f"{LOGS}/train")
# Looks at what is about to be trained, before its first step; raises TrainingError where that could not work.
Examine = Callable[[Project, Policy, Task, Task, Sequence[Item], Suite, Path], None]


def run(project: Project, resume_from: Path | None = None, examine: Examine | None = None) -> None:
    """Train, or go on with a training that was interrupted; publish curves meanwhile, and the chosen adapter
    at the end. What was trained elsewhere is taken as it is.

    Args:
        project: What to train.
        resume_from: A checkpoint or run folder to go on from; None: the newest checkpoint of this very run,
            if any.
        examine: Called once in the main process before a training begins anew; with health.preflight false
            it says the plan's power and looks at nothing.
    """
    params = project.params
    if params.external is not None:
        take(project, params.external)
        return
    processes = Processes.joined(params.distributed)
    with open_run(project, "train", READS, main=processes.main) as folder:
        if processes.main:
            written = (project.results(name).parent for name in ("train.json", "train_log.jsonl"))
            sweep(*written, project.observed("manifest.json").parent, project.root / "models")
        start = None
        with processes.as_one():  # what the main process brings in is there before the others look
            if processes.main:
                start = folder.start(resume_from)
        start = start if processes.main else folder.start(None)
        processes.agree("run and checkpoint", (folder.key.digest, start and start.step))
        claim_digest = sha256_bytes(
            read_bytes(project.results("claim_plan.json"), fix="./run dvc repro fingerprint")
        )
        policy = open_policy(project, None)
        base_digest, validation = policy.digest, validation_suite(project)
        if processes.main:  # its records may be held out elsewhere, and whoever trains looks at them
            note_opening(project, "train", validation, folder.key.digest, base=base_digest)
        task, judged, items = task_of(project, shaping=True), task_of(project), items_of(project, "train")
        if start is None and examine is not None:
            look = partial(examine, project, policy, task, judged, items, validation, folder.path)
            _examined(look, processes, wait=params.health.preflight)
        history, watch = History(), Watch(judged)
        live = Live(project, history, watch, validation, folder, main=processes.main)
        live.tell("started" if start is None else "resumed", {"step": 0 if start is None else start.step})
        manifest = _manifest(project, folder, processes)
        if processes.main:
            write_json(project.observed("manifest.json"), manifest | {"finished": None, "chain": None})
        live.begin()
        with progress("train: steps", params.train.steps, done=0 if start is None else start.step) as advance:
            try:
                trained = train(
                    policy,
                    task,
                    judged,
                    items,
                    validation,
                    params,
                    checkpoints=folder.checkpoints,
                    start=start,
                    history=history,
                    watch=watch,
                    on_step=lambda step: live.step(step, advance),
                    tell=live.tell,
                )
            except BaseException as error:
                # Why it ended is what has to be said, also on a disk that is full
                with suppress(OSError, RecordError):
                    if isinstance(error, (Interrupted, TrainingStopped)):
                        live.tell("ended early", {"why": str(error).split("\n")[0]})
                    live.publish()
                live.end()
                raise
            live.publish()
        if processes.main:
            _publish(
                project, trained, history, watch, claim_digest, base_digest, validation, folder.other_machines
            )
            chain = str(history.train_log[-1]["chain"])
            write_json(project.observed("manifest.json"), manifest | {"finished": now(), "chain": chain})
            live.tell("finished", {"step": params.train.steps, "chosen": trained.chosen_step})
            live.publish()
            live.end()
            folder.finish(project.results("train.json").parent)
    processes.leave()


def _examined(examine: Callable[[], None], processes: Processes, *, wait: bool) -> None:
    """Let the main process look at what is to be trained, while the others wait; a fault ends all of them.
    `wait` says that it takes a while."""
    if wait and processes.main and processes.world_size > 1:
        say("train: looking at what is to be trained ...")
    with processes.as_one():
        if processes.main:
            examine()


def _publish(
    project: Project,
    trained: TrainedAdapter,
    history: History,
    watch: Watch,
    claim_digest: str,
    base_digest: str,
    validation: Suite,
    other_machines: int,
) -> None:
    params, steps = project.params, project.params.train.steps
    save_adapter(project.root / ADAPTER, trained)
    write_jsonl(project.results("validation.jsonl"), history.validation_episodes())
    facts = TrainFacts(
        seed=params.seed,
        steps=steps,
        chosen_step=trained.chosen_step,
        claim_plan_sha256=claim_digest,
        base_digest=base_digest,
        policy_digest=adapted_digest(base_digest, project.root / ADAPTER),
        validation_suite=validation.digest,
        chain=str(history.train_log[-1]["chain"]),
        alarms=watch.facts(),
        health=HealthSummary.of(history.health, trained.unmeasured),
        honest=trained.honest,
        honest_play=trained.play,
        other_machines=other_machines,
    )
    write_json(project.results("train.json"), facts)
    say(
        f"trained {counted(steps, 'steps')}; validation chose step {trained.chosen_step}; health"
        f" {facts.health.worst}"
    )
    if cut := cuts_in_words(watch.cuts, len(watch.items)):
        say(cut)


def _manifest(project: Project, folder: RunFolder, processes: Processes) -> dict[str, Any]:
    """Return who trains what on what; begun when the run was, however often it was gone on with."""
    found = fingerprint_of(project)
    return {
        "run": folder.key.digest,
        "started": folder.began(),
        "git": git_state(project.root),
        "packages": packages(),
        "hardware": hardware() | machine_of(project),
        "environment": environment(),
        "rank": processes.rank,
        "world_size": processes.world_size,
        "dataset_sha256": found.dataset_sha256,
        "cached_dataset": found.cached,
        "params": project.params.model_dump(mode="json"),
    }
