"""What the first stage says of the data: what they are, what bars or weakens a claim on them, what is new."""

from __future__ import annotations

from pathlib import Path

from assay.core.config.places import setting
from assay.core.console import complain, say
from assay.core.counting import counted
from assay.core.errors import RecordError
from assay.core.storage.json import read_record, write_json
from assay.pipeline.inputs import Inputs, splits_of
from assay.rollout.audit import drift
from assay.rollout.audit.audit import ceiling_said
from assay.rollout.dataset.audit_records import Audit, Contamination, judged, overlap_said
from assay.rollout.dataset.fingerprint import SplitFingerprint
from assay.rollout.dataset.suite import FEWEST_CLUSTERS

INDICES = ".scratch/fingerprint"


def say_what_data_are(inputs: Inputs, report: Audit, shared: Contamination) -> None:
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


def say_what_changed(root: Path, data: str, now: drift.Index) -> None:
    """Say what changed in a folder of data since it was last fingerprinted here, and note what it is now."""
    path = root / INDICES / drift.index_name(data)
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
