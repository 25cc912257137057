"""V1, the part that reads raw files: episodes written again, and the tables of a training computed from its
logs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from assay.core.counting import counted
from assay.core.evidence_files import place_of
from assay.core.records import TRAINING_LOG_COLUMNS
from assay.core.storage.json import write_jsonl
from assay.pipeline.live_log import Tables
from assay.pipeline.project import Project
from assay.training.log.history import History, component_row
from assay.verify.checks import Check, Seen, looked
from assay.verify.compared import compare
from assay.verify.unpacked import Unpacked

TRAINING_TABLES = (
    "training_log.csv",
    "reward_components.csv",
    "checkpoint_evals.csv",
    "validation_scores.csv",
    "fields.csv",
    "train_log.jsonl",
    "validation.jsonl",
    "health.jsonl",
)


def tables_again(package: Unpacked, work: Path, *, nearly: bool) -> Iterator[Check]:
    """Write the episodes of every arm and compute the tables of a training again, and compare each with the
    stored one.

    Args:
        package: What is stored.
        work: An empty folder to compute in.
        nearly: Whether agreement to 9 digits will do.
    """

    def episodes() -> Seen:
        again, n = Project(work, package.project.params), 0
        for name in package.arms:
            write_jsonl(again.results(f"{name}.jsonl"), package.episodes(name))
            n += len(package.episodes(name))
        said = f"{counted(n, 'episodes')} of {counted(len(package.arms), 'arms')} written again"
        names = [place_of(f"{name}.jsonl") for name in package.arms]
        return compare(package.root, work, names, nearly=nearly, said=said)

    def training() -> Seen:
        history, again = history_of(package), Project(work, package.project.params)
        Tables(again, history, package.validation, package.task).write()
        write_jsonl(again.results("validation.jsonl"), package.validation_lines)
        n = sum(len(each.sampled) + len(each.greedy) for each in history.validations)
        said = (
            f"tables of {counted(len(package.log), 'steps')} and"
            f" {counted(len(history.validations), 'validations')} "
        )
        said += f"({counted(n, 'episodes')})"
        return compare(
            package.root, work, [place_of(name) for name in TRAINING_TABLES], nearly=nearly, said=said
        )

    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    yield looked("V1", "episodes", episodes)
    yield looked("V1", "training tables", training)


def history_of(package: Unpacked) -> History:
    """Return a training as its log and its validations tell it.

    Raises:
        KeyError: A row lacks its components.
    """
    columns = list(component_row(0, [], package.task))
    return History(
        training_log=[
            {name: row["kl_probe"] if name == "kl" else row.get(name) for name in TRAINING_LOG_COLUMNS}
            for row in package.log
        ],
        reward_components=[{name: row["components"][name] for name in columns} for row in package.log],
        train_log=list(package.log),
        validations=package.validations,
        health=package.events,
    )
