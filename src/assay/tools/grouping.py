"""Splits by prompt group: a record's split is decided by its prompt alone, so nothing leaks and additions move nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from assay.dataset.source import Kept
from assay.errors import DataError
from assay.seeds import derive_seed
from assay.storage.json import as_written

SPLITS = ("train", "validation", "heldout")
_SEEDS = 2**63


def split_of(cluster: str, fractions: Sequence[float], seed: int) -> str:
    """Return the split of a prompt group.

    >>> split_of("a prompt", (1.0, 0.0, 0.0), 0)
    'train'
    """
    place, reached = derive_seed("split", seed, cluster) / _SEEDS, 0.0
    for name, fraction in zip(SPLITS, fractions, strict=True):
        reached += fraction
        if place < reached:
            return name
    return next(name for name, fraction in reversed([*zip(SPLITS, fractions, strict=True)]) if fraction)


def grouped(members: Sequence[Kept], fractions: Sequence[float], seed: int, where: str) -> dict[str, list[Kept]]:
    """Return the records by split, in the order they came.

    Raises:
        DataError: A split would be empty.
    """
    splits: dict[str, list[Kept]] = {name: [] for name in SPLITS}
    for member in members:
        splits[split_of(member.item.cluster, fractions, seed)].append(member)
    for name, chosen in splits.items():
        if not chosen:
            groups = len({member.item.cluster for member in members})
            fix = "add records with other prompts, or choose other --fractions or another --seed"
            raise DataError(f"records for {name}", found=f"none, of {groups} prompts", where=where, fix=fix)
    return splits


def files_of(splits: Mapping[str, Sequence[Kept]]) -> dict[str, bytes]:
    """Return the files of a dataset: one JSONL a split, and the schema files in schemas/ with the layout they have.

    Args:
        splits: The records by split.
    """
    closures = {id(m.entry.closure): m.entry.closure for ms in splits.values() for m in ms if m.entry.closure is not None}
    schemas = {file.path: file.content for closure in closures.values() for file in closure.files}
    # One common folder for all of them, so that files of one name stay apart and $refs between them still hold.
    common = Path(os.path.commonpath([path.parent for path in schemas])) if schemas else Path()
    files = {f"schemas/{path.relative_to(common).as_posix()}": content for path, content in schemas.items()}
    for name, members in splits.items():
        lines = []
        for member in members:
            row = dict(member.entry.record)
            if member.entry.closure is not None:
                start = member.entry.closure.files[0].path
                row["schema_path"] = f"schemas/{start.relative_to(common).as_posix()}"
            lines.append(as_written(row) + "\n")
        files[f"{name}.jsonl"] = "".join(lines).encode()
    return files
