"""What changed since data were last fingerprinted on this machine, told in a few lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from assay.core.records import Record
from assay.core.storage.json import digest
from assay.rollout.dataset.source import KeptRecord

_NAMED = 3


class Index(Record):
    """What the records and schema files were."""

    records: dict[str, dict[str, str]]
    schemas: dict[str, str]


def index_of(kept: Mapping[str, Sequence[KeptRecord]], schemas: Mapping[str, str]) -> Index:
    """Return the index of a dataset; a record's digest is that of its row, so that an edited schema is told
    by itself."""
    records = {
        split: {member.item.id: member.entry.body for member in members} for split, members in kept.items()
    }
    return Index(records=records, schemas=dict(schemas))


def index_name(root: str) -> str:
    """Return the file name of the index of a data folder.

    >>> index_name("data/mine")[:10]
    'data_mine-'
    """
    return f"{re.sub(r'[^A-Za-z0-9]+', '_', root)[-60:]}-{digest(root)[:8]}.json"


def changes(before: Index, after: Index) -> list[str]:
    """Return what changed, a line each; nothing if all is as it was."""
    told = []
    for split in sorted(set(before.records) | set(after.records)):
        old, new = before.records.get(split, {}), after.records.get(split, {})
        for verb, names in (
            ("added", sorted(set(new) - set(old))),
            ("removed", sorted(set(old) - set(new))),
            ("edited", sorted(name for name in set(old) & set(new) if old[name] != new[name])),
        ):
            if names:
                told.append(f"{split}: {len(names)} record{'s' * (len(names) > 1)} {verb} ({_few(names)})")
    for name in sorted(set(before.schemas) | set(after.schemas)):
        was, now = before.schemas.get(name), after.schemas.get(name)
        if was != now:
            told.append(
                f"schema {name} {'added' if was is None else 'no longer used' if now is None else 'edited'}"
            )
    return told


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
