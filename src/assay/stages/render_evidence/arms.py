"""The arms of a comparison: raw episodes as measured, and the reports with intervals that they give."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from assay.core.errors import RecordError
from assay.core.records import Episode, TrainFacts
from assay.core.storage.json import read_records
from assay.dataset.suite import Suite
from assay.evaluation.replay import play_baseline
from assay.pipeline.inputs import heldout_suite
from assay.pipeline.project import Project
from assay.stages.render_evidence.log_tables import FIX, log_table
from assay.statistics.checkpoint_rows import LABELS, rows_of_scores
from assay.statistics.report import Decoding, Report, report_on
from assay.tasks.protocol import Task

Arm = tuple[Report, list[Episode]]
CONTROL = "control_eval"
STAGES = {"pre_eval": "pre_eval", "post_eval": "post_eval", CONTROL: "control"}


def suite_of(heldout: Suite, name: str) -> Suite:
    """Return the suite that an arm plays: all draws of it, or one that is greedy."""
    return replace(heldout, draws=1) if name.endswith("_greedy") else heldout


def read_arm(project: Project, name: str) -> Arm:
    """Return an arm by the name of its file, such as pre_eval or post_eval_greedy.

    Raises:
        RecordError: The file is missing or damaged, or its episodes are not of one policy.
        EvidenceError: The episodes are not a whole suite.
    """
    fix = f"./run dvc repro {STAGES[name.removesuffix('_greedy')]}"
    episodes = read_records(project.results(f"{name}.jsonl"), Episode, fix=fix)
    return report_of(heldout_suite(project), name, episodes, fix), episodes


def report_of(heldout: Suite, name: str, episodes: list[Episode], fix: str) -> Report:
    """Return what the episodes of an arm give."""
    policies = {episode.policy for episode in episodes}
    if len(policies) != 1 or None in policies:
        found = f"{len(policies)} of them" if None not in policies else "episodes without one"
        raise RecordError("episodes of one policy", found=found, where=f"{name}.jsonl", fix=fix)
    suite = suite_of(heldout, name)
    n = len(suite.items) * suite.draws
    if len(episodes) != n or len({(episode.item_id, episode.draw) for episode in episodes}) != n:
        raise RecordError(
            f"the {n} plays of the suite", found=f"{len(episodes)} episodes", where=f"{name}.jsonl", fix=fix
        )
    decoding: Decoding = "greedy" if name.endswith("_greedy") else "sampled"
    return report_on(episodes, suite, str(policies.pop()), decoding)


def baseline_reports(task: Task, suite: Suite, retries: int) -> dict[str, Report]:
    """Play a suite with every scripted player of a task; return their reports by name."""
    return {
        name: report_on(
            play_baseline(task, player, suite.plays(), name, retries=retries),
            suite,
            f"scripted:{name}",
            "sampled",
        )
        for name, player in sorted(task.baselines().items())
    }


def checkpoint_frame(project: Project, trained: TrainFacts) -> pd.DataFrame:
    """Return every validation as checkpoint_evals.csv has it, with the intervals that its episodes give.

    Raises:
        RecordError: validation_scores.csv is missing or damaged, or holds a row twice or not at all.
    """
    scores = log_table(
        project, "validation_scores.csv", *LABELS, "mean_reward", "success_rate", texts=("item_id", "cluster")
    )
    plays = scores[["greedy", "item_id", "draw"]].drop_duplicates()
    repeated = int(scores.duplicated(["step", "greedy", "item_id", "draw"]).sum())
    missing = len(plays) * scores["step"].nunique() - (len(scores) - repeated)
    if repeated or missing:
        raise RecordError(
            f"each of the {len(plays)} plays once in every validation",
            found=f"{repeated} rows repeated, {missing} missing",
            where="validation_scores.csv",
            fix=FIX,
        )
    return pd.DataFrame(rows_of_scores(scores, trained.validation_suite, trained.steps))
