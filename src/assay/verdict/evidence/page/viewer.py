"""All pairs of a comparison as data, for the script of the page to look through."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.core.records import Episode
from assay.verdict.evidence.escape import visible

MOST_CHARACTERS = 400_000  # of a page


@dataclass(frozen=True, slots=True)
class Viewed:
    """The data as JSON that no browser takes for markup, and how many of all pairs they hold."""

    data: str
    n: int
    total: int


def all_pairs(
    arms: tuple[Sequence[Episode], Sequence[Episode]],
    prompts: Mapping[str, str],
    truths: Mapping[str, str],
    most: int = MOST_CHARACTERS,
) -> Viewed:
    """Return the pairs in the order of the file before, as many of them as fit `most` characters.

    A pair is [item, draw, strata, prompt, truth, episode before, episode after], an episode [success, reward,
    ending, completions].
    """
    after = {(each.item_id, each.draw): each for each in arms[1]}
    both = [(one, after[one.item_id, one.draw]) for one in arms[0] if (one.item_id, one.draw) in after]
    rows, room = list[str](), most
    for one, other in both:
        strata = ", ".join(f"{name}: {value}" for name, value in sorted(one.strata.items()))
        head = [one.item_id, str(one.draw), strata, prompts.get(one.item_id, ""), truths.get(one.item_id, "")]
        row = _written([*head, _told(one), _told(other)])
        room -= len(row)
        if room < 0:
            break
        rows.append(row)
    return Viewed(f"[{','.join(rows)}]", len(rows), len(both))


def _told(episode: Episode) -> list[object]:
    said = [turn.completion for turn in episode.turns]
    return [int(episode.success), f"{episode.reward:.3g}", episode.ending, said]


def _written(row: list[object]) -> str:
    text = json.dumps(_shown(row), ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _shown(value: object) -> object:
    if isinstance(value, list):
        return [_shown(each) for each in value]
    return visible(value) if isinstance(value, str) else value
