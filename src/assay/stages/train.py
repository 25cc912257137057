"""Stage 4: GRPO on train items, checkpoint evaluations on the validation suite; held-out items are never read."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace

from assay.console import complain, progress, say
from assay.evaluation.alarms import alarm_said
from assay.evaluation.best_of import best_of_items
from assay.evaluation.checkpoints import Row, checkpoint_row
from assay.evaluation.cuts import cuts_in_words
from assay.evaluation.report import report_on
from assay.evaluation.suite import Suite
from assay.provenance import environment, git_state, hardware, now, packages
from assay.records import TRAINING_LOG_COLUMNS, TrainFacts
from assay.stages.inputs import fingerprint_of, items_of, task_of, validation_suite
from assay.stages.policies import open_policy
from assay.stages.project import RESULTS, Project
from assay.storage.files import read_bytes, sha256_bytes
from assay.storage.json import write_json, write_jsonl
from assay.storage.tables import write_csv
from assay.training.grpo import save_adapter, train
from assay.training.history import History, Validation
from assay.training.watch import Watch

READS = (
    f"{RESULTS}/fingerprint.json", f"{RESULTS}/claim_plan.json", "${dataset.root}/train.jsonl",
    "${dataset.root}/${validation.suite}.jsonl", "models/base",
)  # fmt: skip
WRITES = (
    "models/adapter", f"{RESULTS}/training_log.csv", f"{RESULTS}/reward_components.csv",
    f"{RESULTS}/checkpoint_evals.csv", f"{RESULTS}/train_log.jsonl", f"{RESULTS}/train.json",
)  # fmt: skip
SECONDS_BETWEEN_WRITES = 3.0


def run(project: Project) -> None:
    """Train, publish curves while training, and write the chosen adapter."""
    params = project.params
    claim_digest = sha256_bytes(read_bytes(project.results("claim_plan.json"), fix="./run dvc repro fingerprint"))
    policy = open_policy(project, adapter=False)
    base_digest = policy.digest
    history, watch, started, written = History(), Watch(task_of(project)), now(), [0.0]
    validation, steps = validation_suite(project), params.train.steps
    tables, bell = Tables(project, history, validation, base_digest), Bell(watch)

    with progress("train: steps", steps) as advance:

        def on_step(step: int) -> None:
            reward = history.training_log[-1]["reward"]
            advance(1, f"reward {reward:+.3f}")
            bell.ring()
            if time.monotonic() - written[0] > SECONDS_BETWEEN_WRITES:
                tables.write()
                written[0] = time.monotonic()

        trained = train(
            policy, task_of(project, shaping=True), task_of(project), items_of(project, "train"), validation, params,
            history=history, watch=watch, on_step=on_step,
        )  # fmt: skip
    adapter = project.root / "models/adapter"
    shutil.rmtree(adapter, ignore_errors=True)
    save_adapter(adapter, trained)
    tables.write()
    write_jsonl(project.results("train_log.jsonl"), history.train_log)
    facts = TrainFacts(
        seed=params.seed, steps=steps, chosen_step=trained.chosen_step, claim_plan_sha256=claim_digest,
        base_digest=base_digest, validation_suite=validation.digest, alarms=watch.facts(),
    )  # fmt: skip
    write_json(project.results("train.json"), facts)
    manifest = {
        "started": started, "finished": now(), "git": git_state(project.root), "packages": packages(),
        "hardware": hardware(), "environment": environment(), "rank": 0, "world_size": 1,
        "dataset_sha256": fingerprint_of(project).dataset_sha256, "params": params.model_dump(mode="json"),
    }  # fmt: skip
    write_json(project.observed("manifest.json"), manifest)
    say(f"trained {steps} steps; validation chose step {trained.chosen_step}")
    if cut := cuts_in_words(watch.cuts, len(watch.items)):
        say(cut)


class Bell:
    """Says each alarm once, when it first rings: a flag is not repeated for every batch that raises it again."""

    def __init__(self, watch: Watch) -> None:
        """Listen to a watch."""
        self._watch = watch
        self._said: set[tuple[str, str]] = set()

    def ring(self) -> None:
        """Say what rang since the last call and was not said before."""
        for step, source, alarm in self._watch.raised:
            if (alarm.flag, source) not in self._said:
                self._said.add((alarm.flag, source))
                complain(alarm_said(alarm, f"episodes of the {source} at step {step}"))


class Tables:
    """The curves of a training on disk; what was computed for one validation is kept."""

    def __init__(self, project: Project, history: History, suite: Suite, policy_digest: str) -> None:
        """Write a history's curves into a project."""
        self._project, self._history, self._suite, self._policy = project, history, suite, policy_digest
        self._rows: dict[int, Row] = {}

    def write(self) -> None:
        """Write the curves as they stand; a reader never sees half a file."""
        project, history = self._project, self._history
        write_csv(project.results("training_log.csv"), history.training_log, TRAINING_LOG_COLUMNS)
        components = history.reward_components
        if components:
            write_csv(project.results("reward_components.csv"), components, list(components[0]))
        for validation in history.validations:
            if validation.step not in self._rows:
                self._rows[validation.step] = self._row(validation)
        if rows := list(self._rows.values()):
            write_csv(project.results("checkpoint_evals.csv"), rows, list(rows[0]))
        if history.observed:
            write_csv(project.observed("training_clock.csv"), history.observed, list(history.observed[0]))

    def _row(self, validation: Validation) -> Row:
        suite = self._suite
        return checkpoint_row(
            report_on(validation.sampled, suite, self._policy, "sampled"),
            step=validation.step,
            fraction_done=validation.step / self._project.params.train.steps,
            best=best_of_items(validation.sampled, suite.draws, suite.digest),
            greedy=report_on(validation.greedy, replace(suite, draws=1), self._policy, "greedy"),
        )
