"""`assay task check`: look at a task before it is trained on, in a process of its own that may fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from assay.core.console import progress, say, say_table
from assay.core.counting import counted
from assay.core.records import Record
from assay.core.storage.json import write_json
from assay.pipeline.project import Project
from assay.tools.findings import Finding, in_words, verdict_of

SECONDS = 55.0
QUICK_SECONDS = 8.0
LEAST = 10.0  # beyond its time, before the process is ended


class Report(Record):
    """What `assay task check` found."""

    task: str
    seconds: float
    verdict: str
    findings: tuple[Finding, ...]


def run(root: Path, name: str | None = None, seconds: float = SECONDS, out: Path | None = None) -> int:
    """Print a line for each check, write them as JSON, and return the exit code: 1 for a fault, else 0.

    Args:
        root: Of the project.
        name: Preset of configs/task/; None: the chosen one.
        seconds: That it may take.
        out: File to write; None: .scratch/envcheck/NAME.json.

    Raises:
        ConfigError: There is no such preset, or it is broken.
    """
    from assay.core.config.composition import selected
    from assay.tools.own_data.audit import project_for, selection_for

    name = name or selected(root).task
    project, judged_with = project_for(root, name), selection_for(root, name).presets
    begun = time.monotonic()
    with progress(f"task check {name}", 1) as advance:
        findings = examined(project, seconds)
        advance(1)
    took = time.monotonic() - begun
    say_table(("level", "check", "found"), [(f.level.upper(), f.check, f.found) for f in findings])
    for finding in findings:
        if finding.level in ("warning", "fault"):
            say(f"\n{in_words(finding)}")
    path = out or project.scratch / "envcheck" / f"{name}.json"
    report = Report(task=name, seconds=round(took, 1), verdict=verdict_of(findings), findings=tuple(findings))
    write_json(path, report)
    counts = [
        counted(sum(f.level == level for f in findings), f"{level}s")
        for level in ("fault", "warning", "note")
    ]
    told = f"{counted(len(findings), 'checks')}: {', '.join(counts)}"
    say(f"\n{told} ({took:.0f} s, by {judged_with}). Written: {path}")
    return 1 if verdict_of(findings) == "fault" else 0


def examined(project: Project, seconds: float = SECONDS) -> list[Finding]:
    """Return what each check found; the process that looks is ended where it goes on for too long."""
    from assay.tools.envcheck.evidence import CHECKS, check, not_looked_at, out_of_time
    from assay.tools.envcheck.examination import in_order

    with tempfile.TemporaryDirectory(prefix="assay-envcheck-") as folder:
        plan, out = Path(folder) / "plan.json", Path(folder) / "found.jsonl"
        asked = {
            "root": str(project.root.resolve()),
            "params": project.params.model_dump(mode="json"),
            "seconds": seconds,
        }
        plan.write_text(json.dumps(asked), encoding="utf-8")
        command = [sys.executable, "-m", "assay.tools.envcheck.examination", str(plan), str(out)]
        there = os.pathsep.join(str(Path(each).resolve()) for each in sys.path if each)
        process = subprocess.Popen(
            command,
            env={"PYTHONHASHSEED": "0", **os.environ, "PYTHONPATH": there},
            cwd=project.root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        try:
            _, said = process.communicate(timeout=seconds + LEAST)
            ended = "" if process.returncode == 0 else f"its process ended (exit code {process.returncode})"
        except subprocess.TimeoutExpired:
            alive = Path(f"{out}.alive")  # nothing else runs while a call holds Python's lock
            hangs = alive.exists() and time.time() - alive.stat().st_mtime > LEAST
            process.kill()
            _, said = process.communicate()
            ended = f"its process was ended after {seconds + LEAST:g} s" if hangs else ""
        lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    told = [json.loads(line) for line in lines if line.endswith("}")]
    findings = [Finding.model_validate(each["finding"]) for each in told if "finding" in each]
    if not any("done" in each for each in told):
        under_way = next(
            (each["begun"] for each in reversed(told) if "begun" in each), "the import of its code"
        )
        if not any(each.check == "ending" and each.level == "fault" for each in findings) and ended:
            last = (said.strip().splitlines() or [""])[-1][:300]
            name = "ending" if "was ended" in ended else "bad completions"
            expected = check(name, "a process that goes on", "the task's code")
            fix = (
                "no exit, no crash and no endless call in the task's code; task.isolation: worker survives it"
            )
            findings.append(expected.fault(f"{ended} during the check {under_way}; {last}", fix))
    findings = in_order(findings)
    missing = [name for name in CHECKS if name not in {each.check for each in findings}]
    if seconds > QUICK_SECONDS:
        return in_order([*findings, *map(out_of_time, missing)])
    why = "only what bars a training is looked at"
    return in_order([*findings, *[not_looked_at(name, why) for name in missing]])
