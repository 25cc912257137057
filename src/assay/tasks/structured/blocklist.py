"""Blocked terms, found however they are spelt: full-width, decomposed, in capitals, or with invisible characters inside."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import regex  # type: ignore[import-untyped]

from assay.errors import TaskError

# Control and format characters, joiners, variation selectors, fillers: unseen, they would split a term.
_INVISIBLE = regex.compile(
    r"[\p{Cf}\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\p{Variation_Selector}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0]"
)
# Scripts that put no space between words: there a term is found anywhere.
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
_COMMENT = re.compile(r"(^|\s)#.*")


def normalised(text: str) -> str:
    r"""Return a text as terms are compared: compatible forms, no case, nothing invisible, single spaces.

    >>> normalised("\uff22\uff41d\u200b  Stra\u00dfe")
    'bad strasse'
    """
    if not (text.isascii() and text.isprintable()):
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
    text = text.casefold()
    return " ".join((text if text.isascii() else unicodedata.normalize("NFKC", text)).split())


def parse_blocklist(text: str, where: str) -> tuple[str, ...]:
    r"""Return the terms of a file: one a line; from a # at the start of a line or behind a space on it is a comment.

    >>> parse_blocklist("# bad words\nBad Word  # why\nc#\n\n", "terms.txt")
    ('bad word', 'c#')

    Raises:
        TaskError: A term of which nothing is left when it is normalised.
    """
    terms = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        term = _COMMENT.sub("", line).strip()
        if term:
            terms.append(_term(term, f"{where}, line {number}"))
    return tuple(dict.fromkeys(terms))


def _term(term: str, where: str) -> str:
    found = normalised(term)
    if not found:
        raise TaskError("a term to block", found="only invisible characters", where=where, fix="remove the line")
    return found


class Blocklist:
    """Looks for terms at word boundaries."""

    def __init__(self, terms: Sequence[str]) -> None:
        """Normalise the terms; TaskError if one is empty."""
        self.terms = tuple(dict.fromkeys(_term(term, "blocklist") for term in terms))

    def hit(self, text: str) -> str | None:
        """Return the first term that stands in a text, or None.

        >>> Blocklist(["ass"]).hit("a class"), Blocklist(["ass"]).hit("ASS!")
        (None, 'ass')
        """
        if not self.terms:
            return None
        shown = normalised(text)
        return next((term for term in self.terms if _stands_in(term, shown)), None)

    def hit_in(self, completion: str, value: Any) -> str | None:
        """Return the first term in a completion, or in the texts of what it was parsed into, where escapes are resolved."""
        if not self.terms:
            return None
        found = self.hit(completion)
        if found is not None or "\\" not in completion:
            return found  # without escapes every text of the value stands in the completion as it is
        return next((term for text in _texts(value) if (term := self.hit(text))), None)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield key
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


def _stands_in(term: str, text: str) -> bool:
    start = text.find(term)
    while start >= 0:
        end = start + len(term)
        if not _joins(text[start - 1 : start], term[0]) and not _joins(term[-1], text[end : end + 1]):
            return True
        start = text.find(term, start + 1)
    return False


def _joins(left: str, right: str) -> bool:
    """Return whether two neighbouring characters belong to one word; the end of the text joins nothing."""
    return left.isalnum() and right.isalnum() and not (_UNSPACED.match(left) or _UNSPACED.match(right))
