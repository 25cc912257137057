"""The data on the page: how many records of which kind stand in which split, and what the audit found in
them."""

from __future__ import annotations

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.dataset.audit_records import BLOCKING, SAID, Audit, Contamination
from assay.dataset.fingerprint import Fingerprint


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
        means = "bars a claim where it concerns its splits" if kind in BLOCKING else "a warning"
        shared = [each for each in found.overlaps if each.kind == kind]
        for each in shared:
            rows.append((SAID[kind], compared, str(each.count), " and ".join(each.splits), means))
        if not shared:
            rows.append((SAID[kind], compared, "none" if compared else "nothing to read", "", ""))
    return pd.DataFrame(rows, columns=columns)
