"""Stage 3: play the held-out suite with the base policy, and with the scripted baselines."""

from __future__ import annotations

from assay.evaluation.report import Baselines, report_on
from assay.evaluation.rollout import play_baseline
from assay.stages.heldout import evaluate
from assay.stages.inputs import heldout_suite, task_of
from assay.stages.policies import open_policy
from assay.stages.project import RESULTS, Project
from assay.storage.json import write_json

READS = (f"{RESULTS}/fingerprint.json", "${dataset.root}/heldout.jsonl", "models/base")
WRITES = (
    f"{RESULTS}/pre_eval.jsonl", f"{RESULTS}/pre_eval.json", f"{RESULTS}/pre_eval_greedy.jsonl",
    f"{RESULTS}/pre_eval_greedy.json", f"{RESULTS}/baselines.json",
)  # fmt: skip


def run(project: Project) -> None:
    """Write pre_eval.jsonl, pre_eval.json and baselines.json."""
    policy = open_policy(project, adapter=False)
    task, suite, retries = task_of(project), heldout_suite(project), project.params.health.retries
    reports = {}
    for name, player in task.baselines().items():
        episodes = play_baseline(task, player, suite.plays(), name, retries=retries)
        reports[name] = report_on(episodes, suite, f"scripted:{name}", "sampled")
    write_json(project.results("baselines.json"), Baselines(reports=reports))
    # Last, because it forgets what an interrupted call can be gone on with once it has written its files.
    evaluate(project, policy, "pre_eval", reads=READS)
