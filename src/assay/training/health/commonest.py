"""Which text, or which value of a field, answers more items of the last steps than it is right for."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from assay.core.config.health import Levels
from assay.training.health.alarm_levels import ROUNDING, Reading, Rung, above

ALL = 0.99  # of the items: more is all of them
WRONG_ITEMS = 3  # a text that answers all has to be wrong for so many items before that is told
DEVIATIONS = 2.0  # of the share that a player shows who knows how often each answer is right, and guesses
Texts = Mapping[str, Mapping[str, int]]  # item -> text (or a digest of it) -> how often
Right = Mapping[str, Sequence[str]]  # item -> the texts that are right for it


class Common(NamedTuple):
    """One text over a window: the share of items that it answers and, if that is known, is right for; how
    many items."""

    share: float
    right: float | None
    items: int

    @property
    def honest(self) -> float:
        """The share that an honest player may show: where the text is right, and two deviations of a guesser
        more.

        Source: the standard error of a binomial share.
        """
        if not self.right:
            return 0.0
        return self.right + DEVIATIONS * math.sqrt(max(0.0, self.right * (1.0 - self.right)) / self.items)

    @property
    def excess(self) -> float:
        """The share beyond that; below 0 where a right answer is given too seldom."""
        return self.share - self.honest

    @property
    def answers_all(self) -> bool:
        """Whether the text answers every item, though it is wrong for some of them."""
        return (
            self.share >= ALL
            and self.right is not None
            and (1.0 - self.right) * self.items >= WRONG_ITEMS - ROUNDING
        )


def most_common(window: Sequence[Texts], right: Right | None = None) -> tuple[Common, tuple[str, ...]]:
    """Return the text that answers most items beyond those that it is right for, and the items that it
    answered.

    An item counts by the share of its own episodes with that text, so that neither a group's size nor its
    copies matter; a text that answered one item only has share 0.

    Args:
        window: The steps.
        right: The right texts by item; None where they are not known, and then no share of a text is honest.

    >>> most_common([{"a": {"x": 1, "y": 1}, "b": {"x": 2}}, {"c": {"z": 8}}])
    (Common(share=0.5, right=None, items=3), ('a', 'b'))
    >>> most_common([{"a": {"x": 2}, "b": {"x": 2}}], {"a": ["x"], "b": ["y"]})[0][:2]
    (1.0, 0.5)
    """
    items: dict[str, Counter[str]] = defaultdict(Counter)
    for texts in window:
        for item, counts in texts.items():
            items[item].update(counts)
    holders: dict[str, dict[str, float]] = defaultdict(dict)
    for item, found in items.items():
        for text, times in found.items():
            holders[text][item] = times / found.total()
    wanted = (
        Counter(text for item in items for text in set(right.get(item, ())))
        if right is not None
        else Counter[str]()
    )
    n = len(items)
    found_common = [
        (Common(math.fsum(held.values()) / n, None if right is None else wanted[text] / n, n), text)
        for text, held in holders.items()
        if len(held) > 1
    ]
    if not found_common:
        return Common(0.0, None if right is None else 0.0, n), ()
    common, text = max(found_common, key=lambda each: (each[0].excess, each[0].share, each[1]))
    return common, tuple(sorted(holders[text]))


def share_readings(
    common: Common, start: float | None, levels: Levels, what: str, *, field: bool
) -> tuple[Rung, Rung | None]:
    """Return the rungs AMBER and RED of a share, each threshold in the unit of the share.

    A text answers more items than it is right for, by the level and by more than it did in the first steps,
    since a base may lean to an answer that it has yet to unlearn. AMBER forgives that only of a text that is
    right somewhere, and where no right answer is known, nothing is forgiven. A text that answers all items is
    AMBER wherever it is wrong for some, and RED by the level alone.

    Args:
        common: The text.
        start: Its excess in the first steps; None: those are not over.
        levels: The limits.
        what: The share in words.
        field: Whether the text is a field's: then AMBER forgives more, and needs the level even of a text
            that answers all.
    """
    known = common.right is not None
    said = f"{what} (right for {common.right:.3g} of them)" if known else what
    forgiven = max(0.0, start or 0.0) if known and not common.answers_all else 0.0
    amber = above(
        said,
        common.share,
        common.honest + levels.amber + forgiven * bool(field or common.right),
        levels.amber_for,
    )
    if common.answers_all and not field:
        assert common.right is not None
        amber = above(said, common.share, common.right, levels.amber_for)
    red = above(said, common.share, common.honest + levels.red + forgiven, levels.red_for)
    return amber, None if known and start is None else red


def reading(
    rule: Any,
    common: Common,
    start: float | None,
    levels: Levels,
    what: str,
    items: Sequence[str],
    *,
    field: bool = False,
) -> Reading:
    """Return a share as one reading; its baseline is the share that an honest player shows."""
    amber, red = share_readings(common, start, levels, what, field=field)
    honest = None if common.right is None else common.honest
    return Reading(rule, (amber, red, None), honest, items)
