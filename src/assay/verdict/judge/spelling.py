"""Names of clusters that are one but for their spelling: white space, case, width, a trailing .0, and letters
of two alphabets that look the same. Each would count as evidence of its own."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence

from assay.verdict.judge.contents import spelled
from assay.verdict.judge.rows import JudgedRow
from assay.verdict.judge.sources import ArmRecord

# Letters of Cyrillic and Greek that look like one of Latin.
_LATIN = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u03bf\u03b1\u03bd\u03c1",
    "aeopcyxijsdhoavp",
)


def fold(name: str) -> str:
    """Return a name as it is told from others.

    >>> {fold(each) for each in ("Topic 1", " topic  1", "topic\\u00a01", "\\uff34opic 1", "t\\u043epic 1")}
    {'topic 1'}
    >>> fold("3.0") == fold("3"), fold("3.0") == fold("30")
    (True, False)
    """
    return spelled(unicodedata.normalize("NFKC", name).casefold().translate(_LATIN))


def spell_clusters(
    records: Mapping[str, ArmRecord], arms: Mapping[str, Sequence[JudgedRow]]
) -> dict[str, str] | None:
    """Give clusters that are spelled alike one name in every arm.

    Args:
        records: Of the arms; where none names clusters, each item is its own.
        arms: Their rows, whose clusters are changed in place.

    Returns:
        By item the cluster that the arm before had; None where none of its names was another's spelling.
    """
    if not any(record.clustered for record in records.values()):
        return None
    homes = {row.item_id: row.cluster for row in arms["before"]}
    names = sorted({row.cluster for rows in arms.values() for row in rows})
    first = dict[str, str]()
    known = {name: first.setdefault(fold(name), name) for name in names}
    if len(first) == len(names):
        return None
    for rows in arms.values():
        for row in rows:
            row.cluster = known[row.cluster]
    return homes if len({known[name] for name in homes.values()}) < len(set(homes.values())) else None
