"""What data these are: digests of files and records, and an audit of every record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from assay.errors import DataError
from assay.records import Record
from assay.storage.json import digest
from assay.tasks.protocol import Item, Task


class SplitFingerprint(Record):
    """One data file."""

    file_sha256: str
    records_sha256: str = Field(description="over the sorted digests of the canonical records; order does not matter")
    n_records: int = Field(ge=0)
    strata: dict[str, dict[str, int]] = Field(description="records by label and value")


class Fingerprint(Record):
    """A whole dataset."""

    task: str
    dataset_sha256: str = Field(description="over the splits' names and records_sha256")
    splits: dict[str, SplitFingerprint]


class Audit(Record):
    """Counts of what is odd in a dataset, and the first few of each kind."""

    n_records: int
    n_duplicate_ids: int = Field(description="ids met more than once inside a split")
    n_leaks: int = Field(description="clusters met in more than one split")
    first_duplicates: list[str]
    first_leaks: list[str]


def fingerprint(task: Task, files: Mapping[str, tuple[str, Sequence[Mapping[str, Any]]]]) -> Fingerprint:
    """Return the fingerprint of a dataset; every row is read by the task, which refuses broken ones.

    Args:
        task: Reads rows.
        files: By split name: sha256 of the file, and its rows.

    Raises:
        TaskError: A row is broken.
    """
    splits = {}
    for name, (file_sha256, rows) in sorted(files.items()):
        items = [task.item(row) for row in rows]
        strata: dict[str, Counter[str]] = {}
        for item in items:
            for label, value in item.strata.items():
                strata.setdefault(label, Counter())[value] += 1
        splits[name] = SplitFingerprint(
            file_sha256=file_sha256,
            records_sha256=digest(sorted(digest(row) for row in rows)),
            n_records=len(rows),
            strata={label: dict(sorted(counts.items())) for label, counts in sorted(strata.items())},
        )
    whole = digest([[name, split.records_sha256] for name, split in splits.items()])
    return Fingerprint(task=task.name, dataset_sha256=whole, splits=splits)


def audit(items: Mapping[str, Sequence[Item]]) -> Audit:
    """Return what is odd: ids repeated inside a split, clusters shared between splits."""
    duplicates: list[str] = []
    homes: dict[str, set[str]] = {}
    for split, members in sorted(items.items()):
        counts = Counter(item.id for item in members)
        duplicates += [f"{split}: {name}" for name, count in counts.items() if count > 1]
        for item in members:
            homes.setdefault(item.cluster, set()).add(split)
    leaks = sorted(f"{name}: {', '.join(sorted(found))}" for name, found in homes.items() if len(found) > 1)
    return Audit(
        n_records=sum(len(members) for members in items.values()),
        n_duplicate_ids=len(duplicates),
        n_leaks=len(leaks),
        first_duplicates=sorted(duplicates)[:5],
        first_leaks=leaks[:5],
    )


def enforce(found: Fingerprint, checked: Audit, expected_sha256: str | None, where: str) -> None:
    """Refuse a dataset that is not the expected one, or whose splits are not apart.

    Raises:
        DataError: Wrong digest, duplicate ids or leaks between splits.
    """
    if checked.n_duplicate_ids or checked.n_leaks:
        first = (checked.first_duplicates + checked.first_leaks)[0]
        raise DataError(
            "splits without duplicates and leaks",
            found=f"{checked.n_duplicate_ids} duplicate ids, {checked.n_leaks} leaks (first: {first})",
            where=where,
            fix="generate the data again: ./run assay make-data",
        )
    if expected_sha256 is not None and found.dataset_sha256 != expected_sha256:
        raise DataError(
            f"dataset {expected_sha256[:16]}… (dataset.expected_sha256)",
            found=f"{found.dataset_sha256[:16]}…",
            where=where,
            fix="restore the data with git checkout, or set dataset.expected_sha256 to the new digest on purpose",
        )
