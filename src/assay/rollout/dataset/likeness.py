"""How alike records are: the share of words and pairs of words that two of them have in common.

What is said whatever the answer (an instruction, a template, a greeting) tells no two records apart and is
left out. Source of the measure: Broder (1997), On the resemblance of documents; computed in full, by
sparse products, where others estimate it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse  # type: ignore[import-untyped,unused-ignore]

from assay.rollout.dataset.wording import ANSWER_FIELDS, essence, essential_words, texts_of

Places = NDArray[np.int64]
Shares = NDArray[np.float64]
Flags = NDArray[np.bool_]

# What tells no two records apart is said with more than this share of the answers, by at least this part of
# the largest share of records that say it with one answer, and, where answers are few, by this share with
# some.
COMMON, AS_OFTEN, OFTEN = 0.5, 0.25, 0.4
FEW_ANSWERS = 6
TELLING = 2.0  # times as alike as other records are those whose answer says what they ask
SIZABLE = 0.1  # of the mean number of records of an answer; with fewer, one does not count
EVERYWHERE = 0.99  # of the records, where answers tell nothing
MOST_SHINGLES, FEWEST_SHINGLES = 128, 32  # of a text on average, and of any; of longer ones a sample
_ODD = np.uint64(0x9E3779B97F4A7C15)
_ROWS, _PAIRS = 512, 200_000  # that are compared at a time


@dataclass(frozen=True, slots=True)
class Wording:
    """What a record says: its essential words, and its answer by content, None where it has none."""

    words: tuple[str, ...]
    answer: str | None
    body: tuple[str, ...]  # words of the last text alone, which is what the instruction is about
    stated: bool  # whether parts of the answer stand in the words, as where facts are extracted

    @property
    def key(self) -> tuple[tuple[str, ...], str]:
        """What it says as a whole: no two works have one."""
        return self.words, self.answer or ""


def wording_of(record: Mapping[str, Any]) -> Wording:
    """Return what a record says, however it is worded."""
    texts = texts_of(record)
    words, body = tuple(essential_words(" ".join(texts))), tuple(essential_words("".join(texts[-1:])))
    given = [essence(record[name]) for name in ANSWER_FIELDS if record.get(name) is not None]
    if not given:
        return Wording(words, None, body, stated=False)
    known = set(words)
    # Of several: a single one may be a label that the instruction names.
    parts = [part for part in _leaves(given) if part and known.issuperset(part.split())]
    return Wording(words, json.dumps(given, sort_keys=True), body, stated=len(parts) > 1)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _leaves(part)


@dataclass(frozen=True, slots=True)
class Alike:
    """Pairs of records and how alike they are, all [pairs]: places, with `one` before `other`."""

    one: Places
    other: Places
    share: Shares  # 0 to 1, of what either says
    same_answer: Flags
    unknown: Flags  # whether one of them has no answer


class Compared:
    """Records laid side by side, so that any of them can be compared with any others."""

    def __init__(self, wordings: Sequence[Wording]) -> None:
        """Count what each says.

        Args:
            wordings: What the records say; those without words are like no other.
        """
        self.answers, self.unknown = _numbered(wordings)
        self._said = _informative(wordings, self.answers)
        self._sizes = np.asarray(self._said.sum(axis=1)).ravel()
        self.labels = self._has_labels()

    def _has_labels(self) -> bool:
        """Return whether answers are labels, such as yes and no: few, and records with one of them are no
        more alike than others are, which wordings of one piece of work would be."""
        answers = self.answers[~self.unknown]
        if not 1 < len(np.unique(answers)) < FEW_ANSWERS:
            return False
        some = np.flatnonzero(~self.unknown)[:: 1 + len(answers) // _ROWS]
        both = (self._said[some] @ self._said[some].T).toarray()
        share = both / np.maximum(1, self._sizes[some][:, None] + self._sizes[some] - both)
        same = self.answers[some][:, None] == self.answers[some]
        apart = ~np.eye(len(some), dtype=np.bool_)
        alike, others = share[same & apart], share[~same]
        return bool(alike.size and others.size and alike.mean() < TELLING * others.mean())

    def pairs(
        self, least: float, *, border: int = 0, order: Places | None = None, same_answer: bool = False
    ) -> Iterator[Alike]:
        """Yield the pairs of records that say at least this share of their words alike, some at a time.

        Only records are compared that share enough of their rarest words: where those differ, too little is
        left to be alike. Source: Bayardo, Ma and Srikant (2007), Scaling up all pairs similarity search.

        Args:
            least: Share of words and pairs of words, above 0, that both say among those that either says.
            border: If above 0, only pairs of one record before this place and one from it on.
            order: Places of the records to compare, each once; all as they came if not given. `one` stands
                before `other` in it, and pairs come in the order of `other`.
            same_answer: Only pairs of records with one answer.
        """
        order = np.arange(len(self.answers)) if order is None else order
        table, sizes = self._said[order], self._sizes[order]
        rarest = self._rarest(least, same_answer)[order]
        rest = sizes - np.asarray(rarest.sum(axis=1)).ravel()
        columns = rarest[: border or len(order)].T.tocsr()
        for start in range(border, len(order), _ROWS):
            met = (rarest[start : start + _ROWS] @ columns).tocoo()
            other, one = met.row.astype(np.int64) + start, met.col.astype(np.int64)
            most = met.data + np.maximum(rest[one], rest[other])
            needed = least / (1 + least) * (sizes[one] + sizes[other]) - 1e-6
            may = np.flatnonzero((one < other) & (most >= needed))
            for some in np.array_split(may, 1 + len(may) // _PAIRS):
                first, second = one[some], other[some]
                both = np.asarray(table[first].multiply(table[second]).sum(axis=1)).ravel()
                share = both / (sizes[first] + sizes[second] - both)
                near = share >= least - 1e-12
                first, second = order[first[near]], order[second[near]]
                same, unknown = self.answers[first] == self.answers[second], self.unknown[first]
                yield Alike(first, second, share[near], same, unknown | self.unknown[second])

    def _rarest(self, least: float, same_answer: bool) -> sparse.csr_matrix:
        """Return of what each record says the rarest part, one of which it shares with whatever is alike to
        it, [records, words and pairs]; with `same_answer` another column for each answer."""
        row, column = self._said.nonzero()
        order = np.lexsort((column, np.bincount(column, minlength=1)[column], row))
        row, column, sizes = row[order], column[order], self._sizes.astype(np.int64)
        place = np.arange(len(row)) - (np.cumsum(sizes) - sizes)[row]
        shared = np.maximum(1, np.ceil(least * sizes - 1e-9).astype(np.int64))
        kept = place <= (sizes - shared)[row]
        row, column = row[kept].astype(np.int64), column[kept].astype(np.int64)
        if same_answer:
            numbers = np.unique(self.answers, return_inverse=True)[1]
            column = np.unique(column * len(self.answers) + numbers[row], return_inverse=True)[1]
        shape = (len(self.answers), int(column.max(initial=0)) + 1)
        return sparse.csr_matrix((np.ones(len(row), np.int32), (row, column)), shape=shape)


def alike(wordings: Sequence[Wording], least: float, border: int = 0) -> Iterator[Alike]:
    """Yield the pairs of records that say at least this share of their words alike, some at a time; arguments
    as of `Compared`."""
    yield from Compared(wordings).pairs(least, border=border)


def _numbered(wordings: Sequence[Wording]) -> tuple[Places, Flags]:
    """Return a number for each record's answer, one of its own where it has none, and where that is."""
    known: dict[str, int] = {}
    numbers = [
        -1 - place if each.answer is None else known.setdefault(each.answer, len(known))
        for place, each in enumerate(wordings)
    ]
    return np.array(numbers, np.int64), np.array([each.answer is None for each in wordings], np.bool_)


