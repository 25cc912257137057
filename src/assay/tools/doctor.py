"""`assay doctor`: look at a project as it stands, and say what would go wrong in its training."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from assay.console import complain, progress, say, say_table
from assay.errors import AssayError
from assay.stages.inputs import items_of, task_of, validation_suite
from assay.stages.policies import open_policy
from assay.stages.project import Project
from assay.training.doctor import Finding, examine, examine_without_model, in_words, settings_findings, verdict_of
from assay.training.doctor.findings import error_finding

BASE = "models/base"


def run(root: Path) -> int:
    """Print what was found and return the exit code: 1 if a training could not work, else 0."""
    project = Project.open(root)
    begun = time.monotonic()
    with progress("doctor", 1) as advance:
        findings, unseen = examined(project)
        advance(1)
    shown = [finding for finding in findings if finding.level != "ok"]
    if shown:
        say_table(("level", "check", "where", "found"), [(f.level, f.check, f.where, f.found) for f in shown])
    for finding in shown:
        say(f"\n{in_words(finding)}")
    for finding in findings:
        if finding.level == "ok" and "forecast" in finding.check:
            say(f"{finding.check}: {finding.found}")
    for what in unseen:
        complain(what)
    say(_summary(findings, time.monotonic() - begun))
    return 1 if verdict_of(findings) == "fault" else 0


def examined(project: Project) -> tuple[list[Finding], list[str]]:
    """Return all findings that can be had, and what could not be looked at, a sentence each."""
    params = project.params
    try:
        items, validation = items_of(project, "train"), validation_suite(project)
        task, judged = task_of(project, shaping=True), task_of(project)
    except AssayError as error:
        unseen = "not looked at: data, task, tokenizer, model, probe"
        return [*settings_findings(params), error_finding("data", error)], [unseen]
    if not (project.root / BASE).is_dir():
        unseen = f"not looked at: tokenizer, template, weights, probe; there is no {BASE} yet. Fix: ./run dvc repro base"
        return examine_without_model(task, judged, items, validation, params), [unseen]
    try:
        policy = open_policy(project, None)
    except AssayError as error:
        found = examine_without_model(task, judged, items, validation, params)
        return [*found, error_finding("base", error)], ["not looked at: tokenizer, template, weights, probe"]
    return examine(policy, task, judged, items, validation, params, folder=project.root), []


def _summary(findings: Sequence[Finding], seconds: float) -> str:
    counts = {level: sum(finding.level == level for finding in findings) for level in ("ok", "warning", "fault")}
    told = f"{counts['ok']} checks are well, {counts['warning']} warnings, {counts['fault']} faults ({seconds:.1f} s)"
    return f"{told}: a training could not work so" if counts["fault"] else told
