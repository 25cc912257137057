"""Splits by prompt group, never by row, so that a repeated prompt cannot leak; of the sizes that were asked
for."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from assay.core.errors import DataError
from assay.core.seeds import derive_seed
from assay.core.storage.json import as_written
from assay.dataset.source import Kept

SPLITS = ("train", "validation", "heldout")


def split_of_groups(sizes: Mapping[str, int], fractions: Sequence[float], seed: int) -> dict[str, str]:
    """Return the split of each prompt group: in an order that depends on group and seed alone, cut at the
    shares.

    Args:
        sizes: Records by group.
        fractions: Shares of the records for train, validation and heldout; their sum is 1.
        seed: Another seed is another order.

    >>> split_of_groups({"a": 8, "b": 1, "c": 1}, (0.8, 0.1, 0.1), 0)["a"]
    'train'
    """
    total, before = sum(sizes.values()), 0
    borders = [sum(fractions[: n + 1]) for n in range(len(SPLITS) - 1)]
    found = {}
    for group in sorted(sizes, key=lambda name: (derive_seed("split", seed, name), name)):
        middle = (before + sizes[group] / 2) / total
        found[group] = SPLITS[sum(middle >= border for border in borders)]
        before += sizes[group]
    return found


def grouped(
    members: Sequence[Kept], fractions: Sequence[float], seed: int, where: str
) -> dict[str, list[Kept]]:
    """Return the records by split, in the order they came.

    Raises:
        DataError: A split would be empty.
    """
    splits: dict[str, list[Kept]] = {name: [] for name in SPLITS}
    homes = split_of_groups(Counter(member.item.cluster for member in members), fractions, seed)
    for member in members:
        splits[homes[member.item.cluster]].append(member)
    for name, chosen in splits.items():
        if not chosen:
            groups = len({member.item.cluster for member in members})
            fix = "add records with other prompts, or choose other --fractions or another --seed"
            raise DataError(f"records for {name}", found=f"none, of {groups} prompts", where=where, fix=fix)
    return splits


def files_of(splits: Mapping[str, Sequence[Kept]]) -> dict[str, bytes]:
    """Return the files of a dataset: one JSONL a split, and the schema files in schemas/ with the layout they
    have.

    Args:
        splits: The records by split.
    """
    closures = {
        id(m.entry.closure): m.entry.closure
        for ms in splits.values()
        for m in ms
        if m.entry.closure is not None
    }
    schemas = {file.path: file.content for closure in closures.values() for file in closure.files}
    # One common folder for all of them, so that files of one name stay apart and $refs between them still
    # hold.
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
