"""What is looked at once more with the base loaded, before a training begins: the plan's power, then all that
examines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assay.core.config.settings import PretrainedBase
from assay.core.console import complain, say
from assay.core.records import Episode
from assay.core.storage.json import read_records
from assay.dataset.suite import Suite
from assay.pipeline.inputs import heldout_suite, task_of
from assay.pipeline.project import Project
from assay.policy.base.pretrained import locate
from assay.policy.model import Policy
from assay.statistics.power import planned_power, planned_said
from assay.tasks.protocol import Item, Task
from assay.tools.doctor.deadline import AHEAD, LEAST, MOST_SECONDS, Deadline
from assay.tools.doctor.examination import examine
from assay.tools.doctor.findings import Finding, in_words, refuse_faults
from assay.tools.doctor.forecast.forecast import look_ahead, memory_ahead
from assay.tools.doctor.preflight.kept_looks import looked


def say_power(project: Project) -> None:
    """Say the smallest gain that the held-out suite can show, before hours are spent on what it cannot.

    It follows from the base's own episodes; without them nothing is known, and nothing said.
    """
    path = project.results("pre_eval.jsonl")
    if not path.is_file():
        return
    claim, suite = project.params.claim, heldout_suite(project)
    episodes = read_records(path, Episode, fix="./run dvc repro pre_eval")
    planned = planned_power(episodes, suite.digest, suite.draws, primary=claim.primary, alpha=claim.alpha)
    said, enough = planned_said(planned, claim.smallest_effect_points, task_of(project).cluster_name)
    (say if enough else complain)(f"plan: {said}")


def examine_training(
    project: Project,
    policy: Policy,
    task: Task,
    judged: Task,
    items: Sequence[Item],
    validation: Suite,
    folder: Path,
) -> None:
    """Say the plan's power, then every warning of the doctor.

    Whether a base of one's own fits a GPU at its longest episodes takes a processor some 15 s; on a CPU,
    whose memory hardly ever is what there is too little of, that is left out.

    Raises:
        TrainingError: A training could not work so.
    """
    say_power(project)
    params, told, deadline = project.params, list[Finding](), Deadline()
    if not params.health.preflight:
        return
    if params.device == "cuda" and isinstance(params.base, PretrainedBase):
        base = locate(project.root / "models/base")

        def weighed() -> list[Finding]:
            ahead, part = look_ahead(base, params), Deadline(AHEAD * MOST_SECONDS)
            return [memory_ahead(ahead, task, items, validation, params, part)[0]]

        told += looked(project, "memory", base, weighed)
    seconds = max(deadline.left, LEAST)
    findings = [
        *examine(policy, task, judged, items, validation, params, folder=folder, seconds=seconds),
        *told,
    ]
    for finding in (each for each in findings if each.level == "warning"):
        complain(in_words(finding))
    refuse_faults(findings)
