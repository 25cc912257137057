"""What stands in the results when the evidence cannot be read: NOT EVALUABLE with the reason, and no older claim beside it.

The stage still ends with an error, on purpose: DVC records nothing of a stage that failed, so the claim is made again as
soon as the file is whole, and no package is built of it. But who opens the folder must not find the last claim there.
"""

from __future__ import annotations

import html
import shutil
from collections.abc import Sequence

from assay.console import complain
from assay.errors import AssayError, RecordError
from assay.evidence.claim import UNREAD, Claim, not_evaluable
from assay.evidence.hostile_text import visible
from assay.evidence.plan import ClaimPlan
from assay.records import TrainFacts
from assay.stages.project import RESULTS, Project
from assay.storage.files import real, remove, write_text
from assay.storage.json import read_record, write_json

KIND = "a file of the evidence is missing, damaged or not what it should be"
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'">
<meta name="viewport" content="width=device-width,initial-scale=1"><title>assay: NOT EVALUABLE</title>
<style>:root{{color-scheme:light dark}}body{{font:16px/1.5 system-ui,sans-serif;margin:2rem auto}}
body{{max-width:50rem;padding:0 1rem}}p{{overflow-wrap:anywhere}}</style></head><body><main>
<h1>NOT EVALUABLE</h1><p>{sentence}</p><p>Reason: {reason}.</p><p>Fix: {fix}</p>
</main></body></html>
"""


def refuse(project: Project, error: AssayError, writes: Sequence[str]) -> Claim | None:
    """Write a claim, a page and a summary that say NOT EVALUABLE and why; remove everything else the stage writes.

    Args:
        project: Where everything lies.
        error: Why the evidence cannot be read.
        writes: WRITES of the stage.

    Returns:
        The claim; None where not even the plan of it can be read: then nothing of the last claim is left at all.
    """
    for name in writes:
        path = project.root / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            remove(path)
    try:
        plan = read_record(project.results("claim_plan.json"), ClaimPlan, fix="")
    except RecordError:
        return None
    found = f"{error.where}: expected {error.expected}, found {error.found}".replace(f"{real(project.root)}/", "")
    found = visible(" ".join(found.replace(f"{project.root}/", "").split()))
    claim = not_evaluable(
        plan, [(KIND, f"{KIND}: {found}")], before_policy=UNREAD, after_policy=UNREAD, split="heldout",
        decoding="sampled", training_seeds=_seeds(project),
    )  # fmt: skip
    write_json(project.results("claim.json"), claim)
    write_json(project.results("metrics.json"), {"verdict": claim.verdict, "p": None})
    summary = f"**{claim.verdict}.** {claim.sentence}\n"
    write_text(project.results("summary.md"), summary)
    for name in writes:
        if name.endswith("README.md"):
            write_text(project.root / name, f"# Evidence\n\n{summary}\nThe reason stands in `results/claim.json`.\n")
    shown = {"sentence": claim.sentence, "reason": claim.reason, "fix": error.fix}
    write_text(
        project.results("report.html"), _PAGE.format(**{name: html.escape(visible(text)) for name, text in shown.items()})
    )
    complain(f"{claim.verdict}: {claim.reason}; {RESULTS}/claim.json says so")
    return claim


def _seeds(project: Project) -> tuple[int, ...]:
    try:
        return (read_record(project.results("train.json"), TrainFacts, fix="").seed,)
    except RecordError:
        return ()
