"""V1, the part that reads numbers off: reports, scripted players, the plan's power, and the tables of the training."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from assay.counting import counted
from assay.evaluation.planning import planned_power
from assay.evaluation.report import Baselines, Decoding, report_on
from assay.evaluation.scripted import play_baseline
from assay.records import TRAINING_LOG_COLUMNS
from assay.stages.live import Tables
from assay.stages.project import RESULTS, Project
from assay.storage.json import write_json, write_jsonl
from assay.training.history import History, component_row
from assay.verification.checks import Check, Seen, looked
from assay.verification.compared import compare
from assay.verification.unpacked import Unpacked

TRAINING_TABLES = ("training_log.csv", "reward_components.csv", "checkpoint_evals.csv", "fields.csv", "train_log.jsonl")


def tables_again(package: Unpacked, work: Path, *, nearly: bool) -> Iterator[Check]:
    """Compute every report and table of numbers again from raw episodes and logs, and compare each with the stored one.

    Args:
        package: What is stored.
        work: An empty folder to compute in.
        nearly: Whether agreement to 9 digits will do.
    """

    def files(*names: str) -> list[str]:
        return [f"{RESULTS}/{name}" for name in names]

    def reports() -> Seen:
        again, n = Project(work, package.project.params), 0
        for name in package.arms:
            report, episodes = package.arm(name)
            how: Decoding = "greedy" if name.endswith("_greedy") else "sampled"
            found = report_on(episodes, package.suite_of(name), report.policy_digest, how)
            write_json(again.results(f"{name}.json"), found)
            write_jsonl(again.results(f"{name}.jsonl"), episodes)
            n += len(episodes)
        names = [f"{name}{end}" for name in package.arms for end in (".json", ".jsonl")]
        said = f"{counted(len(package.arms), 'reports')} from {counted(n, 'episodes')}"
        return compare(package.root, work, files(*names), nearly=nearly, said=said)

    def players() -> Seen:
        again, suite, found = Project(work, package.project.params), package.heldout, {}
        for name, player in package.task.baselines().items():
            played = play_baseline(package.task, player, suite.plays(), name, retries=again.params.health.retries)
            found[name] = report_on(played, suite, f"scripted:{name}", "sampled")
        write_json(again.results("baselines.json"), Baselines(reports=found))
        said = f"{counted(len(found), 'scripted players')} played the suite again"
        return compare(package.root, work, files("baselines.json"), nearly=nearly, said=said)

    def power() -> Seen:
        again, claim, suite = Project(work, package.project.params), package.project.params.claim, package.heldout
        planned = planned_power(
            package.arm("pre_eval").episodes, measure=f"{claim.primary}_rate", suite_digest=suite.digest,
            policy_digest=package.arm("pre_eval").report.policy_digest, draws=suite.draws, alpha=claim.alpha,
        )  # fmt: skip
        write_json(again.results("plan_power.json"), planned)
        said = "the smallest gain that could be found, planned again from the base's draws"
        return compare(package.root, work, files("plan_power.json"), nearly=nearly, said=said)

    def training() -> Seen:
        history = history_of(package)
        again = Project(work, package.project.params)
        Tables(again, history, package.validation, package.trained.base_digest, package.task).write()
        write_jsonl(again.results("validation.jsonl"), package.validation_lines)
        n = sum(len(each.sampled) + len(each.greedy) for each in history.validations)
        said = f"tables of {counted(len(package.log), 'steps')} and {counted(len(history.validations), 'validations')} "
        said += f"({counted(n, 'episodes')})"
        names = files(*TRAINING_TABLES, "validation.jsonl", "health.jsonl")
        return compare(package.root, work, names, nearly=nearly, said=said)

    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    yield looked("V1", "reports", reports)
    yield looked("V1", "scripted players", players)
    yield looked("V1", "power of the plan", power)
    yield looked("V1", "training tables", training)


def history_of(package: Unpacked) -> History:
    """Return a training as its log and its validations tell it.

    Raises:
        KeyError: A row lacks its components.
    """
    columns = list(component_row(0, [], package.task))
    return History(
        training_log=[
            {name: row["kl_probe"] if name == "kl" else row.get(name) for name in TRAINING_LOG_COLUMNS} for row in package.log
        ],
        reward_components=[{name: row["components"][name] for name in columns} for row in package.log],
        train_log=list(package.log),
        validations=package.validations,
        health=package.events,
    )
