"""What is made for a package and lies in no project: model card, provenance, what of the ledger of openings
its claim rests on, and what the code of a task that was brought along told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from assay.core.config.settings import ScratchBase
from assay.core.errors import PackageError
from assay.core.evidence_files import place_of
from assay.core.provenance import git_state, remotes
from assay.core.records import OpenedRecords, TrainFacts, ValidationEpisode
from assay.core.storage.files import read_bytes
from assay.core.storage.json import dumps, loads, read_record, read_records
from assay.core.storage.yaml import read_yaml
from assay.health.rules.commonest import Honest
from assay.pipeline.dvc_lock import code_in
from assay.pipeline.heldout_ledger import NOTHING, HeldoutLedger, HeldoutOpening, merged, openings
from assay.pipeline.inputs import code_of, read_fingerprint
from assay.pipeline.note_openings import BASE_STAGE, TRAINED_STAGE
from assay.pipeline.project import Project
from assay.pipeline.rival_files import suite_for
from assay.rollout.audit.audit import audit
from assay.rollout.audit.sources import checked_sums, read_sources
from assay.rollout.dataset.external import read_training
from assay.rollout.evaluation.alarms import field_answers
from assay.rollout.evaluation.few_shot import few_shot
from assay.rollout.evaluation.replay import play_baseline
from assay.rollout.policy.base.bpe import words_of
from assay.rollout.tasks.own.recorded import Recorded, Recorder
from assay.rollout.tasks.own.settings import OwnTask as OwnSettings
from assay.rollout.tasks.own.task import OwnTask, own_task, runner_of
from assay.rollout.tasks.protocol import answer_key
from assay.rollout.tasks.rivals import FEW_SHOT, players_of
from assay.stages.packing.archive import sha256_of
from assay.stages.packing.card import CardNumbers, model_card
from assay.stages.packing.layout import BASE, CARD, LOCK, NAME, PROVENANCE, SUMS
from assay.stages.packing.provenance import (
    GitState,
    MadeFrom,
    Packaged,
    Provenance,
    TaskCode,
    Trained,
    Witnessed,
    trained_of,
)
from assay.stages.render_evidence.limits import limits
from assay.training.honest_play import honest_play
from assay.training.recipe import item_order
from assay.verdict.evidence.claim.base_facts import BaseFacts
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.tables.claim_tables import BeforeAfter
from assay.verdict.statistics.report import Reports

BEFORE = ("fingerprint", "base", "pre_eval", "train", "control", "post_eval", "render_evidence")
AGAIN, OPENED_AGAIN = "./run dvc repro", "./run dvc repro -f post_eval"
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

    stages = read_yaml(project.root / LOCK, fix=AGAIN)["stages"]
    made_from = MadeFrom(
        data=digests(params.dataset.root),
        base=base.model_dump(mode="json", include={"kind", "digest", "model", "revision"})
        | ({} if base.origin is None else {"origin": base.origin.model_dump(mode="json")}),
        code=code_in({stage: stages[stage] for stage in BEFORE}, params.task.told_code),
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
    settings, sha256 = project.params.task, code_of(project.root, project.params.task)
    if sha256 is None or not isinstance(settings, OwnSettings):
        return None
    return TaskCode(
        folder=settings.code,
        entry=settings.entry,
        sha256=sha256,
        files=digests(settings.code),
        requires=read_fingerprint(project.root).requires or (),
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
        fingerprint=read_fingerprint(project.root),
        params=project.params,
        limits=limits(project.task(), claim, before, after, reports.baselines),
        task_code=code_of(project.root, project.params.task),
    )


def ledger_of(project: Project) -> HeldoutLedger:
    """Return the openings that openings.json names, as they were when it was written: without how often they
    were made, in which working copy, and what came later. So a package stays a function of its run.

    Raises:
        PackageError: Neither ledger nor git nor this working copy knows one of them any more.
        RecordError: A file is missing or damaged.
    """
    found = read_record(project.results("openings.json"), OpenedRecords, fix=OPENED_AGAIN)
    base = read_training(project.results("train.json"), fix=OPENED_AGAIN).base_digest
    suite = project.inputs("heldout").heldout
    known, asked = openings(project.root) or NOTHING, frozenset(suite.contents)
    stages = {each.policy_digest: frozenset(each.stages) for each in found.others}
    stages |= dict.fromkeys((found.policy_digest, base), frozenset({BASE_STAGE, TRAINED_STAGE}))

    def belongs(each: HeldoutOpening) -> bool:
        if asked.isdisjoint(known.record_sets[each.records]):
            return False
        later = (each.place or 0) > (found.place or 0)
        of_claim = each.policy_digest == base and each.suite_digest == suite.digest
        return each.stage in stages.get(each.policy_digest, ()) and (of_claim or not later)

    # Whether one was called as far as that was known then.
    called = {(each.policy_digest, each.place) for each in found.others if each.called is not None}

    def as_then(each: HeldoutOpening) -> HeldoutOpening:
        unknown = {} if (each.policy_digest, each.place) in called else {"called": None}
        return each.model_copy(update={"times": 1, "copy_id": None, **unknown})

    kept = [as_then(each) for each in known.openings if belongs(each)]
    if missing := sorted(stages.keys() - {each.policy_digest for each in kept}):
        raise PackageError(
            "every opening that openings.json names",
            found=f"none of policy {missing[0][:16]}",
            where="the ledger of held-out openings",
            fix=f"git checkout -- evidence/observed, or {OPENED_AGAIN}",
        )
    return merged(NOTHING, known.model_copy(update={"openings": tuple(kept)}))


def told_of(project: Project) -> bytes | None:
    """Return the lines of told.jsonl; None where the task is part of assay.

    Beside the episodes, which hold themselves what was said of them, a check opens every suite, reads the
    words that players say, lets those players play, and the honest one as it did before training.
    """
    params, settings = project.params, project.params.task
    if not isinstance(settings, OwnSettings):
        return None
    recorder = Recorder(project.recorded or runner_of(settings, str(project.root)))
    task = own_task(settings, None, recorder)
    task.learn_from(project.items("train"))
    heldout, train = project.inputs("heldout").heldout, task.train
    for suite in (project.inputs("validation").validation, *project.inputs("secondary").secondary.values()):
        for play in suite.plays():
            task.start(play.item, play.world_seed)
    for suite in (heldout, *project.inputs("secondary").secondary.values()):
        for name, player in players_of(task, train).items():
            play_baseline(task, player, suite.plays(), name, retries=params.health.retries)
    if params.external is None:
        order = item_order(train, params.train.steps * params.train.items_per_step, params.seed)
        honest_play(task, order, params, keyed=False)
    if settings.abilities:
        _ask_of_records(project, task)
    if isinstance(params.base, ScratchBase):
        few_shot(
            task,
            train,
            suite_for(heldout, FEW_SHOT),
            params.evaluation.rivals.few_shot,
            dialogue=words_of(
                params.base, task.vocabulary(), project.root / BASE, fix="./run dvc repro base"
            ),
            positions=params.base.architecture.max_positions,
            max_new_tokens=settings.max_new_tokens[params.generation.surface],
        )
    return "".join(f"{dumps(line)}\n" for line in recorder.lines(Recorded())).encode()


def _ask_of_records(project: Project, task: OwnTask) -> None:
    """Ask a task what a check asks of its records, and of the answers of validations."""
    root, data = project.root, project.params.dataset
    audit(task, read_sources(root, data.root, checked_sums(root, data.root)), data.audit)
    key = answer_key(task)
    if key is None or project.params.external is not None:
        return
    Honest(task, task.train)
    items = {item.id: item for item in project.inputs("validation").validation.items}
    for each in read_records(project.results("validation.jsonl"), ValidationEpisode, fix=AGAIN):
        field_answers(key, items, each.episode)
