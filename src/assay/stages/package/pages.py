"""What a package says of itself, made from the files it holds: model card and provenance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.core.evidence_files import place_of
from assay.core.provenance import git_state, remotes
from assay.core.records import TrainFacts
from assay.core.storage.files import read_bytes
from assay.core.storage.json import loads, read_record
from assay.evidence.claim.claim import Claim
from assay.evidence.claim.what_was_run import BaseFacts
from assay.evidence.tables.claim_tables import BeforeAfter
from assay.package.card.datasheet import DATASHEET, stated_licence
from assay.package.card.model_card import Measured, model_card
from assay.package.manifest import entry_of
from assay.package.names import CARD, PROVENANCE
from assay.package.statement import Dependencies, Packaged, inner_statement, outer_statement, statement_text
from assay.pipeline.inputs import fingerprint_of, task_of
from assay.pipeline.project import Project
from assay.stages.render_evidence.reader_pages import limits
from assay.statistics.report import Reports

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
    page = members.get(f"{project.params.dataset.root}/{DATASHEET}", b"")
    text = page if isinstance(page, bytes) else read_bytes(page, fix=AGAIN)
    subjects = {name: entry_of(members[name]).sha256 for name in SUBJECTS}
    statement = inner_statement(subjects, *_built_from(project, members))
    return {
        CARD: _card(project, text.decode("utf-8", "replace")).encode(),
        PROVENANCE: statement_text(statement).encode(),
    }


def outer_provenance(
    project: Project,
    archives: Mapping[str, str],
    members: Mapping[str, bytes | Path],
    *,
    began: str,
    ended: str,
) -> dict[str, Any]:
    """Return the statement beside a package: who trained and packaged it when, on what, at which commit.

    Args:
        project: The run.
        archives: File name → sha256 of the archive and its gzip.
        members: What the archive holds.
        began: When packaging began, UTC.
        ended: When it was done, UTC.
    """
    state, hosts = git_state(project.root), remotes(project.root)
    packaged = Packaged(
        started=began,
        finished=ended,
        commit=state["commit"],
        modified=state["modified"],
        remotes=None if hosts is None else tuple(hosts),
    )
    return outer_statement(archives, *_built_from(project, members), _trained(project), packaged)


def _trained(project: Project) -> dict[str, Any] | None:
    """Return who trained when on what; None where that is unknown.

    DVC may have taken the training out of its run cache: then the clocks that lie about are those of another
    one.
    """
    known = project.observed("manifest.json")
    if not known.is_file():
        return None
    found = loads(read_bytes(known, fix=AGAIN).decode(), where=known.name, fix=AGAIN)
    trained = read_record(project.results("train.json"), TrainFacts, fix=AGAIN)
    return found if isinstance(found, dict) and found.get("chain") == trained.chain else None


def _built_from(
    project: Project, members: Mapping[str, bytes | Path]
) -> tuple[dict[str, Any], str, int, Dependencies]:
    """Return settings, what the data are called, seed and what the run was made from."""
    params, base = project.params, read_record(project.results("base.json"), BaseFacts, fix=AGAIN)
    known = {"kind": base.kind, "digest": base.digest, "model": base.model, "revision": base.revision}
    dependencies = Dependencies(
        data={
            name: entry_of(members[name]).sha256
            for name in members
            if name.startswith(f"{params.dataset.root}/")
        },
        base=known,
        source={name: entry_of(members[name]).sha256 for name in members if name.startswith("src/")},
        constraints=entry_of(members["constraints.txt"]).sha256,
    )
    return params.model_dump(mode="json"), params.dataset.name, params.seed, dependencies


def _card(project: Project, datasheet: str) -> str:
    arms = read_record(project.results("reports.json"), Reports, fix=AGAIN).arms
    metrics = read_record(project.results("before_after_metrics.json"), BeforeAfter, fix=AGAIN)
    return model_card(
        read_record(project.results("claim.json"), Claim, fix=AGAIN),
        measured=Measured(arms["pre_eval"], arms["post_eval"], metrics),
        trained=read_record(project.results("train.json"), TrainFacts, fix=AGAIN),
        base=read_record(project.results("base.json"), BaseFacts, fix=AGAIN),
        fingerprint=fingerprint_of(project),
        params=project.params,
        limits=limits(task_of(project)),
        data_licence=stated_licence(datasheet),
    )
