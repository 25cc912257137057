"""Words for a tokenizer built from scratch, found in texts: what never varies becomes one word."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

# A word, one space or one mark; a number is a word.
_UNIT = re.compile(r"\w+|\s|[^\w\s]")
OFTEN = 5  # times that a word has to stand in the texts; what is rarer is spelt
FIXED = 0.5  # of the prompts, or of the completions, in which neighbours that are one word stand
MOST_PASSES = 30
LETTERS = tuple(each for each in string.printable if each.isprintable() or each == "\n")


def units(text: str) -> list[str]:
    """Return a text cut into words, spaces and marks; joined they are the text.

    >>> units("a b-12")
    ['a', ' ', 'b', '-', '12']
    """
    return _UNIT.findall(text)


def words_in(prompts: Sequence[str], completions: Sequence[str]) -> list[str]:
    """Return the words of which all these texts are made: frequent ones whole, what never varies as one word,
    and every letter, so that any other text of theirs can be spelt.

    >>> found = words_in(["which is it: a, or b?", "which is it: c, or d?"] * 5, ["a", "b", "c", "d"])
    >>> [word for word in found if len(word) > 1]
    ['which is it: ', ', or ']
    """
    texts = [units(text) for text in (*prompts, *completions)]
    counts = Counter(unit for text in texts for unit in text)
    letters = set(LETTERS) | {letter for unit in counts for letter in unit}
    texts = [[piece for unit in text for piece in _spelt(unit, counts)] for text in texts]
    for _ in range(MOST_PASSES):
        glued = _glued(texts, len(prompts))
        if not glued:
            break
        texts = [_joined(text, glued) for text in texts]
    found = Counter(word for text in texts for word in text)
    return sorted(letters | set(found), key=lambda word: (-len(word), word))


def _spelt(unit: str, counts: Counter[str]) -> Iterable[str]:
    return (unit,) if counts[unit] >= OFTEN else unit


def _glued(texts: Sequence[Sequence[str]], n_prompts: int) -> set[tuple[str, str]]:
    """Return the neighbours of which one never stands without the other, and which stand in most prompts or
    in most completions."""
    single = Counter(word for text in texts for word in text)
    pairs = Counter(pair for text in texts for pair in pairwise(text))
    found = {pair for pair, n in pairs.items() if n in (single[pair[0]], single[pair[1]])}
    least = (FIXED * n_prompts, FIXED * (len(texts) - n_prompts))
    stands: tuple[Counter[tuple[str, str]], ...] = (Counter(), Counter())
    for place, text in enumerate(texts):
        stands[place >= n_prompts].update(found & set(pairwise(text)))
    return {pair for pair in found if any(in_[pair] >= n > 0 for in_, n in zip(stands, least, strict=True))}


def _joined(text: Sequence[str], glued: set[tuple[str, str]]) -> list[str]:
    found = list(text[:1])
    for before, word in pairwise(text):
        if (before, word) in glued:
            found[-1] += word
        else:
            found.append(word)
    return found
