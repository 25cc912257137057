"""Stage 3: play the held-out suite with the base policy, and with the scripted baselines."""

from __future__ import annotations

from assay.console import complain, say
from assay.evaluation.planning import planned_power, planned_said
from assay.evaluation.report import Baselines, report_on
from assay.evaluation.rollout import play_baseline
from assay.evaluation.suite import Suite
from assay.records import Episode
from assay.stages.control_tokens import tell_control_tokens
from assay.stages.heldout import evaluate
from assay.stages.inputs import heldout_suite, task_of
from assay.stages.policies import open_policy
from assay.stages.project import RESULTS, Project
from assay.storage.json import read_records, write_json
from assay.training.processes import Processes

READS = (f"{RESULTS}/fingerprint.json", "${dataset.root}/heldout.jsonl", "models/base")
WRITES = (
    f"{RESULTS}/pre_eval.jsonl", f"{RESULTS}/pre_eval.json", f"{RESULTS}/pre_eval_greedy.jsonl",
    f"{RESULTS}/pre_eval_greedy.json", f"{RESULTS}/baselines.json", f"{RESULTS}/plan_power.json",
)  # fmt: skip


def run(project: Project) -> None:
    """Write pre_eval.jsonl, pre_eval.json and baselines.json."""
    processes = Processes.joined(project.params.distributed, device=project.params.device, any_number=True)
    with processes.as_one():
        policy, suite, cluster = open_policy(project, None), heldout_suite(project), task_of(project).cluster_name
        if processes.main:
            tell_control_tokens(project, policy.tokenizer, "heldout")
            _baselines(project, suite)
    # Last, because it forgets what an interrupted call can be gone on with once it has written its files.
    evaluate(project, policy, "pre_eval", reads=READS, processes=processes)
    if processes.main:
        _plan(project, policy.digest, suite, cluster)
    processes.leave()


def _baselines(project: Project, suite: Suite) -> None:
    task, reports = task_of(project), {}
    for name, player in task.baselines().items():
        episodes = play_baseline(task, player, suite.plays(), name, retries=project.params.health.retries)
        reports[name] = report_on(episodes, suite, f"scripted:{name}", "sampled")
    write_json(project.results("baselines.json"), Baselines(reports=reports))


def _plan(project: Project, policy_digest: str, suite: Suite, cluster_name: str) -> None:
    """Say, before anything is trained, the smallest gain that the suite can show. The file does not depend on the claim."""
    episodes = read_records(project.results("pre_eval.jsonl"), Episode, fix="./run dvc repro pre_eval")
    claim = project.params.claim
    planned = planned_power(
        episodes, measure=f"{claim.primary}_rate", suite_digest=suite.digest, policy_digest=policy_digest,
        draws=suite.draws, alpha=claim.alpha,
    )  # fmt: skip
    write_json(project.results("plan_power.json"), planned)
    said, enough = planned_said(planned, claim.smallest_effect_points, cluster_name)
    (say if enough else complain)(f"plan: {said}")
