"""Stage 1: say exactly what the data are, refuse what they must not be, and write down what will be
claimed."""

from __future__ import annotations

from assay.core.config.places import setting
from assay.core.console import complain, say
from assay.core.counting import counted
from assay.core.errors import DataError, RecordError
from assay.core.evidence_files import folder_of
from assay.core.storage.files import sha256_bytes
from assay.core.storage.json import read_record, write_json
from assay.pipeline.inputs import (
    Inputs,
    blocklist_of,
    cache_folder,
    requires_of,
    rules_at,
    splits_of,
    task_with,
)
from assay.pipeline.project import Project
from assay.rollout.audit import drift
from assay.rollout.audit.audit import Audited, audit, ceiling_said, refuse_unusable, require_records
from assay.rollout.audit.contamination import contamination
from assay.rollout.audit.sources import checked_sums, read_sources, require_covered
from assay.rollout.dataset import cache
from assay.rollout.dataset.audit_records import Audit, Contamination, judged, overlap_said
from assay.rollout.dataset.fingerprint import Fingerprint, SplitFingerprint, enforce, fingerprint
from assay.rollout.dataset.suite import FEWEST_CLUSTERS
from assay.rollout.dataset.verified import SUMS
from assay.rollout.tasks.protocol import reward_range
from assay.rollout.tasks.rivals import rivals_of
from assay.verdict.evidence.claim.plan import plan_of

READS = ("${task.code}", "${dataset.root}")
WRITES = (folder_of("data"),)
INDICES = ".scratch/fingerprint"


def run(project: Project) -> None:
    """Verify the data against their checksums, audit and fingerprint them, fix the claim."""
    params = project.params
    root = params.dataset.root
    sums = checked_sums(project.root, root)
    blocklist = blocklist_of(project.root, params)
    task = task_with(project.root, params, blocklist, recorded=project.recorded)
    sources = read_sources(project.root, root, sums)
    audited = audit(task, sources, params.dataset.audit)
    refuse_unusable(audited.report, root)
    require_records(audited.report, splits_of(params), root)
    if lost := [name for name in params.dataset.secondary if name not in sources]:
        there = ", ".join(sorted(sources.keys() - {*splits_of(params)})) or "no further file"
        raise DataError(
            f"{lost[0]}.jsonl in {root}, which dataset.secondary names",
            found=there,
            where=setting("dataset.secondary"),
            fix=f"add the file and its line in {SUMS}, or take the name out of dataset.secondary",
        )
    require_records(audited.report, params.dataset.secondary, root)
    if blocklist is not None and params.task.blocklist_file not in sums:
        fix = f"add it to {root}/{SUMS}"
        raise DataError(
            f"a blocklist with a line in {SUMS}", found="none", where=setting("task.blocklist"), fix=fix
        )
    terms = None if blocklist is None else sha256_bytes(blocklist)
    found = fingerprint(
        task.name, sources, audited.kept, audited.dropped, terms, params.dataset.near_duplicates
    )
    require_covered(found, sums, root)
    enforce(found, params.dataset.expected_dataset_sha256, root)
    found = found.model_copy(
        update={
            "cached": _cached(project, found, audited, blocklist),
            "requires": requires_of(params.task, project.recorded),
        }
    )
    held = {split: [member.item for member in members] for split, members in audited.kept.items()}
    inputs = Inputs(params, task, found, held, rules_at(project.root, params))
    plan = plan_of(
        params,
        inputs.heldout,
        inputs.validation,
        cluster_name=task.cluster_name,
        data=found,
        rivals=rivals_of(task, params.evaluation.rivals),
        reward_range=reward_range(task),
        secondary=inputs.secondary,
    )
    shared = contamination(audited.kept)
    write_json(project.results("fingerprint.json"), found)
    write_json(project.results("audit.json"), audited.report)
    write_json(project.results("contamination.json"), shared)
    write_json(project.results("claim_plan.json"), plan)
    _tell_drift(project, drift.index_of(audited.kept, found.schemas))
    _tell(inputs, audited.report, shared)


def _tell(inputs: Inputs, report: Audit, shared: Contamination) -> None:
    """Say what the data are, and what bars or weakens a claim on them."""
    params, found, task, chosen = inputs.params, inputs.fingerprint, inputs.task, inputs.params.evaluation
    counts = ", ".join(_counted(name, split, task.cluster_name) for name, split in found.splits.items())
    barred, warned = judged(shared, splits_of(params))
    n = len({item.cluster for item in inputs.heldout.items})
    more = (
        f"{setting('evaluation.items')} is {chosen.items}"
        if chosen.items < len(inputs.items["heldout"])
        else "of records of your own, ./run assay task audit --fix-splits says which shares hold out enough"
    )
    few = [
        f"the claim can only describe: {n} {task.cluster_name} in the held-out suite, a test needs"
        f" {FEWEST_CLUSTERS}; {more}"
    ]
    ceilings = [ceiling_said(found, split) for split, found in report.ceilings.items()]
    bars = [
        f"{'the claim will' if chosen.open else 'a claim would'} be NOT EVALUABLE: leak: {overlap_said(each)}"
        for each in barred
    ]
    bars += [f"Contamination: {overlap_said(each)}." for each in warned]
    for said in [*(few if chosen.open and n < FEWEST_CLUSTERS else ()), *ceilings, *bars]:
        complain(said)
    leaks = "" if barred else "; no leaks between splits"
    say(f"data {found.dataset_sha256[:12]}: {counts}{leaks}{_odd(report)}")


def _cached(
    project: Project, found: Fingerprint, audited: Audited, blocklist: bytes | None
) -> dict[str, str] | None:
    if project.params.dataset.cache is None:
        return None
    folder = cache_folder(project.root, project.params.dataset, found.dataset_sha256)
    splits = {split: [member.entry for member in members] for split, members in audited.kept.items()}
    files = cache.copies(splits, blocklist)
    say(
        f"copy {project.params.dataset.cache}/{folder.name}:"
        f" {cache.keep(folder, files, found.dataset_sha256)}"
    )
    return cache.sums_of(files)


def _tell_drift(project: Project, now: drift.Index) -> None:
    path = project.root / INDICES / drift.index_name(project.params.dataset.root)
    if path.exists():
        try:
            for line in drift.changes(read_record(path, drift.Index, fix="nothing to do"), now):
                complain(f"since the last fingerprint: {line}")
        except RecordError:
            complain(
                f"{path} was damaged, so what changed since the last fingerprint cannot be said; it is"
                " written anew"
            )
    write_json(path, now)


def _counted(name: str, split: SplitFingerprint, cluster_name: str) -> str:
    if split.n_clusters is None or split.n_clusters == split.n_records:
        return f"{name} {split.n_records}"
    return f"{name} {split.n_records} in {counted(split.n_clusters, cluster_name)}"


def _odd(checked: Audit) -> str:
    odd = [(name, kind) for name, kind in checked.kinds.items() if kind.count]
    told = [f"{kind.count} {name} ({'left out' if kind.action == 'drop' else 'kept'})" for name, kind in odd]
    return f"; {', '.join(told)}" if told else "; nothing odd"
