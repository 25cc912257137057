"""Stage 4: GRPO on train items, checkpoint evaluations on the validation suite; held-out items are never read."""

from __future__ import annotations

import shutil
import time

from assay.console import progress, say
from assay.evaluation.report import checkpoint_row, report_on
from assay.provenance import environment, git_state, hardware, now, packages
from assay.records import TRAINING_LOG_COLUMNS, TrainFacts
from assay.stages.inputs import fingerprint_of, items_of, task_of, validation_suite
from assay.stages.policies import open_policy
from assay.stages.project import RESULTS, Project
from assay.storage.files import read_bytes, sha256_bytes
from assay.storage.json import write_json, write_jsonl
from assay.storage.tables import write_csv
from assay.training.grpo import save_adapter, train
from assay.training.history import History

READS = (
    f"{RESULTS}/fingerprint.json", f"{RESULTS}/claim_plan.json", "${dataset.root}/train.jsonl",
    "${dataset.root}/validation.jsonl", "models/base",
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
    history, started, written = History(), now(), [0.0]
    validation, steps = validation_suite(project), params.train.steps

    with progress("train: steps", steps) as advance:

        def on_step(step: int) -> None:
            reward = history.training_log[-1]["reward"]
            advance(1, f"reward {reward:+.3f}")
            if time.monotonic() - written[0] > SECONDS_BETWEEN_WRITES:
                write_tables(project, history, base_digest)
                written[0] = time.monotonic()

        trained = train(
            policy, task_of(project, shaping=True), task_of(project), items_of(project, "train"), validation, params,
            history=history, on_step=on_step,
        )  # fmt: skip
    adapter = project.root / "models/adapter"
    shutil.rmtree(adapter, ignore_errors=True)
    save_adapter(adapter, trained)
    write_tables(project, history, base_digest)
    write_jsonl(project.results("train_log.jsonl"), history.train_log)
    facts = TrainFacts(
        seed=params.seed, steps=steps, chosen_step=trained.chosen_step, claim_plan_sha256=claim_digest,
        base_digest=base_digest, validation_suite=validation.digest,
    )  # fmt: skip
    write_json(project.results("train.json"), facts)
    manifest = {
        "started": started, "finished": now(), "git": git_state(project.root), "packages": packages(),
        "hardware": hardware(), "environment": environment(), "rank": 0, "world_size": 1,
        "dataset_sha256": fingerprint_of(project).dataset_sha256, "params": params.model_dump(mode="json"),
    }  # fmt: skip
    write_json(project.observed("manifest.json"), manifest)
    say(f"trained {steps} steps; validation chose step {trained.chosen_step}")


def write_tables(project: Project, history: History, policy_digest: str) -> None:
    """Write the curves as they stand; a reader never sees half a file."""
    write_csv(project.results("training_log.csv"), history.training_log, TRAINING_LOG_COLUMNS)
    components = history.reward_components
    if components:
        write_csv(project.results("reward_components.csv"), components, list(components[0]))
    suite = validation_suite(project)
    rows = []
    for step, episodes in history.validations:
        report = report_on(episodes, suite, policy_digest, "sampled")
        rows.append(checkpoint_row(report, step=step, fraction_done=step / project.params.train.steps))
    if rows:
        write_csv(project.results("checkpoint_evals.csv"), rows, list(rows[0]))
    if history.observed:
        columns = list(history.observed[0])
        write_csv(project.observed("training_clock.csv"), history.observed, columns)
