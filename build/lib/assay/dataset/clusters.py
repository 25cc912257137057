"""What of a suite is one piece of evidence: records of one family, and near-duplicates, are one cluster.

A suite of a few records in many wordings would pass for a large one, and an interval that takes wordings for
independent work is too narrow. So clusters are found in what the records say, whatever ids they bear.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse  # type: ignore[import-untyped,unused-ignore]
from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped,unused-ignore]

from assay.core.storage.json import digest
from assay.dataset.likeness import Places, alike, wording_of
from assay.dataset.wording import essence, family_of
from assay.tasks.protocol import Item


def thresholds(similarity: float) -> tuple[float, float, float]:
    """Return from which share of common words two records are one: with equal answers, with an answer
    unknown, with other answers.

    Another wording keeps the answer, so less likeness is asked where it is equal; other values in one
    template are other work, so nearly all must be alike where it is not.

    >>> [round(each, 9) for each in thresholds(0.6)]
    [0.4, 0.6, 0.8]
    """
    return 2 * similarity / 3, similarity, (1 + similarity) / 2


def united(items: Sequence[Item], similarity: float, *, families: bool = True) -> list[Item]:
    """Return the items with the clusters they are of: by their task, their family, and what they say.

    Two families are one if more than half of the records of one have a near-duplicate in the other: a single
    pair of many is chance, and would chain all families of a large file into one.

    Args:
        items: Of one suite or split; one that was read from no record stays in its task's cluster.
        similarity: From what share of common words two records are near-duplicates, 0 to 1.
        families: Whether records of one family are one cluster.
    """
    named = [family_of(item.row) if families and item.row is not None else None for item in items]
    known: dict[str, int] = {}
    node = np.array(
        [
            known.setdefault(f"record {place}" if family is None else f"family {family}", len(known))
            for place, family in enumerate(named)
        ],
        np.int64,
    )
    whole = Counter(node.tolist())
    sizes = np.array([whole[k] for k in range(len(known))], np.int64)
    labels = np.arange(len(known))
    met: list[Places] = []  # record * nodes + node: the record has a near-duplicate there
    for one, other in _related(items, similarity):
        place, there = np.concatenate([one, other]), np.concatenate([node[other], node[one]])
        apart = node[place] != there
        place, there = place[apart], there[apart]
        alone = sizes[node[place]] == 1
        labels = _merged(labels, node[place[alone]], there[alone])
        met.append(np.unique(place[~alone] * len(known) + there[~alone]))
    place, there = np.divmod(np.unique(np.concatenate([*met, np.zeros(0, np.int64)])), max(1, len(known)))
    ways, counts = np.unique(node[place] * len(known) + there, return_counts=True)
    home, there = np.divmod(ways, max(1, len(known)))
    labels = _merged(labels, home[2 * counts > sizes[home]], there[2 * counts > sizes[home]])
    names: dict[int, str] = {}
    shown = [item.cluster if family is None else family for item, family in zip(items, named, strict=True)]
    found = labels[node].tolist()
    for label, name in sorted(zip(found, shown, strict=True)):
        names.setdefault(label, name)
    return [replace(item, cluster=names[label]) for item, label in zip(items, found, strict=True)]


def _related(items: Sequence[Item], similarity: float) -> Iterator[tuple[Places, Places]]:
    """Yield pairs of places of records that are the same work, both [pairs]."""
    first: dict[str, int] = {}
    pairs = []
    for place, item in enumerate(items):
        # A hidden world is the work; one that differs in far digits only is the same.
        truth = None if item.row is None else item.row.get("truth")
        keys = [
            f"cluster {item.cluster}",
            *([f"world {digest(essence(truth))}"] if truth is not None else []),
        ]
        pairs += [(first.setdefault(key, place), place) for key in keys]
    exact = np.array(pairs, np.int64).reshape(-1, 2)
    yield exact[:, 0], exact[:, 1]
    same, unknown, differing = thresholds(similarity)
    for found in alike([wording_of(item.row or {}) for item in items], same):
        least = np.where(found.same_answer, same, np.where(found.unknown, unknown, differing))
        near = found.share >= least - 1e-12
        yield found.one[near], found.other[near]


def _merged(labels: Places, one: Places, other: Places) -> Places:
    """Return the labels of nodes after these pairs were united, [nodes]: the first node of each cluster."""
    n = len(labels)
    row, column = np.concatenate([np.arange(n), one]), np.concatenate([labels, other])
    graph = sparse.coo_matrix((np.ones(len(row), np.int8), (row, column)), shape=(n, n))
    found = np.asarray(connected_components(graph, directed=False)[1], np.int64)
    return np.asarray(np.unique(found, return_index=True)[1][found], np.int64)


def sizes_of(items: Sequence[Item]) -> list[int]:
    """Return how many items each cluster holds, the largest first."""
    return sorted(Counter(item.cluster for item in items).values(), reverse=True)
