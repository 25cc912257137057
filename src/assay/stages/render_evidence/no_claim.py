"""What stands in the place of a claim that cannot be made, or may not be shown: the reason, and no older
claim beside it.

Two cases. Evidence that cannot be read: NOT EVALUABLE with the reason. The stage still ends with an error, so
that DVC records nothing of it and the claim is made again once the file is whole. Settings that changed: a
page is a file and cannot look whether they did, so whoever begins to make another claim first puts pages that
say so in the place of the last one's.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence

from assay.core.console import complain
from assay.core.errors import NO_VERDICT, AssayError, RecordError
from assay.core.evidence_files import place_of
from assay.core.records import TrainFacts
from assay.core.storage.files import real, remove, write_text
from assay.core.storage.json import read_record, write_json
from assay.pipeline.project import Project
from assay.rollout.dataset.external import read_training
from assay.stages.render_evidence import README, WRITES
from assay.stages.render_evidence.at_hand import claim_stands, others_settings
from assay.verdict.evidence.claim.claim import UNREAD, Claim, Compared, not_evaluable
from assay.verdict.evidence.claim.plan import ClaimPlan
from assay.verdict.evidence.escape import visible
from assay.verdict.evidence.page.shell import fill, shell
from assay.verdict.evidence.words.remarks import remark

SHOWN = WRITES
RESTORE = "git checkout -- evidence"


def withdraw_if_other(project: Project) -> None:
    """Take a claim about other settings, data or plan away, with every page and figure of it; what is damaged
    is left."""
    if not claim_stands(project):
        return
    try:
        found = others_settings(project)
    except AssayError as error:
        complain(f"{error.where}: expected {error.expected}, found {error.found}; it was left as it is")
        return
    if not found:
        return
    _remove_shown(project)
    data = project.params.dataset.name
    said = f"{visible(data)}: {NO_VERDICT}.\n\n" + "".join(f"- {visible(each)}\n" for each in found)
    metrics = {"verdict": None, "p": None}
    _write(
        project,
        metrics,
        said,
        f"{said}\n`./run repro` makes the claim about them.\n",
        withdrawn_page(data, found),
    )
    complain(
        f"the claim about other settings was taken away: {found[0]}; where it is committed, {RESTORE} brings"
        " its files back"
    )


def withdrawn_page(data: str, found: Sequence[str]) -> str:
    """Return a page without a claim that says why there is none."""
    title = f"{data}: {NO_VERDICT}"
    return _page(title, "./run repro", reasons=found)


def refuse(project: Project, error: AssayError) -> Claim | None:
    """Write a claim, a page and a summary that say NOT EVALUABLE and why; nothing else of a claim is left.

    Args:
        project: Where everything lies.
        error: Why the evidence cannot be read.

    Returns:
        The claim; None where not even the plan of it can be read: then nothing of the last claim is left at
        all.
    """
    _remove_shown(project)
    try:
        plan = read_record(project.results("claim_plan.json"), ClaimPlan, fix="")
    except RecordError:
        return None
    told = {"where": error.where, "expected": error.expected, "found": error.found}
    for name, text in told.items():
        text = text.replace(f"{real(project.root)}/", "").replace(f"{project.root}/", "")
        told[name] = visible(" ".join(text.split()))
    compared = Compared("heldout", "sampled", _seeds(project))
    claim = not_evaluable(plan, [remark("unreadable", **told)], policies=(UNREAD, UNREAD), compared=compared)
    write_json(project.results("claim.json"), claim)
    summary = f"**{claim.verdict}.** {claim.sentence}\n"
    reason = f"Reason: {claim.reason}."
    page = _page(claim.verdict, error.fix, said=[claim.sentence, reason])
    where = place_of("claim.json")
    readme = f"{summary}\nThe reason stands in `{where.removeprefix('evidence/')}`.\n"
    _write(project, {"verdict": claim.verdict, "p": None}, summary, readme, page)
    complain(f"{claim.verdict}: {claim.reason}; {where} says so")
    return claim


def _page(title: str, fix: str, *, said: Sequence[str] = (), reasons: Sequence[str] = ()) -> str:
    return shell(
        title=f"assay: {title}", body=fill("no_claim.html", title=title, said=said, reasons=reasons, fix=fix)
    )


def _remove_shown(project: Project) -> None:
    for name in SHOWN:
        path = project.root / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            remove(path)


def _write(project: Project, metrics: Mapping[str, str | None], summary: str, readme: str, page: str) -> None:
    write_text(project.root / README, f"# Evidence\n\n{readme}")
    write_text(project.results("summary.md"), summary)
    write_text(project.results("report.html"), page)
    write_json(project.results("metrics.json"), metrics)


def _seeds(project: Project) -> tuple[int, ...]:
    try:
        trained = read_training(project.results("train.json"), fix="")
        return (trained.seed,) if isinstance(trained, TrainFacts) else ()
    except RecordError:
        return ()
