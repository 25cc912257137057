"""What a package says of itself, made from the files it holds: model card and provenance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from assay.core.evidence_files import place_of
from assay.core.provenance import git_state, remotes
from assay.core.records import TrainFacts
from assay.core.storage.files import read_bytes
from assay.core.storage.json import dumps, loads, read_record
from assay.dataset.external import read_training
from assay.evidence.claim.claim import Claim
from assay.evidence.claim.what_was_run import BaseFacts
from assay.evidence.tables.claim_tables import BeforeAfter
from assay.package.archive import sha256_of
from assay.package.card import CardNumbers, model_card
from assay.package.layout import CARD, NAME, PROVENANCE, SUMS
from assay.package.provenance import (
    GitState,
    MadeFrom,
    Packaged,
    Provenance,
    TaskCode,
    Trained,
    Witnessed,
    trained_of,
    tree_digest,
)
from assay.pipeline.inputs import code_of, fingerprint_of, task_of
from assay.pipeline.project import Project
from assay.stages.render_evidence.limits import limits
from assay.statistics.report import Reports
from assay.tasks.settings.own import OwnTask

AGAIN = "./run dvc repro"
# What a package is about; all else in it is how that came about.
SUBJECTS = (
    "models/adapter/adapter_model.safetensors",
    *map(place_of, ("claim.json", "pre_eval.jsonl", "post_eval.jsonl", "report.html")),
)


def documents(project: Project, members: Mapping[str, bytes | Path]) -> dict[str, bytes]:
    """Return README.md and provenance.json: a function of the other members, no clock and no place in it.

    Args:
        project: The run, or an unpacked package of it.
        members: What the package holds beside these.

    Raises:
        RecordError: A file of the run cannot be read.
    """
    subjects = {name: sha256_of(members[name]) for name in SUBJECTS if name in members}
    return {
        CARD: _card(project).encode(),
        PROVENANCE: (dumps(_made(project, members, subjects)) + "\n").encode(),
    }


def observed_provenance(
    project: Project, identity: str, members: Mapping[str, bytes | Path], *, began: str, ended: str
) -> Witnessed:
    """Return the provenance beside a package: who trained and packaged it when, on what, at which commit.

    Args:
        project: The run.
        identity: Of the package: the sha256 of its SHA256SUMS.
        members: What the package holds.
        began: When packaging began, UTC.
        ended: When it was done, UTC.
    """
    state, hosts = git_state(project.root), remotes(project.root)
    packaged = Packaged(
        started=began,
        finished=ended,
        git=GitState(commit=state["commit"], modified=state["modified"]),
        remotes=None if hosts is None else tuple(hosts),
    )
    made = _made(project, members, {f"{NAME}/{SUMS}": identity})
    return Witnessed(**dict(made), trained=_trained(project), packaged=packaged)


def _trained(project: Project) -> Trained | None:
    """Return who trained when on what; None where that is unknown.

    DVC may have taken the training out of its run cache: then the clocks that lie about are those of another
    one.
    """
    known = project.observed("manifest.json")
    if not known.is_file():
        return None
    found = loads(read_bytes(known, fix=AGAIN).decode(), where=known.name, fix=AGAIN)
    trained = read_training(project.results("train.json"), fix=AGAIN)
    if not isinstance(trained, TrainFacts) or not isinstance(found, dict):
        return None
    return trained_of(found) if found.get("chain") == trained.chain else None


def _made(project: Project, members: Mapping[str, bytes | Path], subjects: dict[str, str]) -> Provenance:
    params, base = project.params, read_record(project.results("base.json"), BaseFacts, fix=AGAIN)

    def digests(folder: str) -> dict[str, str]:
        return {name: sha256_of(members[name]) for name in members if name.startswith(f"{folder}/")}

    made_from = MadeFrom(
        data=digests(params.dataset.root),
        base={"kind": base.kind, "digest": base.digest, "model": base.model, "revision": base.revision},
        source=tree_digest(digests("src")),
        constraints=sha256_of(members["constraints.txt"]),
        task=_task_code(project, digests),
    )
    return Provenance(
        subjects=subjects,
        params=params.model_dump(mode="json"),
        task=params.dataset.name,
        seed=params.seed,
        made_from=made_from,
    )


def _task_code(project: Project, digests: Callable[[str], dict[str, str]]) -> TaskCode | None:
    settings, sha256 = project.params.task, code_of(project)
    if sha256 is None or not isinstance(settings, OwnTask):
        return None
    return TaskCode(
        folder=settings.code,
        entry=settings.entry,
        sha256=sha256,
        files=digests(settings.code),
        requires=fingerprint_of(project).requires or (),
    )


def _card(project: Project) -> str:
    reports, claim = (
        read_record(project.results("reports.json"), Reports, fix=AGAIN),
        read_record(project.results("claim.json"), Claim, fix=AGAIN),
    )
    before, after = reports.arms["pre_eval"], reports.arms["post_eval"]
    metrics = read_record(project.results("before_after_metrics.json"), BeforeAfter, fix=AGAIN)
    return model_card(
        claim,
        measured=CardNumbers(before, after, metrics),
        trained=read_training(project.results("train.json"), fix=AGAIN),
        base=read_record(project.results("base.json"), BaseFacts, fix=AGAIN),
        fingerprint=fingerprint_of(project),
        params=project.params,
        limits=limits(task_of(project), claim, before, after, reports.baselines),
        task_code=code_of(project),
    )
