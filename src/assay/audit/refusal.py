"""Data that must not be used, and what to do about them, in words."""

from __future__ import annotations

from collections.abc import Collection

from assay.core.config.settings import AuditSettings
from assay.core.errors import DataError
from assay.dataset.audit_records import Audit

_CURES = {
    "duplicate_id": "give each record of a file its own id",
    "leak": "make the splits by prompt, never by row: ./run assay audit TASKS.jsonl --fix-splits does",
}


def refuse_unusable(checked: Audit, where: str) -> None:
    """Refuse data with a kind that must not be there.

    Raises:
        DataError: Names the kinds, their counts, the first line, and how to go on.
    """
    kinds = checked.refusals()
    if not kinds:
        return
    kind = checked.kinds[kinds[0]]
    first = kind.first[0]
    # An id is data: a line break in it must not look like a line of ours.
    named = (first.split, f"line {first.line}" if first.line else "", ascii(first.id) if first.id else "")
    place = ", ".join(filter(None, named))
    also = "".join(f"; {checked.kinds[name].count} {name}" for name in kinds[1:])
    raise DataError(
        f"no record of kind {kinds[0]}",
        found=f"{kind.count} (first: {place}: {first.detail}){also}",
        where=where,
        fix="\n  and ".join(dict.fromkeys(cure(name) for name in kinds)),
    )


def cure(kind: str) -> str:
    """Return what to do about a kind that is refused."""
    if kind in _CURES:
        return _CURES[kind]
    field = AuditSettings.model_fields[kind]
    other = " or keep" if "keep" in str(field.annotation) else ""
    return f"edit the data, or set dataset.audit.{kind}: drop{other} in the task's preset in configs/task/"


def require_records(checked: Audit, splits: Collection[str], where: str) -> None:
    """Refuse a dataset that lacks records in a split that is needed.

    Raises:
        DataError: Names the file, and how many records were left out of it.
    """
    for split in splits:
        if split not in checked.kept:
            raise DataError(
                f"{split}.jsonl", found="no such file", where=where, fix="add it, and its line in SHA256SUMS"
            )
        if not checked.kept[split]:
            dropped = checked.dropped[split]
            found = (
                f"none; {dropped} were left out by dataset.audit" if dropped else "none, the file is empty"
            )
            raise DataError("records", found=found, where=f"{where}/{split}.jsonl", fix="add records to it")
