"""How an arm's completions were written, as far as its files hold them: empty, reasoning alone, or, of
failures, in a wrapping. Whether they are right inside, only a grader tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assay.core.counting import counted
from assay.rollout.evaluation.written import MANY_EMPTY
from assay.rollout.tasks.wrappings import EVERY, found_around, only_reasons, read_message

# Words may stand around any text that holds a list, and graders of mathematics read boxes: without the task
# these are no wrappings.
TOLD = tuple(name for name in EVERY if name not in ("prose", "boxed"))
_SIGNS = (
    "<",
    "[",
    "`",
    "~~~",
    "◁",
    "analysis",
    "commentary",
    "final",
    ">>>",
    "functions.",
    "Action:",
    "Here is my",
)


class WrittenTexts:
    """Counts the completions of one arm."""

    def __init__(self) -> None:
        self._results = self._known = self._failed = self._completions = self._empty = self._thought = 0
        self._around: Counter[str] = Counter()

    def add(self, texts: Sequence[str] | None, success: bool) -> None:
        """Count the completions of one result; None: its file does not have them."""
        self._results += 1
        if texts is None:
            return
        self._known += 1
        self._failed += not success
        self._completions += len(texts)
        around = set[str]()
        for text in texts:
            thought = any(sign in text for sign in _SIGNS) and only_reasons(text)
            self._thought += thought
            self._empty += thought or not text.strip()
            if not success and any(sign in text for sign in _SIGNS):
                around.update(found_around(text, TOLD))
        if around:
            self._around[", ".join(name for name in TOLD if name in around)] += 1

    def said(self) -> tuple[str, ...]:
        """Return the counts in a line, then what a reader should know first; nothing where no text is
        known."""
        return tuple(self._said())

    def _said(self) -> Iterator[str]:
        if not self._known:
            return
        thought = f" ({self._thought} reasoning only)" if self._thought else ""
        wrapped = self._around.total()
        line = f"{self._empty} of {counted(self._completions, 'completions')} empty{thought}"
        line += f", {wrapped} of {counted(self._failed, 'failures')} in a wrapping"
        if wrapped:
            line += f" ({'; '.join(f'{names} {n}' for names, n in sorted(self._around.items()))})"
        yield line if self._known == self._results else f"{line}, of {self._known} whose texts are there"
        if self._empty and self._empty >= MANY_EMPTY * self._completions:
            yield f"{self._empty} of {counted(self._completions, 'completions')} are empty{thought}"
        if wrapped and wrapped >= MANY_EMPTY * self._results:
            yield (
                f"{wrapped} failures stand in a wrapping: whether they are right inside, only a grader tells"
                " (assay episodes grade TASKS COMPLETIONS --cut, docs/own-data.md)"
            )


def texts_in(value: Any) -> tuple[str, ...] | None:
    """Return the texts of completions or of the model's messages, however they are nested; None where there
    is none.

    >>> texts_in([["a", "b"], [None]]), texts_in("a"), texts_in(None), texts_in([])
    (('a', 'b', ''), ('a',), None, None)
    >>> texts_in([{"role": "user", "content": "Who?"}, {"role": "assistant", "content": None}])
    ('',)
    """
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Mapping):
        return (read_message(value)[0] or "",) if value.get("role", "assistant") == "assistant" else ()
    if not isinstance(value, list | tuple) or not value:
        return None
    found = [("",) if each is None else texts_in(each) for each in value]
    return tuple(text for each in found for text in each or ())
