"""Conversations as plain lists of token ids, for engines that are given the whole of a conversation at each
turn."""

from __future__ import annotations

from collections.abc import Sequence


class Transcripts:
    """The part of `backends.Conversations` that needs no engine: who is there, and what has been said so far.

    Args:
        openings: Token ids, one list a row.
        seeds: One sampling seed a row.
    """

    def __init__(self, openings: Sequence[Sequence[int]], seeds: Sequence[int]) -> None:
        self._texts: list[list[int]] = []
        self._seeds: list[int] = []
        self.admit(openings, seeds)

    def admit(self, openings: Sequence[Sequence[int]], seeds: Sequence[int]) -> None:
        """Take in further conversations behind the rows there are."""
        self._texts += [list(ids) for ids in openings]
        self._seeds += [int(seed) for seed in seeds]

    def keep(self, rows: Sequence[int]) -> None:
        """Drop every row but these."""
        self._texts, self._seeds = [self._texts[row] for row in rows], [self._seeds[row] for row in rows]

    def tell(self, last_ids: Sequence[int], replies: Sequence[Sequence[int]]) -> None:
        """Append what each row is told; what it wrote is there already."""
        for text, reply in zip(self._texts, replies, strict=True):
            text += reply
