"""What pre_eval and post_eval have in common: the held-out suite, opened once with one policy."""

from __future__ import annotations

from assay.console import complain, progress, say
from assay.evaluation.alarms import alarm_said, alarms
from assay.evaluation.cuts import cuts_said
from assay.evaluation.latency import Stopwatch, latency
from assay.evaluation.measure import measure
from assay.evaluation.report import Report
from assay.evaluation.suite import Suite
from assay.policy.model import Policy
from assay.stages.inputs import decoding_of, heldout_suite, task_of
from assay.stages.project import Project
from assay.storage.json import write_json, write_jsonl


def evaluate(project: Project, policy: Policy, name: str) -> None:
    """Play the held-out suite and write `<name>.jsonl`, `<name>.json` and the same under `_greedy`.

    How long it took goes to evidence/observed/, since a clock never gives the same result twice.
    """
    sampled, greedy = heldout_suite(project), heldout_suite(project, draws=1)
    for label, suite, is_greedy in ((name, sampled, False), (f"{name}_greedy", greedy, True)):
        report = _one(project, policy, label, suite, is_greedy)
        success = report.measures["success_rate"]
        say(f"{label}: success {success.value:.1%} ({report.n_items} items x {report.draws} draws)")


def _one(project: Project, policy: Policy, label: str, suite: Suite, greedy: bool) -> Report:
    task = task_of(project)
    with progress(f"{label}: episodes", len(suite.items) * suite.draws) as advance:
        stopwatch = Stopwatch(advance)
        episodes, report = measure(
            policy, task, suite, decoding_of(project, greedy=greedy),
            batch_size=project.params.generation.batch_size, progress=stopwatch,
        )  # fmt: skip
    write_jsonl(project.results(f"{label}.jsonl"), episodes)
    write_json(project.results(f"{label}.json"), report)
    write_json(project.observed(f"{label}_clock.json"), latency(episodes, stopwatch.seconds))
    for alarm in alarms(task, episodes):
        complain(alarm_said(alarm, f"held-out episodes of {label}"))
    if cut := cuts_said(episodes):
        say(f"{label}: {cut}")
    return report
