"""Records drawn from somebody's package, frozen: files of a data set, with their digests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from assay.core.errors import DataError
from assay.core.storage.files import sha256_bytes, write_text
from assay.core.storage.json import as_written

SUMS = "SHA256SUMS"
TRIES = 20  # questions drawn for each that is new


def through_json(value: Any, where: str) -> Any:
    """Return a value as it comes back from a file.

    Raises:
        DataError: Part of it is no JSON value.
    """
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        fix = "this data set cannot be frozen: grade it in an environment of your own"
        raise DataError("what a file of JSON can hold", found=str(error), where=where, fix=fix) from None


def distinct(drawn: Iterable[Mapping[str, Any]], known: set[str], n: int, where: str) -> list[dict[str, Any]]:
    """Return n records whose prompts are not known yet, and know them from then on.

    Raises:
        DataError: So many cannot be had.
    """
    found: list[dict[str, Any]] = []
    for tries, row in enumerate(drawn):
        if len(found) == n or tries >= TRIES * n:
            break
        if row["prompt"] not in known:
            known.add(row["prompt"])
            found.append(dict(row))
    if len(found) < n:
        fix = "ask for fewer, or for a wider --config"
        raise DataError(f"{n} records, no two of one question", found=str(len(found)), where=where, fix=fix)
    return found


def write_splits(folder: Path, splits: Mapping[str, list[dict[str, Any]]]) -> None:
    """Write each split and the digests of all; equal records give equal bytes."""
    sums = []
    for split, rows in sorted(splits.items()):
        lines = [
            as_written({"id": f"{split}-{place:05}", **row}) + "\n" for place, row in enumerate(rows, start=1)
        ]
        text = "".join(lines)
        write_text(folder / f"{split}.jsonl", text)
        sums.append(f"{sha256_bytes(text.encode())}  {split}.jsonl\n")
    write_text(folder / SUMS, "".join(sums))
