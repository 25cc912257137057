"""How many prompts were cut to fit, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.core.counting import counted
from assay.core.records import Episode


def cuts_said(episodes: Sequence[Episode]) -> str | None:
    """Return how many prompts were cut, in words; None if none was."""
    cuts = {episode.item_id: episode.prompt_chars_cut for episode in episodes}
    return cuts_in_words({item: cut for item, cut in cuts.items() if cut}, len(cuts))


def cuts_in_words(cuts: Mapping[str, int], n: int) -> str | None:
    """Return how many of n prompts were cut and by how much, cuts by item id; None if none was.

    >>> cuts_in_words({"a": 120, "b": 7}, 10)
    '2 of 10 prompts were cut to fit the prompt limits of the task, by up to 120 characters'
    """
    if not cuts:
        return None
    said = f"{len(cuts)} of {counted(n, 'prompts')} {'was' if len(cuts) == 1 else 'were'} cut"
    return (
        f"{said} to fit the prompt limits of the task, by up to {counted(max(cuts.values()), 'characters')}"
    )
