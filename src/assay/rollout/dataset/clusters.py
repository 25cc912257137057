"""What of a suite is one piece of evidence: records of one family, and near-duplicates, are one cluster.

A suite of a few records in many wordings would pass for a large one, and an interval that takes wordings for
independent work is too narrow. So clusters are found in what the records say, whatever ids they bear.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from scipy import sparse  # type: ignore[import-untyped,unused-ignore]
from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped,unused-ignore]

from assay.core.storage.json import digest
from assay.rollout.dataset.likeness import Alike, Compared, Flags, Places, wording_of
from assay.rollout.dataset.wording import essence, family_of
from assay.rollout.tasks.protocol import Item

SEARCHED = 1_000  # records of a cluster in which a chain is looked for
_ANY = 1e-9  # share from which two records have anything in common


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

    Records that are the same work (by their task, or with an equal or an unknown answer) chain: what is alike
    to one of a cluster is of it. Near-duplicates with other answers do not, or any template would be one
    cluster, and nor do those with one label, as yes or no: every two of those that are united so are alike.
    Two families are one if more than half of the records of one have a near-duplicate in the other: a single
    pair of many is chance.

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
    wordings = [wording_of(item.row or {}) for item in items]
    compared = Compared(wordings)
    labels, loose = _same_work(items, node, compared, similarity)
    order = sorted(np.flatnonzero(loose).tolist(), key=lambda k: (*wordings[k].key, items[k].id))
    found = _without_chains(labels[node], node, np.array(order, np.int64), compared, similarity).tolist()
    names: dict[int, str] = {}
    shown = [item.cluster if family is None else family for item, family in zip(items, named, strict=True)]
    for label, name in sorted(zip(found, shown, strict=True)):
        names.setdefault(label, name)
    return [replace(item, cluster=names[label]) for item, label in zip(items, found, strict=True)]


def _same_work(
    items: Sequence[Item], node: Places, compared: Compared, similarity: float
) -> tuple[Places, Flags]:
    """Return the labels of nodes (families, and records of none) that are the same work, [nodes], and which
    records have near-duplicates with other answers that do not unite them yet, [records]."""
    sizes = np.bincount(node)
    n = len(sizes)
    labels, loose = np.arange(n), np.zeros(len(node), np.bool_)
    met: list[Places] = []  # record * nodes + node: the record has a near-duplicate there
    for one, other, chains in _related(items, compared, similarity):
        place, there = np.concatenate([one, other]), np.concatenate([node[other], node[one]])
        apart = node[place] != there
        place, there = place[apart], there[apart]
        alone = sizes[node[place]] == 1
        if chains:
            labels = _merged(labels, node[place[alone]], there[alone])
        else:
            single = _single(sizes, node, one, other)
            loose[one[single]] = loose[other[single]] = True
        met.append(np.unique(place[~alone] * n + there[~alone]))
    place, there = np.divmod(np.unique(np.concatenate([*met, np.zeros(0, np.int64)])), max(1, n))
    ways, counts = np.unique(node[place] * n + there, return_counts=True)
    home, there = np.divmod(ways, max(1, n))
    most = 2 * counts > sizes[home]
    return _merged(labels, home[most], there[most]), loose


def _single(sizes: Places, node: Places, one: Places, other: Places) -> Flags:
    """Return of which pairs a record is the only one of its node, [pairs]; families are asked as wholes."""
    return np.asarray((sizes[node[one]] == 1) | (sizes[node[other]] == 1), np.bool_)


def _related(
    items: Sequence[Item], compared: Compared, similarity: float
) -> Iterator[tuple[Places, Places, bool]]:
    """Yield pairs of places of records that are near-duplicates, both [pairs], and whether they are the same
    work, so that they chain."""
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
    yield exact[:, 0], exact[:, 1], True
    same, unknown, differing = thresholds(similarity)
    searches = [compared.pairs(same, same_answer=True), compared.pairs(differing)]
    searches += [compared.pairs(unknown)] if compared.unknown.any() else []
    for found in chain.from_iterable(searches):
        near, loose = _near(found, similarity, compared)
        for flags, chains in ((near & ~loose, True), (near & loose, False)):
            yield found.one[flags], found.other[flags], chains


def _near(found: Alike, similarity: float, compared: Compared) -> tuple[Flags, Flags]:
    """Return which pairs are near-duplicates, and which may be other work all the same: with answers that are
    known to differ, or with one label; both [pairs]."""
    same, unknown, differing = thresholds(similarity)
    least = np.where(found.same_answer, same, np.where(found.unknown, unknown, differing))
    return found.share >= least - 1e-12, ~(found.same_answer & (not compared.labels) | found.unknown)


def _without_chains(
    home: Places, node: Places, order: Places, compared: Compared, similarity: float
) -> Places:
    """Return the clusters of records, [records]: groups of the same work are put together where each two of
    them have near-duplicates with other answers in each other.

    Group by group, each joins the largest cluster with all of which it is alike. Source: Hansen and Delattre
    (1978), Complete-link cluster analysis by graph coloring, JASA 73:397: of what is unlike, and in one pass.

    Args:
        home: Group of each record, [records].
        node: Family or record that each is of, [records].
        order: Records with such near-duplicates; groups come in the order of their first ones.
    """
    sizes, groups = np.bincount(node), list(dict.fromkeys(home[order].tolist()))
    rank = np.zeros(len(home), np.int64)
    rank[groups] = np.arange(len(groups))
    order = order[np.argsort(rank[home[order]], kind="stable")]
    cluster, members = np.arange(len(groups)), np.ones(len(groups), np.int64)
    n, waiting = max(1, len(groups)), np.zeros(0, np.int64)  # group * n + an earlier one that it is alike to
    for found in compared.pairs(thresholds(similarity)[0 if compared.labels else 2], order=order):
        one, other = rank[home[found.one]], rank[home[found.other]]
        near, loose = _near(found, similarity, compared)
        kept = near & loose & (one != other) & _single(sizes, node, found.one, found.other)
        waiting = np.unique(np.concatenate([waiting, other[kept] * n + one[kept]]))
        # The last group may have more records in what is yet to come.
        whole = np.searchsorted(waiting, waiting[-1] // n * n) if len(waiting) else 0
        _join(waiting[:whole], cluster, members)
        waiting = waiting[whole:]
    _join(waiting, cluster, members)
    label = np.arange(len(home))
    label[groups] = np.array(groups, np.int64)[cluster]
    return np.asarray(label[home], np.int64)


def _join(alike: Places, cluster: Places, members: Places) -> None:
    """Let groups join clusters of earlier ones, in place.

    Args:
        alike: Group * groups + an earlier one that it is alike to, sorted, [pairs].
        cluster: Of each group: the first group in it, [groups].
        members: How many groups a cluster has, by its first, [groups].
    """
    if not len(alike):
        return
    n = len(cluster)
    late, starts = np.unique(alike // n, return_index=True)
    for group, earlier in zip(late.tolist(), np.split(alike % n, starts[1:]), strict=True):
        into, counts = np.unique(cluster[earlier], return_counts=True)
        into = into[counts == members[into]]
        if len(into):
            cluster[group] = into[np.argmax(members[into])]
            members[cluster[group]] += 1
            members[group] = 0


def _merged(labels: Places, one: Places, other: Places) -> Places:
    """Return the labels of nodes after these pairs were united, [nodes]: the first node of each cluster."""
    n = len(labels)
    row, column = np.concatenate([np.arange(n), one]), np.concatenate([labels, other])
    graph = sparse.coo_matrix((np.ones(len(row), np.int8), (row, column)), shape=(n, n))
    found = np.asarray(connected_components(graph, directed=False)[1], np.int64)
    return np.asarray(np.unique(found, return_index=True)[1][found], np.int64)


@dataclass(frozen=True, slots=True)
class Chain:
    """Two records of the largest cluster that are unlike, and two by which it holds together."""

    ends: tuple[str, str]  # ids
    ends_share: float  # of words and pairs of words in common
    link: tuple[str, str]
    link_share: float
    rule: str
    least: float  # share from which that rule unites

    def __str__(self) -> str:
        one, other, first, second = map(ascii, (*self.link, *self.ends))
        return (
            f"the largest is a chain: {one} and {other} share {self.link_share:.0%} of their words"
            f" ({self.rule}: one piece of work from {self.least:.0%} on), and so on to {first} and {second},"
            f" which share {self.ends_share:.0%}"
        )


def find_chain(items: Sequence[Item], similarity: float) -> Chain | None:
    """Return what makes the largest cluster one though not all of its records are alike; None where they are,
    or where a family or the task names them one.

    Args:
        items: With their clusters, of `united`.
        similarity: From what share of common words two records are near-duplicates, 0 to 1.
    """
    largest = Counter(item.cluster for item in items).most_common(1)
    places = [k for k, item in enumerate(items) if largest and item.cluster == largest[0][0]][:SEARCHED]
    compared = Compared([wording_of(item.row or {}) for item in items])
    ends = dict.fromkeys(places[1:], 0.0)  # share with the first
    links = []
    for found in compared.pairs(_ANY, order=np.array(places, np.int64)):
        first = found.one == places[0] if places else []
        ends |= dict(zip(found.other[first].tolist(), found.share[first].tolist(), strict=True))
        near, loose = _near(found, similarity, compared)
        near &= ~loose
        told = (each[near].tolist() for each in (found.share, found.one, found.other, found.same_answer))
        links += sorted(zip(*told, strict=True))[:1]
    if not links or not ends:
        return None
    share, one, other, same = min(links)
    far = min(ends, key=lambda place: ends[place])
    rule, least = ("equal answers", 0) if same else ("no known answer", 1)
    if ends[far] >= thresholds(similarity)[least] - 1e-12:
        return None
    return Chain(
        ends=(items[places[0]].id, items[far].id),
        ends_share=ends[far],
        link=(items[one].id, items[other].id),
        link_share=share,
        rule=rule,
        least=thresholds(similarity)[least],
    )


def sizes_of(items: Sequence[Item]) -> list[int]:
    """Return how many items each cluster holds, the largest first."""
    return sorted(Counter(item.cluster for item in items).values(), reverse=True)
