"""Which text, or which value of a field, answers more items of the last steps than it is right for."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from assay.core.config.health import Levels
from assay.core.records import Episode, HonestFacts
from assay.health.rules.alarm_levels import ROUNDING, RuleReading, Rung, above
from assay.rollout.evaluation.alarms import field_answers
from assay.rollout.tasks.protocol import FieldAnswer, Item, Task, answer_key

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
    items: dict[str, dict[str, int]] = defaultdict(dict)
    for texts in window:
        for item, counts in texts.items():
            found = items[item]
            # By hand, as a window has many items and each step looks at all of it: a Counter takes longer
            for text, times in counts.items():
                found[text] = found.get(text, 0) + times
    holders: dict[str, dict[str, float]] = defaultdict(dict)
    for item, found in items.items():
        total = sum(found.values())
        for text, times in found.items():
            holders[text][item] = times / total
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
    common: Common, start: float | None, levels: Levels, what: str, *, field: bool, by: str = "right for"
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
        by: How it is known which share is honest.
    """
    known = common.right is not None
    said = f"{what} ({by} {common.right:.3g} of them)" if known else what
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
    by: str = "right for",
) -> RuleReading:
    """Return a share as one reading; its baseline is the share that an honest player shows."""
    amber, red = share_readings(common, start, levels, what, field=field, by=by)
    honest = None if common.right is None else common.honest
    return RuleReading(rule, (amber, red, None), honest, items)


MOST_ITEMS = 2000  # whose right answers are counted: enough for a share of them


class Honest:
    """The right answers of a task's items, where it can write them down.

    Args:
        task: What is trained on.
        items: The training items.
    """

    def __init__(self, task: Task, items: Sequence[Item]) -> None:
        self._key, self._items = answer_key(task), {item.id: item for item in items}
        self._right: dict[str, str | None] = {}
        self.facts = self._facts(items[:MOST_ITEMS])

    def _facts(self, items: Sequence[Item]) -> HonestFacts | None:
        answers = Counter(right for item in items if (right := self.right(item.id)) is not None)
        if not answers:
            return None
        n = answers.total()
        return HonestFacts(items=n, answers=len(answers), top_share=max(answers.values()) / n)

    def right(self, item_id: str) -> str | None:
        """Return the right answer of an item as text, None where none is known."""
        if item_id not in self._right:
            item = self._items.get(item_id)
            self._right[item_id] = None if self._key is None or item is None else self._key.right_answer(item)
        return self._right[item_id]

    def answer(self, episode: Episode) -> str | None:
        """Return what an episode answered as `right` writes it; None where no right answer is known, or it
        was unreadable."""
        action = episode.turns[-1].action if episode.turns else None
        if self._key is None or action is None or self.right(episode.item_id) is None:
            return None
        return self._key.answer(self._items[episode.item_id], action)

    def fields(self, episode: Episode) -> Mapping[str, FieldAnswer]:
        """Return what the answer of an episode says by field."""
        return {} if self._key is None else field_answers(self._key, self._items, episode)
