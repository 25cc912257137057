"""What pre_eval and post_eval have in common: the held-out suite, opened once with one policy."""

from __future__ import annotations

from assay.console import progress, say
from assay.evaluation.measure import measure
from assay.evaluation.report import Report
from assay.evaluation.suite import Suite
from assay.policy.model import Policy
from assay.stages.inputs import decoding_of, heldout_suite, task_of
from assay.stages.project import Project
from assay.storage.json import write_json, write_jsonl


def evaluate(project: Project, policy: Policy, name: str) -> None:
    """Play the held-out suite and write `<name>.jsonl`, `<name>.json` and the same under `_greedy`."""
    sampled, greedy = heldout_suite(project), heldout_suite(project, draws=1)
    for label, suite, is_greedy in ((name, sampled, False), (f"{name}_greedy", greedy, True)):
        report = _one(project, policy, label, suite, is_greedy)
        success = report.measures["success_rate"]
        say(f"{label}: success {success.value:.1%} ({report.n_items} items x {report.draws} draws)")


def _one(project: Project, policy: Policy, label: str, suite: Suite, greedy: bool) -> Report:
    with progress(f"{label}: episodes", len(suite.items) * suite.draws) as advance:
        episodes, report = measure(
            policy, task_of(project), suite, decoding_of(project, greedy=greedy),
            batch_size=project.params.generation.batch_size, progress=advance,
        )  # fmt: skip
    write_jsonl(project.results(f"{label}.jsonl"), episodes)
    write_json(project.results(f"{label}.json"), report)
    return report
