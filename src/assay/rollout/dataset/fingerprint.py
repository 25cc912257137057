"""What data these are: digests of records and files, whatever the folder they lie in and the order they stand
in."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pydantic import Field

from assay.core.errors import DataError
from assay.core.installed import Required
from assay.core.records import Record
from assay.core.storage.json import digest
from assay.rollout.dataset.clusters import sizes_of, united
from assay.rollout.dataset.source import DataFile, DataRow, KeptRecord


class SplitFingerprint(Record):
    """One data file."""

    file_sha256: str
    records_sha256: str = Field(
        description="over the sorted digests of the canonical records; order does not matter"
    )
    n_records: int = Field(ge=0, description="without those left out")
    strata: dict[str, dict[str, int]] = Field(description="records by label and value")
    dropped: list[int] = Field(
        description="numbers of the lines that the audit left out; later stages skip just these"
    )
    # With defaults, since older packages do not say them.
    n_clusters: int | None = Field(
        default=None,
        description="pieces of independent work: records of one family, and near-duplicates, are one",
    )
    largest_cluster: int | None = Field(default=None, ge=1, description="records of the largest cluster")
    usual_cluster: float | None = Field(
        default=None, ge=1, description="median number of records of a cluster"
    )


class Fingerprint(Record):
    """A whole dataset."""

    task: str
    dataset_sha256: str = Field(
        description="over the splits' names and records_sha256, and the blocklist if there is one"
    )
    splits: dict[str, SplitFingerprint]
    schemas: dict[str, str] = Field(
        description="sha256 of every schema file that a record reaches, by path in the project"
    )
    blocklist: str | None = Field(description="sha256 of the file of blocked terms; null: none is set")
    cached: dict[str, str] | None = Field(
        description="sha256 of every file of the verified copy; null: none is kept"
    )
    requires: tuple[Required, ...] | None = Field(
        default=None,
        exclude_if=lambda found: found is None,
        description="installed packages that grade, task.requires; not there where there are none",
    )


def records_sha256(entries: Iterable[DataRow]) -> str:
    """Return the digest of some records, in whatever order they come."""
    return digest(sorted(entry.digest for entry in entries))


def dataset_sha256(records: Mapping[str, str], blocklist: str | None) -> str:
    """Return the digest of a dataset from those of its splits' records and of its blocklist."""
    whole: list[list[str]] = [[name, value] for name, value in sorted(records.items())]
    # Which terms are blocked decides what an answer earns, as golds do.
    return digest(whole if blocklist is None else [*whole, ["blocklist", blocklist]])


def schema_sums(entries: Iterable[DataRow]) -> dict[str, str]:
    """Return the sha256 of every schema file the records reach, by its label."""
    closures = {id(entry.closure): entry.closure for entry in entries if entry.closure is not None}
    return dict(sorted((file.label, file.sha256) for closure in closures.values() for file in closure.files))


def fingerprint(
    task: str,
    sources: Mapping[str, DataFile],
    kept: Mapping[str, Sequence[KeptRecord]],
    dropped: Mapping[str, list[int]],
    blocklist: str | None,
    similarity: float,
) -> Fingerprint:
    """Return the fingerprint of a dataset after its audit, not yet cached.

    Args:
        task: Name of the task.
        sources: The data files by split.
        kept: The records that remain.
        dropped: Numbers of the lines that are left out.
        blocklist: sha256 of the file of blocked terms.
        similarity: From what share of common words records are one cluster, `dataset.near_duplicates`.
    """
    splits = {}
    for name, source in sorted(sources.items()):
        strata: dict[str, Counter[str]] = {}
        for member in kept[name]:
            for label, value in member.item.strata.items():
                strata.setdefault(label, Counter())[value] += 1
        sizes = sizes_of(united([member.item for member in kept[name]], similarity))
        splits[name] = SplitFingerprint(
            file_sha256=source.reading.file_sha256,
            records_sha256=records_sha256(member.entry for member in kept[name]),
            n_records=len(kept[name]),
            n_clusters=len(sizes),
            strata={label: dict(sorted(counts.items())) for label, counts in sorted(strata.items())},
            dropped=dropped[name],
            largest_cluster=max(sizes, default=None),
            usual_cluster=float(statistics.median(sizes)) if sizes else None,
        )
    return Fingerprint(
        task=task,
        dataset_sha256=dataset_sha256(
            {name: split.records_sha256 for name, split in splits.items()}, blocklist
        ),
        splits=splits,
        schemas=schema_sums(member.entry for members in kept.values() for member in members),
        blocklist=blocklist,
        cached=None,
    )


def enforce(found: Fingerprint, expected_dataset_sha256: str | None, where: str) -> None:
    """Refuse a dataset that is not the expected one.

    Raises:
        DataError: Another digest.
    """
    if expected_dataset_sha256 is not None and found.dataset_sha256 != expected_dataset_sha256:
        raise DataError(
            f"dataset {expected_dataset_sha256[:16]}… (dataset.expected_dataset_sha256)",
            found=f"{found.dataset_sha256[:16]}…",
            where=where,
            fix=(
                "restore the data with git checkout, or set dataset.expected_dataset_sha256 to the new digest"
                " on purpose"
            ),
        )