def _shingles(wordings: Sequence[Wording]) -> tuple[Places, NDArray[np.uint64]]:
    """Return which record says what: its place, and a digest of a word or a pair of words, both [said]."""
    known: dict[str, int] = {}
    found = []
    for each in wordings:
        for word in each.words:
            if word not in known:
                sha = hashlib.blake2b(word.encode(), digest_size=8).digest()
                known[word] = int.from_bytes(sha, "big")
        words = np.array([known[word] for word in each.words], np.uint64)
        pairs = (words[:-1] * _ODD) ^ (words[1:] + _ODD)
        # Mixed, so that the smallest are a fair sample.
        said = np.concatenate([words, pairs * _ODD])
        found.append(np.unique(said ^ (said >> np.uint64(29))))
    total = sum(map(len, found))
    if total > MOST_SHINGLES * len(found):
        # Of long texts a sample, by what is said and not by who says it, so that two are sampled alike.
        border = np.uint64(int(2**64 * (MOST_SHINGLES * len(found) / total)))
        found = [said[: max(FEWEST_SHINGLES, int(np.searchsorted(said, border)))] for said in found]
    row = np.repeat(np.arange(len(found)), [len(said) for said in found])
    return row, np.concatenate([*found, np.zeros(0, np.uint64)])


def _informative(wordings: Sequence[Wording], answers: Places) -> sparse.csr_matrix:
    """Return which record says what, [records, words and pairs], without what tells none apart."""
    row, said = _shingles(wordings)
    names, column = np.unique(said, return_inverse=True)
    keeps = ~_common(wordings, answers, row, column, len(names))[column]
    for rest in (np.bincount(column, minlength=len(names))[column] <= EVERYWHERE * len(wordings), True):
        keeps |= rest & (np.bincount(row[keeps], minlength=len(wordings))[row] == 0)
    ones = np.ones(int(keeps.sum()), np.int32)
    return sparse.csr_matrix((ones, (row[keeps], column[keeps])), shape=(len(wordings), max(1, len(names))))


