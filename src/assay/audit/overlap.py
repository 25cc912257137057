"""Runs of words that texts have in common, by rolling digests over all texts at once."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from assay.dataset.audit_records import NGRAM

BOILERPLATE = 10  # train texts; a run in more of them is a phrase of the template (same source)
_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that powers never vanish modulo 2**64
_INVERSE = np.uint64(pow(int(_BASE), -1, 1 << 64))
_SIEVE_BITS = 22
_WORD = re.compile(r"\w+")
Numbers = NDArray[np.uint64]
Places = NDArray[np.int64]


def words_of(text: str) -> list[str]:
    r"""Return the words of a text as they are compared: compatible forms, no case, no punctuation.

    >>> words_of("\uff22ad, \u201cSTRASSE\u201d-2!")
    ['bad', 'strasse', '2']
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _WORD.findall(text.casefold())


class Texts:
    """Many texts as one row of numbers, with the digest of any run of words at hand."""

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        """Lay the texts end to end.

        Args:
            texts: The words of each.
        """
        lengths = np.array([len(text) for text in texts], np.int64)
        self.n = len(texts)
        self.ends = np.repeat(np.cumsum(lengths), lengths)  # [words], where the text of a word ends
        self.owner = np.repeat(np.arange(self.n), lengths)  # [words], which text a word is of
        numbers = _numbered(texts, int(lengths.sum()))
        powers = np.ones(len(numbers) + 1, np.uint64)
        np.multiply.accumulate(np.full(len(numbers), _BASE), out=powers[1:])
        self._back = np.ones(len(numbers) + 1, np.uint64)
        np.multiply.accumulate(np.full(len(numbers), _INVERSE), out=self._back[1:])
        # Sum of word x power up to each place: a run is a difference of two, brought back to the power of its
        # first word.
        self._sums = np.zeros(len(numbers) + 1, np.uint64)
        np.cumsum(numbers * powers[:-1], out=self._sums[1:])

    def starts(self, length: int) -> Places:
        """Return where a run of that many words begins that does not reach into the next text."""
        places = np.arange(len(self.ends))
        return np.asarray(places[places + length <= self.ends], np.int64)

    def digests(self, starts: Places, length: int) -> Numbers:
        """Return the digests of runs of that many words at those places; equal runs have equal digests, in
        any texts."""
        return np.asarray((self._sums[starts + length] - self._sums[starts]) * self._back[starts], np.uint64)


def _numbered(texts: Sequence[Sequence[str]], total: int) -> Numbers:
    """Return 64 bits for each word; they depend on the word alone, so texts can be numbered apart."""
    known: dict[str, int] = {}
    numbers = np.empty(total, np.uint64)
    place = 0
    for text in texts:
        for word in text:
            number = known.get(word)
            if number is None:
                number = known[word] = int.from_bytes(
                    hashlib.blake2b(word.encode(), digest_size=8).digest(), "big"
                )
            numbers[place] = number
            place += 1
    return numbers


def shared_ngrams(train: Texts, heldout: Texts, length: int = NGRAM) -> list[int]:
    """Return which held-out texts share a run of words with train, except runs that are boilerplate there."""
    there = heldout.starts(length)
    asked = heldout.digests(there, length)
    rare = [
        value for value, homes in _homes(train, np.unique(asked), length).items() if len(homes) <= BOILERPLATE
    ]
    hit = np.isin(asked, np.array(rare, np.uint64))
    return sorted({int(k) for k in heldout.owner[there[hit]]})


def answers_inside(train: Texts, answers: Sequence[Sequence[Sequence[str]]]) -> list[int]:
    """Return which entries have an answer, as words, that stands in some train texts as one run.

    One that stands in more train texts than boilerplate may is a phrase of the template and counts for
    nothing.
    """
    by_length: dict[int, list[tuple[int, Sequence[str]]]] = defaultdict(list)
    for k, runs in enumerate(answers):
        for run in runs:
            by_length[len(run)].append((k, run))
    hits: set[int] = set()
    for length, asked in by_length.items():
        starts = np.arange(0, len(asked) * length, length)
        values = Texts([run for _, run in asked]).digests(starts, length)
        homes = _homes(train, np.unique(values), length)
        hits |= {
            k
            for (k, _), value in zip(asked, values, strict=True)
            if 0 < len(homes.get(int(value), ())) <= BOILERPLATE
        }
    return sorted(hits)


def _homes(texts: Texts, values: Numbers, length: int) -> dict[int, set[int]]:
    """Return by digest the texts that hold such a run; a few more than boilerplate may are enough to know."""
    places = texts.starts(length)
    found = texts.digests(places, length)
    # A table of single bits throws nearly everything out before anything is sorted.
    low = np.uint64((1 << _SIEVE_BITS) - 1)
    sieve = np.zeros(1 << _SIEVE_BITS, np.bool_)
    sieve[(values & low).astype(np.int64)] = True
    kept = sieve[(found & low).astype(np.int64)]
    found, owner = found[kept], texts.owner[places[kept]]
    there = np.isin(found, values)
    homes: dict[int, set[int]] = defaultdict(set)
    for value, home in zip(found[there].tolist(), owner[there].tolist(), strict=True):
        if len(homes[value]) <= BOILERPLATE:
            homes[value].add(home)
    return homes
