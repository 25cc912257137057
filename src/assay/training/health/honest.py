"""What an honest player of a task shows, who is always right: alarms ask how far a policy is from it, not
from two tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from assay.core.records import Episode, HonestFacts
from assay.evaluation.fields import Shares, field_answers, field_shares
from assay.tasks.protocol import FieldAnswer, Item, Task, answer_key

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

    def shares(self, episodes: Sequence[Episode]) -> dict[str, Shares]:
        """Return by field what answers say (`evaluation.fields`)."""
        return field_shares(self._key, self._items, episodes)
