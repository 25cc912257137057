"""Blocked terms, found however they are spelt: full-width, decomposed, in capitals, or with invisible
characters inside."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import regex  # type: ignore[import-untyped]

from assay.core.errors import TaskError

# Control and format characters, joiners, variation selectors, fillers: unseen, they would split a term.
_INVISIBLE = regex.compile(
    r"[\p{Cf}\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\p{Variation_Selector}\u034f\u115f\u1160\u17b4\u17b5\u2800"
    r"\u3164\uffa0\p{Default_Ignorable_Code_Point}]"
)
# Scripts that put no space between words: there a term is found anywhere.
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
_MARK = regex.compile(r"\p{M}")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([\"\\/bfnrt]))")
_SHORT = dict.fromkeys("bfnrt", " ")
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
    r"""Return the terms of a file: one a line; from a # at the start of a line or behind a space on it is a
    comment.

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
        raise TaskError(
            "a term to block", found="only invisible characters", where=where, fix="remove the line"
        )
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

    def hit_in_json(self, completion: str) -> str | None:
        """Return the first term in a text that may hold JSON, or None: escapes are resolved, whether it
        parses or not.

        >>> (Blocklist(["bad", "its"]).hit_in_json(r'{"a":"\\u0062ad"}'),
        ... Blocklist(["tits"]).hit_in_json(r'{"a":":\\tits"}'))
        ('bad', None)
        """
        return self.hit(_resolved(completion)) if self.terms else None


def _resolved(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(
        lambda found: chr(int(found[1], 16)) if found[1] else _SHORT.get(found[2], found[2]), text
    )
    # What stands beyond the basic plane is escaped in two halves.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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
    # A mark (a vowel sign of Hindi, say) belongs to the letter before it, so a term never ends in the middle
    # of one.
    if right and _MARK.match(right):
        return True
    return left.isalnum() and right.isalnum() and not (_UNSPACED.match(left) or _UNSPACED.match(right))
