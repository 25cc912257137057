"""V3, the training: the plan before it, the items it saw and when, an unbroken log, and the checkpoint its
rule names."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from assay.core.config.settings import TrainSettings
from assay.core.counting import counted
from assay.core.storage.files import read_bytes, sha256_bytes
from assay.core.storage.json import digest
from assay.evidence.claim.plan import alarms_digest, plan_digest
from assay.pipeline.inputs import items_of
from assay.stages.render_evidence.claim_inputs import plan_asked
from assay.training.log.step_chain import check_chain
from assay.training.recipe import chosen_step, item_order
from assay.verify.checks import Seen
from assay.verify.compared import NEAR
from assay.verify.content.alarms import scheduled
from assay.verify.unpacked import FIX, Unpacked

# A mean over a step's episodes is taken once in 64 bits and once by the trainer in 32.
TRAINER_DIGITS = 1e-4


def plan_precedes(package: Unpacked) -> Seen:
    """Compare the plan with the settings, with what the training noted before its first step, and with the
    claim."""
    written = sha256_bytes(read_bytes(package.results("claim_plan.json"), fix=FIX))
    plan, noted = package.plan, package.trained.claim_plan_sha256
    wrong = []
    if written != noted:
        wrong.append(
            f"claim_plan.json: sha256 {written[:16]} now, {noted[:16]} when training began (train.json)"
        )
    if plan != plan_asked(package.project, package.task.cluster_name):
        wrong.append("claim_plan.json is not what the settings ask for")
    told = package.claim.get("plan")
    if digest(told) != digest(plan.model_dump(mode="json")):
        wrong.append("claim.json, plan: not that of claim_plan.json")
    if plan.alarms != alarms_digest(package.project.params.health):
        wrong.append("params.yaml, health: other alarms than the plan was hashed with")
    said = (
        f"plan {plan_digest(plan)[:16]} follows from the settings, and its file has the sha256 noted when"
        " training began"
    )
    return Seen(said, wrong)


def log_whole(package: Unpacked) -> Seen:
    """Check that the log is steps 1, 2, 3 ... of the settings, chained to the value in train.json, and agrees
    with itself."""
    rows, params, trained = package.log, package.project.params, package.trained
    wrong = []
    counts = {"train_log.jsonl": len(rows), "train.json": trained.steps, "params.yaml": params.train.steps}
    if len(set(counts.values())) > 1:
        wrong.append(f"steps: {', '.join(f'{n} in {name}' for name, n in counts.items())}")
    if trained.seed != params.seed:
        wrong.append(f"train.json, seed: {trained.seed}, and {params.seed} in params.yaml")
    check_chain(rows, "train_log.jsonl")
    if rows and rows[-1]["chain"] != trained.chain:
        wrong.append(
            f"train.json, chain: {trained.chain[:16]}, and {rows[-1]['chain'][:16]} at the end of"
            " train_log.jsonl"
        )
    size = params.train.items_per_step * params.train.group_size
    wrong += [f"train_log.jsonl, step {row['step']}: {fault}" for row in rows for fault in _odd(row, size)]
    wrong += [*_off_schedule(package)]
    steps, planned = [each.step for each in package.validations], scheduled(package)
    if steps != sorted(set(steps) & set(planned)) or planned[0] not in steps:
        wrong.append(f"validation.jsonl: validations at {steps}, planned were {planned}")
    lost = sorted(set(planned) - set(steps))
    said = f"{counted(len(rows), 'steps')}, each chained to the one before, up to the chain in train.json; "
    said += counted(len(steps), "validations")
    if lost:  # a package cannot show it: who left out validations that did not suit him would say the same
        said = (
            f"{said}; that those at {lost} are missing because their environment lost them is the maker's"
            " word"
        )
    return Seen(said, wrong, unchecked=bool(lost))


def _odd(row: dict[str, Any], episodes: int) -> list[str]:
    """Return in what a row contradicts itself."""
    signals, components = row["signals"], row["components"]
    kept = episodes - row["lost"]
    pairs = {
        "step": (row["step"], components["step"]),
        "kl": (row["kl_probe"], signals["kl"]),
        "entropy": (row.get("entropy"), signals["entropy"]),
        "grad_norm": (row.get("grad_norm"), signals["grad_norm"]),
        "lost": (1 - kept / episodes, signals["lost"]),
        "n": (kept, components["n"]),
    }
    wrong = [
        f"{name}: {one!r} and {other!r} in one row" for name, (one, other) in pairs.items() if one != other
    ]
    mean = components["mean_cumulative"]
    for told in (signals["reward"], row.get("reward")):
        if told is not None and mean is not None and abs(told - mean) > TRAINER_DIGITS * max(1.0, abs(mean)):
            wrong.append(f"reward: {told!r} and {mean!r} in one row")
    return wrong


def _off_schedule(package: Unpacked) -> Iterator[str]:
    settings, processes = package.project.params.train, package.project.params.distributed.processes
    alone = settings.num_iterations == processes == 1
    for row, rate in zip(package.log, learning_rates(settings), strict=False):
        if not math.isclose(row["learning_rate"], rate, rel_tol=NEAR, abs_tol=1e-15):
            yield (
                f"train_log.jsonl, step {row['step']}, learning_rate: {row['learning_rate']!r}; the settings"
                f" give {rate!r}"
            )
        if alone and not math.isclose(row["epoch"], row["step"] / settings.steps, rel_tol=NEAR):
            yield (
                f"train_log.jsonl, step {row['step']}, epoch: {row['epoch']!r} of {settings.steps} steps"
                " in one"
            )


def learning_rates(settings: TrainSettings) -> list[float]:
    """Return the learning rate of every step, as it is logged.

    Source: transformers 4 and 5, `optimization.py`, the schedules of these names with their defaults.
    """
    warm, n, kind = settings.warmup_steps, settings.steps, settings.lr_scheduler
    rates = []
    for done in range(n):
        share = 1.0 if kind == "constant" or done >= warm else done / max(1, warm)
        left = (done - warm) / max(1, n - warm)
        if kind == "linear" and done >= warm:
            share = max(0.0, (n - done) / max(1, n - warm))
        elif kind == "cosine" and done >= warm:
            share = max(0.0, 0.5 * (1.0 + math.cos(math.pi * left)))
        rates.append(settings.learning_rate * share)
    return rates


def items_in_order(package: Unpacked) -> Seen:
    """Check that every item that was trained on is a train item, at its step of the order, and none that is
    judged by."""
    params, rows = package.project.params, package.log
    train = items_of(package.project, "train")
    wrong = []
    seen = {str(item) for row in rows for item in row["item_ids"]}
    for suite in (package.validation, package.heldout):
        if shared := seen & {item.id for item in suite.items}:
            wrong.append(
                f"train_log.jsonl: {counted(len(shared), f'{suite.split} items')} trained on, first"
                f" {min(shared)}"
            )
    if foreign := seen - {item.id for item in train}:
        said = (
            f"{counted(len(foreign), 'items')} {'is' if len(foreign) == 1 else 'are'} none of the train data"
        )
        wrong.append(f"train_log.jsonl: {said}, first {min(foreign)}")
    size = params.train.items_per_step
    said = (
        f"{counted(len(seen), 'train items')} in {counted(len(rows), 'steps')}; none is a validation or"
        " held-out item"
    )
    if params.train.num_iterations > 1:
        return Seen(said, wrong)
    order = [item.id for item in item_order(train, len(rows) * size, params.seed)]
    for k, row in enumerate(rows):
        if sorted(set(order[k * size : (k + 1) * size])) != row["item_ids"]:
            wrong.append(f"train_log.jsonl, step {k + 1}: other items than the seed orders")
    return Seen(f"{said}; their order is that of seed {params.seed}", wrong)


def checkpoint_follows(package: Unpacked) -> Seen:
    """Apply the plan's rule to the validations and compare with the step that was chosen."""
    rule, trained, suite = package.plan.checkpoint_rule, package.trained, package.validation.digest
    chosen = chosen_step(package.validations, rule, trained.steps)
    wrong = []
    if chosen != trained.chosen_step:
        wrong.append(f"train.json, chosen_step: {trained.chosen_step}; by {rule} it is {chosen}")
    if trained.validation_suite != suite:
        wrong.append(
            f"train.json, validation_suite: {trained.validation_suite[:16]}; settings and data make"
            f" {suite[:16]}"
        )
    return Seen(f"step {chosen}, by {rule} over {counted(len(package.validations), 'validations')}", wrong)