def _common(wordings: Sequence[Wording], answers: Places, row: Places, column: Places, n_names: int) -> Flags:
    """Return which words and pairs tell no two records apart, [words and pairs].

    One record has one answer, so what is said about as often whatever the answer is no record's own: an
    instruction, a greeting. How many records say it shows nothing of that, as most may be one in other words.
    """
    n, known = len(wordings), answers >= 0
    sizes = np.bincount(answers[known], minlength=1)
    # One record of another answer that says everything must not make all of it common.
    counts = sizes >= SIZABLE * known.sum() / len(sizes)
    if len(sizes) >= FEW_ANSWERS and counts.sum() < 2:
        counts[:] = True
    if 2 * known.sum() < n or counts.sum() < 2:
        return _everywhere(wordings, len(sizes) == 1 and bool(known.any()), column, n_names)
    of = known & counts[np.maximum(answers, 0)]
    inside = of[row]
    ways, met = np.unique(column[inside] * len(sizes) + answers[row[inside]], return_counts=True)
    which, home = np.divmod(ways, len(sizes))
    share = met / sizes[home]
    most = np.zeros(n_names)
    np.maximum.at(most, which, share)
    # With few answers a word that few records say is by chance as often with each.
    least = 0.0 if len(sizes) >= FEW_ANSWERS else OFTEN
    often = which[(share >= AS_OFTEN * most[which]) & (most[which] >= least)]
    return np.asarray(np.bincount(often, minlength=n_names) > COMMON * counts.sum(), np.bool_)


def _everywhere(wordings: Sequence[Wording], one_answer: bool, column: Places, n_names: int) -> Flags:
    """Return what nearly every record says, where answers tell no more; nothing where the one answer stands
    in the words, as then they are the work itself."""
    common = np.bincount(column, minlength=n_names) > EVERYWHERE * len(wordings)
    return common & (not (one_answer and all(each.stated for each in wordings)))
