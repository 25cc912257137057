"""Whether two arms are about the same items: matched by id and by content; what differs bars a claim, or
warns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from assay.core.counting import counted
from assay.tools.judge.reading import identical_draws
from assay.tools.judge.rows import JudgedRow

SHOWN = 3
OTHER_ITEMS, OTHER_CONTENT = "the arms hold different items", "items with one id ask different things"
OTHER_DRAWS, OTHER_HOMES = "the arms hold different numbers of draws", "items lie in other clusters"


def by_content(before: Sequence[JudgedRow], after: Sequence[JudgedRow]) -> bool:
    """Give the items of the second arm the ids of the first, where only their contents agree; return whether.

    Every item has to have a content of its own, and both arms the same contents.
    """
    homes = [_contents(rows) for rows in (before, after)]
    if not homes[0] or homes[0].keys() == homes[1].keys():
        return False
    names = [{content: item for item, content in home.items() if content} for home in homes]
    if (
        any(len(by) != len(home) for by, home in zip(names, homes, strict=True))
        or names[0].keys() != names[1].keys()
    ):
        return False
    clusters = {row.item_id: row.cluster for row in before}
    alone = all(row.cluster == row.item_id for row in after)
    for row in after:
        item = names[0][row.content]
        row.cluster = clusters[item] if alone else row.cluster
        row.item_id = item
    return True


def _contents(rows: Sequence[JudgedRow]) -> dict[str, str]:
    return {row.item_id: row.content for row in rows}


def obstacles(
    before: Sequence[JudgedRow], after: Sequence[JudgedRow], name: str, *, draws: bool = True
) -> list[tuple[str, str]]:
    """Return why an arm is not about the items of the first, as (kind, what was found); `draws`: also where
    it has more or fewer of an item."""
    first, other = _contents(before), _contents(after)
    found = []
    only = {"before": first.keys() - other.keys(), name: other.keys() - first.keys()}
    if any(only.values()):
        told = "; ".join(
            f"{counted(len(ids), 'items')} only in {arm} ({_some(ids)})" for arm, ids in only.items() if ids
        )
        found.append((OTHER_ITEMS, f"{told}. Fix: run both on the same items, and leave out none"))
    shared = first.keys() & other.keys()
    odd = [item for item in shared if first[item] and other[item] and first[item] != other[item]]
    if odd:
        text = (
            f"{counted(len(odd), 'items')} of {len(shared)} have another question or target in {name}"
            f" ({_some(odd)})"
        )
        found.append((OTHER_CONTENT, text))
    drawn = {arm: _draws(rows) for arm, rows in (("before", before), (name, after))}
    if draws and len({n for each in drawn.values() for n in each.values()}) > 1:
        told = ", ".join(f"{arm} {_range(each)}" for arm, each in drawn.items())
        fewest = min((n for each in drawn.values() for n in each.values()), default=1)
        text = f"draws an item: {told}. Fix: --draws {fewest} takes the first {fewest} of each"
        found.append((OTHER_DRAWS, text))
    homes = [{row.item_id: row.cluster for row in rows} for rows in (before, after)]
    moved = [item for item in shared if homes[0][item] != homes[1][item]]
    if moved:
        text = f"{counted(len(moved), 'items')} in another cluster in {name} ({_some(moved)})"
        found.append((OTHER_HOMES, text))
    return found


def unite_same(before: Sequence[JudgedRow], others: Sequence[Sequence[JudgedRow]]) -> int:
    """Put items that ask the same into one cluster, in every arm; return how many have another that asks it.

    What asks the same is answered the same: as many items they would be no more evidence.
    """
    items = {row.item_id: row for rows in (*others, before) for row in rows if row.content}
    asked: dict[str, list[str]] = defaultdict(list)
    for row in items.values():
        asked[row.content].append(row.cluster)
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while name in root:
            name = root[name]
        return name

    same = 0
    for clusters in asked.values():
        same += len(clusters) if len(clusters) > 1 else 0
        for other in clusters[1:]:
            one, two = sorted((find(clusters[0]), find(other)))
            if one != two:
                root[two] = one
    for rows in (before, *others) if root else ():
        for row in rows:
            row.cluster = find(row.cluster)
    return same


def _some(items: object) -> str:
    names = sorted(items)[:SHOWN]  # type: ignore[call-overload]
    return ", ".join(ascii(name)[:60] for name in names)


def _draws(rows: Sequence[JudgedRow]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.item_id] = counts.get(row.item_id, 0) + 1
    return counts


def _range(counts: Mapping[str, int]) -> str:
    low, high = min(counts.values(), default=0), max(counts.values(), default=0)
    return str(low) if low == high else f"{low} to {high}"


def warnings(before: Sequence[JudgedRow], after: Sequence[JudgedRow], name: str) -> list[str]:
    """Return what a reader must know of how an arm fits the first, one sentence each."""
    found = []
    contents = [_contents(rows) for rows in (before, after)]
    prompts = [{row.item_id: row.prompt for row in rows} for rows in (before, after)]
    shared = contents[0].keys() & contents[1].keys()
    unknown = [
        item
        for item in shared
        if not (contents[0][item] and contents[1][item]) and not (prompts[0][item] and prompts[1][item])
    ]
    if unknown:
        found.append(
            f"Of {len(unknown)} of {counted(len(shared), 'items')} before and {name} do not both hold the"
            " prompt: that the same id means the same question is taken on trust."
        )
    other = [
        item
        for item in shared
        if prompts[0][item] and prompts[1][item] and prompts[0][item] != prompts[1][item]
    ]
    if other:
        found.append(
            f"The prompt of {len(other)} of {counted(len(shared), 'items')} differs between before and"
            f" {name}: what a template, a system message or examples do is part of the difference."
        )
    for arm, rows in (("before", before), (name, after)):
        if same := identical_draws(list(rows)):
            found.append(
                f"All draws of {counted(same, 'items')} of {arm} are one and the same text, as in greedy"
                " decoding: more of them say nothing more."
            )
    return found
