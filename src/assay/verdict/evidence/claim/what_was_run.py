"""What stands behind a report, in small tables: task, data, base, training and held-out suite; the splits,
and what the audit found in them."""

from __future__ import annotations

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.core.counting import counted
from assay.core.records import TrainFacts
from assay.rollout.dataset.audit_records import SAID, Audit, Contamination
from assay.rollout.dataset.external import Training, whole_of
from assay.rollout.dataset.fingerprint import Fingerprint
from assay.verdict.evidence.claim.base_facts import BaseFacts, base_said
from assay.verdict.evidence.formatting import split_word
from assay.verdict.statistics.report import Report


def run_frame(
    *,
    task: str,
    data: str,
    dataset_sha256: str,
    base: BaseFacts,
    trained: Training,
    checkpoint_rule: str,
    before: Report,
    decoding: str,
) -> pd.DataFrame:
    """Return what was run as text; `before` is the report of an arm, for both played the same suite."""
    suite = f"{counted(before.n_items, 'items')}, {counted(before.draws, 'draws')} each"
    rows = [
        ("task", task),
        ("data", f"{data}, dataset digest {dataset_sha256[:16]}"),
        ("base", base_said(base)),
        *_training_rows(trained, checkpoint_rule),
        (f"{split_word(before.split)} suite", suite),
        ("completions", decoding),
    ]
    return pd.DataFrame(rows, columns=["what", "value"])


def _training_rows(trained: Training, checkpoint_rule: str) -> list[tuple[str, str]]:
    if not isinstance(trained, TrainFacts):
        told = f"elsewhere, sha256 of what was brought {trained.sha256}; steps and seeds not known"
        whole = whole_of(trained)
        brought = [] if whole is None else [("brought", f"a whole model, {whole.said}")]
        return [("training", told), *brought, ("how, as its maker says", trained.how)]
    return [
        ("training", f"GRPO, {counted(trained.steps, 'steps')}, training seed {trained.seed}"),
        (
            "chosen checkpoint",
            f"step {trained.chosen_step} of {trained.steps}, by the rule {checkpoint_rule}",
        ),
    ]


def splits_frame(fingerprint: Fingerprint) -> pd.DataFrame:
    """Return the splits as text: split, records, left out, strata, sha256 of the file."""
    rows = [
        (
            name,
            split.n_records,
            len(split.dropped),
            "; ".join(
                f"{label}: {', '.join(f'{value} {n}' for value, n in sorted(values.items()))}"
                for label, values in sorted(split.strata.items())
            ),
            split.file_sha256,
        )
        for name, split in fingerprint.splits.items()
    ]
    return pd.DataFrame(rows, columns=["split", "records", "left out", "strata", "sha256 of the file"])


def findings_frame(audit: Audit) -> pd.DataFrame:
    """Return what the audit found at least once as text: finding, count, what was done about it, first
    place."""
    rows = [
        (
            kind.replace("_", " "),
            found.count,
            found.action,
            "; ".join(
                f"{first.split}{'' if first.line is None else f' line {first.line}'}"
                for first in found.first[:1]
            ),
        )
        for kind, found in audit.kinds.items()
        if found.count
    ]
    return pd.DataFrame(rows, columns=["finding", "count", "action", "first in"])


def contamination_frame(found: Contamination | None) -> pd.DataFrame:
    """Return what the splits were compared for and share, as text: looked for, records compared, found,
    where.

    One row a check, or a pair of splits that share something. A check that had nothing to read says so, and
    without a record of the checks none was made.
    """
    columns = ["looked for", "records compared", "found", "in", "what it means"]
    if found is None:
        return pd.DataFrame([("anything shared between splits", 0, None, "", "not checked")], columns=columns)
    rows: list[tuple[str, int, str, str, str]] = []
    for kind, compared in found.compared.items():
        shared = [each for each in found.overlaps if each.kind == kind]
        for each in shared:
            means = "bars a claim where it concerns its splits" if each.bars else "a warning"
            rows.append((SAID[kind], compared, str(each.count), " and ".join(each.splits), means))
        if not shared:
            rows.append((SAID[kind], compared, "none" if compared else "nothing to read", "", ""))
    return pd.DataFrame(rows, columns=columns)
