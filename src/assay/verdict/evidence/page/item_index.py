"""Where every pair of episodes stands: a row an item with all its draws, most broken ones first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from assay.core.counting import counted
from assay.core.records import Episode
from assay.verdict.evidence.tables.trajectories import Pair

MOST_ITEMS = 1500  # about 300 kB of a page; of larger suites those whose successes changed come first
HEAD = ("item", "strata", "before", "after", "gain", "reward before", "reward after")
MORE = ("lines before", "lines after", "shown above")


@dataclass(frozen=True, slots=True)
class ItemIndex:
    """Heads of the columns; rows as (cells, numbers of the pairs shown in full); and how many there are."""

    head: tuple[str, ...]
    rows: list[tuple[tuple[str, ...], list[int]]]
    said: str


def index_of_items(
    before: Sequence[Episode], after: Sequence[Episode], shown: Sequence[Pair] = (), most: int = MOST_ITEMS
) -> ItemIndex:
    """Return the index of two arms in the order of their files; the items that lost most come first.

    Of more than `most` items those with the largest changes, either way, are listed, and that is said.
    """
    arms = [_by_item(arm) for arm in (before, after)]
    places: dict[str, list[int]] = defaultdict(list)
    for k, pair in enumerate(shown, 1):
        places[pair.before.item_id].append(k)
    both = [name for name in arms[0] if name in arms[1]]
    gains = {name: _wins(arms[1][name]) - _wins(arms[0][name]) for name in both}
    kept = sorted(both, key=lambda name: (-abs(gains[name]), name))[:most]
    rows = []
    for name in sorted(kept, key=lambda name: (gains[name], name)):
        (old, new), strata = (arm[name] for arm in arms), arms[0][name][0][1].strata
        cells: tuple[str, ...] = (
            name,
            ", ".join(f"{label} {value}" for label, value in sorted(strata.items())),
            _signs(old),
            _signs(new),
            f"{gains[name]:+d}".replace("-", "\u2212"),
            f"{_reward(old):.3g}".replace("-", "\u2212"),
            f"{_reward(new):.3g}".replace("-", "\u2212"),
            _lines(old),
            _lines(new),
        )
        rows.append((cells, places.get(name, [])))
    pairs = min(len(before), len(after))
    said = f"{counted(len(both), 'items')}, {counted(pairs, 'pairs')}"
    if len(kept) < len(both):
        said += f"; the {len(kept)} that changed most"
    return ItemIndex((*HEAD, *MORE), rows, said)


Placed = list[tuple[int, Episode]]


def _by_item(episodes: Sequence[Episode]) -> dict[str, Placed]:
    found: dict[str, Placed] = defaultdict(list)
    for line, episode in enumerate(episodes, 1):
        found[episode.item_id].append((line, episode))
    return {name: sorted(own, key=lambda each: each[1].draw) for name, own in found.items()}


def _wins(own: Placed) -> int:
    return sum(episode.success for _, episode in own)


def _signs(own: Placed) -> str:
    return "".join("\u2713" if episode.success else "\u2717" for _, episode in own)


def _reward(own: Placed) -> float:
    return sum(episode.reward for _, episode in own) / len(own)


def _lines(own: Placed) -> str:
    lines = sorted(line for line, _ in own)
    whole = lines[-1] - lines[0] + 1 == len(lines) > 1
    return f"{lines[0]}\u2013{lines[-1]}" if whole else ", ".join(map(str, lines))
