"""Do held-out records coincide with those of another split more often than chance would have it?

Some likeness is natural: small answer spaces, templates, dense generators. How much, the data say themselves:
how often a third split meets the one, and the other. What goes beyond that is no chance. So
nothing is asked of answers such as yes and no, which nearly every record shares, and of answers that hardly
ever meet a handful is enough.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2  # type: ignore[import-untyped,unused-ignore]

from assay.core.storage.json import digest
from assay.rollout.dataset.wording import ANSWER_FIELDS, essence

SIGMAS, SPARE = 4.0, 1.0  # standard errors, and records, by which chance may exceed what it does elsewhere
FEWEST = 50  # records of a split by which chance is judged
# Numbers: fields that count as close, where at most this share of the other split is closer; expected pairs
# by chance; neighbours looked at on either side; fields that must be close; fields looked at.
CLOSE, EPSILON, WINDOW, FEWEST_CLOSE, MOST_FIELDS = 0.05, 1e-3, 16, 3, 64
FINEST = 1e-4  # part of the distance to a third value that may count for rare
TOLERANCE = 1e-3  # relative, within which two numbers that are no whole ones are one number
HIDDEN = ".truth"
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")
_WHOLE = 1e-6
Numbers = NDArray[np.float64]
Places = NDArray[np.int64]
Hits = set[int]


@dataclass(frozen=True, slots=True)
class Telling:
    """What of a record is compared; None where it has nothing of the kind."""

    gold: str | None
    template: str | None
    numbers: Mapping[str, float]
    rest: str | None  # digest of all in its hidden truth but numbers; None: it has none


def telling_of(record: Mapping[str, Any], words: Sequence[str]) -> Telling:
    """Return what of a record tells whether another one is the same work in another guise; `words` are the
    essential ones of its texts."""
    masked = ["#" if _NUMBER.fullmatch(word) else word for word in words]
    given = [essence(record[name]) for name in ANSWER_FIELDS if record.get(name) is not None]
    truth = record.get("truth")
    leaves = dict(_leaves({name: part for name, part in record.items() if name != "id"}))
    hidden = None
    if isinstance(truth, Mapping):
        hidden = {path: None if _is_number(leaf) else leaf for path, leaf in _leaves(truth)}
    return Telling(
        gold=_gold(given, words),
        template=digest(masked) if "#" in masked else None,
        numbers={path: float(leaf) for path, leaf in leaves.items() if _is_number(leaf)},
        rest=None if hidden is None else digest(hidden),
    )


def _gold(given: Sequence[Any], words: Sequence[str]) -> str | None:
    """Return by what an answer is known: one of several values, or of many words, by itself; a single value
    only together with the numbers of the question, since many questions have it."""
    if not given:
        return None
    parts = [leaf for _, leaf in _leaves(given)]
    if len({str(part) for part in parts}) > 1 or any(len(str(part).split()) > 3 for part in parts):
        return digest(given)
    numbers = sorted(word for word in words if _NUMBER.fullmatch(word))
    return digest([given, numbers]) if len(numbers) > 1 else None


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name in value:
            yield from _leaves(value[name], f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield from _leaves(part, f"{path}[{place}]")
    else:
        yield path, value


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, int | float) and not isinstance(leaf, bool)


@dataclass(frozen=True, slots=True)
class Coincidence:
    """Which records of a split coincide with one of another, and how many would by chance."""

    hits: tuple[int, ...]  # places
    of: int  # records that could
    expected: float
    most: float  # that chance gives, all but never more

    @property
    def beyond(self) -> bool:
        """Whether these are more than chance would give."""
        return len(self.hits) > self.most


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """How many records of how many coincide where nobody copied, and for how many times as many records of
    the pool it is asked."""

    met: float
    of: float
    times: float = 1.0

    def chance(self, weight: float) -> tuple[float, float]:
        """Return how many of so many would coincide, and at most."""
        # As if one more had met and one more had not: of none among fifty follows little.
        share = 1 - (1 - (self.met + 1) / (self.of + 2)) ** self.times
        error = math.sqrt(share * (1 - share) * weight * (1 + weight * max(1.0, self.times) / (self.of + 2)))
        return share * weight, share * weight + SIGMAS * error + SPARE


def _judged(hits: Sequence[int], of: int, weight: float, elsewhere: Iterable[_Elsewhere]) -> Coincidence:
    """Return hits beside the least that chance gives: whoever copies two splits into a third hides one copy
    behind the other, but not from how often the two meet."""
    expected, most = min(
        (each.chance(weight) for each in elsewhere), key=lambda each: each[1], default=(0, 0)
    )
    return Coincidence(tuple(hits), of, expected, most)


def by_key(
    keys: Mapping[str, Sequence[str | None]], split: str, pool: str, source: Collection[str]
) -> Coincidence:
    """Return which records of a split have a key that one of another has.

    Only what is rare in the split itself counts: a key that two of its own records have is no sign.

    Args:
        keys: Of every record, by split.
        split: The one asked about.
        pool: The one to find its keys in.
        source: Splits of one source, of which another than these two tells of chance.
    """
    counts = {name: Counter(key for key in found if key is not None) for name, found in keys.items()}
    size = counts[split].total()

    def met_in(one: str, other: str) -> _Elsewhere:
        """Return how many records of a split are met in another, of those that would be rare were it as large
        as the one asked about."""
        met, weight, rest = 0.0, 0.0, max(1, counts[one].total() - 1)
        for key, n in counts[one].items():
            rare = (1 - (n - 1) / rest) ** (size - 1)
            weight += n * rare
            met += n * rare * (counts[other][key] - (one == other) > 0)
        return _Elsewhere(met, weight)

    rare = [place for place, key in enumerate(keys[split]) if key is not None and counts[split][key] == 1]
    hits = [place for place in rare if keys[split][place] in counts[pool]]
    sizes = {name: found.total() for name, found in counts.items()}
    return _judged(hits, size, len(rare), _elsewhere(sizes, split, pool, source, met_in) if hits else ())


def by_search(
    sizes: Mapping[str, int],
    split: str,
    pool: str,
    source: Collection[str],
    find: Callable[[str, str], Collection[int]],
) -> Coincidence:
    """Return which records of a split coincide with another's, where that takes a search.

    Args:
        sizes: Records that could be found, by split.
        split: The one asked about.
        pool: The one to look in.
        source: As of `by_key`.
        find: Returns which records of a split coincide with one of another; of the same split, another one.
    """

    def met_in(one: str, other: str) -> _Elsewhere:
        return _Elsewhere(len(find(one, other)), sizes[one])

    hits = sorted(find(split, pool))
    if not hits:  # searching takes its time
        return _judged(hits, sizes[split], sizes[split], ())
    # Unlike equal answers, nobody leaves such neighbours out of a split: so it tells of chance too.
    found = [met_in(pool, pool), *_elsewhere(sizes, split, pool, source, met_in)]
    return _judged(hits, sizes[split], sizes[split], found)


def _elsewhere(
    sizes: Mapping[str, int],
    split: str,
    pool: str,
    source: Collection[str],
    met_in: Callable[[str, str], _Elsewhere],
) -> Iterator[_Elsewhere]:
    """Yield what tells of chance: how often a third split meets the pool, and the split the third one; where
    there is none, how often records of the pool meet each other."""
    third = [name for name in source if name not in (split, pool) and sizes.get(name, 0) >= FEWEST]
    for name in third:
        if split in source:
            yield met_in(name, pool)
        # In a smaller pool as many may meet, if it is some records that meet many.
        yield replace(met_in(split, name), times=max(1.0, sizes[pool] / sizes[name]))
    if not third:
        yield met_in(pool, pool)


class Worlds:
    """The numbers of records as a table for each split, in which near neighbours are found."""

    def __init__(self, told: Mapping[str, Sequence[Telling]]) -> None:
        """Lay out the fields with the most different values, as far as these can be close; a number that is
        missing is nan."""
        values: dict[str, set[float]] = {}
        for each in (each for records in told.values() for each in records):
            for path, number in each.numbers.items():
                values.setdefault(path, set()).add(number)
        some = [path for path, different in values.items() if len(different) >= 1 / CLOSE]
        self.fields = sorted(some, key=lambda path: (-len(values[path]), path))[:MOST_FIELDS]
        self._told = told
        self._pairs = dict[tuple[str, str], tuple[Places, Places]]()
        self._tables = {
            split: np.array(
                [[each.numbers.get(path, math.nan) for path in self.fields] for each in records], np.float64
            ).reshape(len(records), len(self.fields))
            for split, records in told.items()
        }

    def near(self, split: str, pool: str) -> tuple[Places, Places]:
        """Return what `_near` does, looked for once."""
        if (split, pool) not in self._pairs:
            self._pairs[split, pool] = self._near(split, pool)
        return self._pairs[split, pool]

    def _near(self, split: str, pool: str) -> tuple[Places, Places]:
        """Return pairs of records, of a split and of a pool, that agree in more numbers, and more closely,
        than any two would by chance.

        Of each field it is asked which share of the pool is as close as this pair. Were the fields of two
        records independent, the product of these shares would follow Fisher's law; fields that are not close
        count for nothing. So one field, or a few, may be another altogether.
        Source: Fisher (1932), Statistical Methods for Research Workers, section 21.1.
        """
        table, others = self._tables[split], self._tables[pool]
        one, other = _candidates(table, others, itself=split == pool)
        scores, fields = np.zeros(len(one)), np.zeros(len(one), np.int64)
        for field in range(len(self.fields)):
            a, b = table[one, field], others[other, field]
            both = ~(np.isnan(a) | np.isnan(b))
            known = np.sort(others[:, field][~np.isnan(others[:, field])])
            share = _share(known, a[both], b[both], itself=split == pool)
            scores[both] -= 2 * np.log(np.where(share <= CLOSE, share, 1.0))
            fields += both
        chance = chi2.sf(scores, 2 * np.maximum(1, fields)) * len(table) * len(others)
        kept = chance <= EPSILON
        return one[kept], other[kept]

    def close(self, split: str, pool: str) -> Hits:
        """Return which records of a split have a near neighbour that is not the same world."""
        return set(self.near(split, pool)[0].tolist()) - self.the_same(split, pool)

    def the_same(self, split: str, pool: str) -> Hits:
        """Return which records of a split have a near neighbour that differs by the tolerance at most."""
        return {
            int(here)
            for here, there in zip(*self.near(split, pool), strict=True)
            if _agree(self._told[split][here], self._told[pool][there])
        }


def _share(known: Numbers, one: Numbers, other: Numbers, *, itself: bool) -> Numbers:
    """Return which share of a field's sorted values is as close to one value as another of them is; closer
    than any third, a part of the share of one, as far as the values lie on no grid."""
    away = np.abs(one - other) * (1 + 1e-9)
    low, high = np.searchsorted(known, one - away, "left"), np.searchsorted(known, one + away, "right")
    as_close = np.maximum(1, high - low - itself)
    edged = np.concatenate([[-np.inf], known, [np.inf]])
    third = np.minimum(one - edged[low], edged[high + 1] - one)
    gaps = np.diff(known)
    grid = gaps[gaps > 0].min() if gaps.any() else 0.0
    part = np.clip(np.maximum(away, grid) / np.where(third > 0, third, 1.0), FINEST, 1.0)
    rarer = (as_close == 1) & np.isfinite(third)
    return np.asarray(np.where(rarer, part, as_close) / len(known), np.float64)


def _candidates(table: Numbers, others: Numbers, *, itself: bool) -> tuple[Places, Places]:
    """Return pairs that are neighbours in some fields; values that very many have make no neighbours."""
    found = [np.zeros(0, np.int64)]
    for field in range(table.shape[1]):
        order = np.argsort(others[:, field], kind="stable")
        known = others[order, field]
        known = known[~np.isnan(known)]
        here = np.flatnonzero(~np.isnan(table[:, field]))
        low, high = (np.searchsorted(known, table[here, field], side) for side in ("left", "right"))
        some = high - low <= 2 * WINDOW
        here, middle = here[some], ((low + high) // 2)[some]
        for step in range(-WINDOW, WINDOW + 1):
            place = middle + step
            inside = (place >= 0) & (place < len(known))
            found.append(here[inside] * len(others) + order[place[inside]])
    codes, counts = np.unique(np.concatenate(found), return_counts=True)
    one, other = np.divmod(codes[counts >= FEWEST_CLOSE], max(1, len(others)))
    apart = one != other if itself else np.ones(len(one), np.bool_)
    return one[apart], other[apart]


def _agree(one: Telling, other: Telling) -> bool:
    """Return whether all numbers are the same within the tolerance, whole ones exactly, and so is the rest of
    what is hidden."""
    hidden = [
        {path: number for path, number in each.numbers.items() if path.startswith(HIDDEN)}
        for each in (one, other)
    ]
    if one.rest is None or one.rest != other.rest or hidden[0].keys() != hidden[1].keys():
        return False
    return all(_is_near(number, hidden[1][path]) for path, number in hidden[0].items())


def _is_near(one: float, other: float) -> bool:
    if one == other:
        return True
    whole = [abs(each - round(each)) <= _WHOLE * abs(each) for each in (one, other)]
    if all(whole):
        return round(one) == round(other)
    return abs(one - other) <= TOLERANCE * max(abs(one), abs(other))
