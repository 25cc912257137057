"""V3, the tables of a training: against each other, its settings and what train.json says, without its log.

A package of a run holds the log, from which these tables are made again. An older package of seeds does not:
then they are all there is of a training.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd

from assay.core.counting import counted
from assay.core.records import TRAINING_LOG_COLUMNS, Episode, HealthSummary, TrainFacts
from assay.package.verification.checks import LookResult
from assay.package.verification.compared import NEAR
from assay.package.verification.content.training import (
    off_schedule,
    played_honestly,
    rewards_apart,
    scheduled,
)
from assay.package.verification.suites import Drawn
from assay.package.verification.unpacked import Unpacked
from assay.rollout.dataset.suite import Play
from assay.stages.render_evidence.arms import checkpoint_frame, log_table
from assay.training.log.history import Validation, component_row
from assay.training.recipe import chosen_step
from assay.verdict.statistics.checkpoint_rows import LABELS

SCORES, CHECKPOINTS = "validation_scores.csv", "checkpoint_evals.csv"
TRAINING_LOG, PARTS = "training_log.csv", "reward_components.csv"


def tables_agree(package: Unpacked) -> LookResult:
    """Check that the tables are of the steps, validations and alarms of one training of these settings."""
    trained = package.trained
    rows, scores = rows_of_tables(package), _scores(package)
    wrong = [*_steps(package, rows), *_validations(package, trained, scores)]
    if trained.health != HealthSummary.of(package.events, trained.health.unmeasured):
        wrong.append("train.json, health: not what health.jsonl comes to")
    wrong += played_honestly(package)
    said = f"{counted(len(rows), 'steps')} and {counted(scores['step'].nunique(), 'validations')} in tables"
    return LookResult(f"{said} that agree with each other, settings and train.json", wrong)


def rows_of_tables(package: Unpacked) -> list[dict[str, Any]]:
    """Return the steps of a training as its tables have them, under the names of train_log.jsonl."""
    columns = list(component_row(0, [], package.task))
    log, parts = _cells(package, TRAINING_LOG, TRAINING_LOG_COLUMNS), _cells(package, PARTS, columns)
    steps = [row["step"] for row in log]
    if steps != [row["step"] for row in parts]:
        return [row | {"kl_probe": row["kl"], "components": None} for row in log]
    return [row | {"kl_probe": row["kl"], "components": part} for row, part in zip(log, parts, strict=True)]


def _cells(package: Unpacked, name: str, columns: Any) -> list[dict[str, Any]]:
    frame = log_table(package.project, name, *columns)
    cells: list[dict[str, Any]] = frame.astype(object).where(frame.notna(), None).to_dict("records")
    odd = sorted(set(frame.columns) - set(columns))
    return [row | {each: ... for each in odd} for row in cells]


def _steps(package: Unpacked, rows: list[dict[str, Any]]) -> Iterator[str]:
    params, trained = package.project.params, package.trained
    counts = {TRAINING_LOG: [row["step"] for row in rows], "train.json": [*range(1, trained.steps + 1)]}
    counts["params.yaml"] = [*range(1, params.train.steps + 1)]
    if len({*map(tuple, counts.values())}) > 1:
        told = ", ".join(f"{len(steps)} in {name}" for name, steps in counts.items())
        yield f"{TRAINING_LOG}: other steps than those of the settings, in order: {told}"
    if trained.seed != params.seed:
        yield f"train.json, seed: {trained.seed}, and {params.seed} in params.yaml"
    most = params.train.items_per_step * params.train.group_size
    for row in rows:
        where, parts = f"step {row['step']}", row["components"]
        if odd := [name for name, value in {**row, **(parts or {})}.items() if value is ...]:
            yield f"{TRAINING_LOG} or {PARTS}: a column {odd[0]}, which no training of this task has"
            return
        if parts is None:
            yield f"{PARTS}: not the steps of {TRAINING_LOG}"
            return
        if not 0 <= parts["n"] <= most:
            yield f"{PARTS}, {where}, n: {parts['n']}, and {most} episodes are a step"
        for name, value in parts.items():
            if name.endswith("_rate") and value is not None and not 0 <= value <= 1:
                yield f"{PARTS}, {where}, {name}: {value} is no rate"
        whole, own = parts["mean_cumulative"], [parts[f"mean_{name}"] for name in package.task.parts]
        if None not in own and not _equal(math.fsum(own), whole):
            yield f"{PARTS}, {where}, mean_cumulative: {whole}; its parts come to {math.fsum(own)}"
        for fault in rewards_apart(row["reward"], whole):
            yield f"{TRAINING_LOG} and {PARTS}, {where}, {fault}"
    yield from (fault.replace("train_log.jsonl", TRAINING_LOG) for fault in off_schedule(package, rows))


def _scores(package: Unpacked) -> pd.DataFrame:
    needed = (*LABELS, "mean_reward", "success_rate")
    return log_table(package.project, SCORES, *needed, texts=("item_id", "cluster"))


def _validations(package: Unpacked, trained: TrainFacts, scores: pd.DataFrame) -> Iterator[str]:
    suite, planned = package.validation, scheduled(package)
    plays = [(0, *_place(play)) for play in suite.plays()]
    plays += [(1, *_place(play)) for play in suite.plays() if play.draw == 0]
    steps = sorted({int(step) for step in scores["step"]})
    if not {*steps} <= {*planned} or planned[0] not in steps:
        yield f"{SCORES}: validations at {steps}, planned were {planned}"
    places = scores[["step", "greedy", "item_id", "draw", "cluster"]].itertuples(index=False, name=None)
    if (found := [*places]) != [(step, *play) for step in steps for play in plays]:
        yield f"{SCORES}: not each play of the suite once and in its place, step by step ({len(found)} rows)"
    again = checkpoint_frame(package.project, trained)
    stored = log_table(package.project, CHECKPOINTS, "step", "mean_reward")
    if [*stored["step"]] != [*again["step"]]:
        yield f"{CHECKPOINTS}: other steps than {SCORES}"
        return
    for name in stored.columns:
        if name not in again.columns:
            yield f"{CHECKPOINTS}: a column {name}, which does not follow from {SCORES}"
            continue
        for step, one, other in zip(stored["step"], stored[name], again[name], strict=True):
            if not _equal(one, other):
                yield f"{CHECKPOINTS}, step {step}, {name}: {one}; {other} follows from {SCORES}"
    rule = package.plan.checkpoint_rule
    chosen = chosen_step([_rewards(scores, step) for step in steps], rule, trained.steps)
    if chosen != trained.chosen_step:
        yield f"train.json, chosen_step: {trained.chosen_step}; by {rule} it is {chosen}"
    if trained.validation_suite != suite.digest:
        yield f"train.json, validation_suite: not {suite.digest[:16]}, which settings and data make"


def _place(play: Play) -> tuple[str, int, str]:
    return play.item.id, play.draw, play.item.cluster


def sampled_of(package: Unpacked, step: int) -> list[Drawn]:
    """Return of the sampled draws of a validation what the table of scores tells of them."""
    scores = _scores(package)
    found = scores.loc[(scores["step"] == step) & (scores["greedy"] == 0)]
    told = zip(found["mean_reward"], found["mean_tokens"], strict=True)
    return [
        Drawn(item, int(draw), bool(success), each)
        for item, draw, success, each in zip(
            found["item_id"], found["draw"], found["success_rate"], told, strict=True
        )
    ]


def _rewards(scores: pd.DataFrame, step: int) -> Validation:
    """Return a validation of which only reward and success are known, by which rules choose."""
    rows = scores.loc[(scores["step"] == step) & (scores["greedy"] == 0)]
    told = zip(rows["mean_reward"], rows["success_rate"], strict=True)
    return Validation(step, [Episode.model_construct(reward=float(r), success=s == 1.0) for r, s in told], [])


def _equal(one: Any, other: Any) -> bool:
    if pd.isna(one) or pd.isna(other):
        return bool(pd.isna(one) and pd.isna(other))
    return math.isclose(one, other, rel_tol=NEAR, abs_tol=NEAR)
