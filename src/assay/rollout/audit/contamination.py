"""Does the held-out work stand in the training data: what makes a claim impossible, and what a reader must be
warned of.

Blocks: the words of a prompt up to politeness and far digits of numbers, the same work in other words (a
near-duplicate with an equal answer), the id of a scenario, a hidden world or a generator's seed that two
splits share. Warns: 13 words on end of a held-out prompt in train, and a held-out answer that stands in a
train prompt. Warns, and of many records blocks, beyond what chance gives (`coincidence`): numbers that are
nearly the same, answers asked in other words, questions inside train prompts, texts that differ in numbers
alone. Neither the order of records nor that of files matters.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.core.storage.json import digest, dumps
from assay.rollout.audit.coincidence import Coincidence, Telling, Worlds, by_key, by_search, telling_of
from assay.rollout.dataset.audit_records import NGRAM, SAID, Contamination, Overlap, Shared
from assay.rollout.dataset.likeness import Wording, alike, wording_of
from assay.rollout.dataset.source import KeptRecord
from assay.rollout.dataset.wording import essence, texts_of, words_of

BOILERPLATE = 10  # train texts; a run in more of them is a phrase of the template (same source)
# Shares of words in common from which two texts with one answer are one work: in other words, and with words
# put in; and where an answer is unknown. Measured: of shipped jobs with one answer none reaches NEAR.
KEYED: tuple[Shared, ...] = ("prompt", "scenario", "world", "seed")  # found by equal keys
NEAR, INSERTED, NEAR_UNKNOWN = 0.75, 0.2, 0.8
FEWEST_WORDS = 4  # of a text into which others were put
FEWEST_LETTERS, LONGEST_RUN = 16, 256  # of a question that is looked for in a longer text; words of it
SOURCE = ("train", "validation", "heldout")  # of which is trained, by which is chosen, and what decides
KEYS: tuple[Shared, ...] = ("gold", "template")
_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that powers never vanish modulo 2**64
_INVERSE = np.uint64(pow(int(_BASE), -1, 1 << 64))
_SIEVE_BITS = 22
Numbers = NDArray[np.uint64]
Places = NDArray[np.int64]


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


# Where rows of data commonly say what they were generated from.
SCENARIO_FIELDS = ("scenario_id", "scenario")
SEED_FIELDS = ("seed", "generator_seed", "scenario_seed", "world_seed")
SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Facts:
    id: str
    prompt: tuple[str, ...]
    wording: Wording
    answers: tuple[tuple[str, ...], ...]
    keys: Mapping[Shared, Sequence[str]]
    telling: Telling


def contamination(kept: Mapping[str, Sequence[KeptRecord]]) -> Contamination:
    """Return what the splits share; train is compared with every split whose name begins with heldout word by
    word.

    Args:
        kept: The records that passed the audit, by split.
    """
    facts = {split: [_facts(member) for member in members] for split, members in sorted(kept.items())}
    compared: Counter[Shared] = Counter()
    for each in (fact for found in facts.values() for fact in found):
        compared.update(kind for kind, values in each.keys.items() if values)
        compared["near"] += bool(each.wording.words)
        compared["ngram"] += len(each.prompt) >= NGRAM
        compared["answer"] += bool(each.answers)
        compared["near_world"] += bool(each.telling.numbers)
        compared["gold"] += each.telling.gold is not None
        compared["inside"] += _is_question(each)
        compared["template"] += each.telling.template is not None
    compared["shared_seed"] = compared["seed"]
    worlds = Worlds({split: [fact.telling for fact in found] for split, found in facts.items()})
    overlaps = [
        *_shared(facts, worlds),
        *_reworded(facts),
        *_word_by_word(facts),
        *_beyond_chance(facts, worlds),
    ]
    return Contamination(
        n_records={split: len(found) for split, found in facts.items()},
        compared={kind: compared[kind] for kind in SAID},
        overlaps=tuple(sorted(overlaps, key=lambda each: (each.kind, each.splits))),
    )


def _facts(member: KeptRecord) -> _Facts:
    record = member.entry.record
    parts = texts_of(record)
    prompt, wording = tuple(words_of(" ".join(parts))), wording_of(record)
    truth, briefing = record.get("truth"), record.get("briefing")
    generated = isinstance(truth, Mapping) and not parts
    nested = [part for part in (record, truth, briefing, record.get("metadata")) if isinstance(part, Mapping)]
    scenarios = [*_named(nested, SCENARIO_FIELDS), *([f"id {member.item.id}"] if generated else [])]
    keys: dict[Shared, Sequence[str]] = {
        "prompt": [digest(wording.words)] if wording.words else [],
        "scenario": scenarios,
        # A truth in numbers is a world; two briefings about one world are the same question, and far digits
        # make no other world.
        "world": [digest(essence(truth))] if generated else [],
        "seed": _named(nested, SEED_FIELDS),
    }
    golds = [record.get("gold"), *(record["golds"] if isinstance(record.get("golds"), list) else ())]
    answers = tuple(dict.fromkeys(run for gold in golds for run in _answers(gold)))
    return _Facts(member.item.id, prompt, wording, answers, keys, telling_of(record, wording.words))


def _named(parts: Iterable[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    found = {
        f"{name} {part[name]}" for part in parts for name in names if isinstance(part.get(name), str | int)
    }
    return sorted(found)


def _answers(gold: Any) -> Iterator[tuple[str, ...]]:
    """Yield the word runs of an answer that are long enough to be told from chance: the whole, and each long
    text in it."""
    if gold is None:
        return
    for text in dict.fromkeys([gold if isinstance(gold, str) else dumps(gold), *_strings(gold)]):
        words = tuple(words_of(text))
        if len(words) >= 3 and sum(map(len, words)) >= 12:
            yield words


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _shared(facts: Mapping[str, Sequence[_Facts]], worlds: Worlds) -> Iterator[Overlap]:
    # Worlds that a rounded digest tells apart, since a number lies on its edge, by the other way.
    same = {
        tuple(sorted(pair)): [facts[pair[0]][place] for place in sorted(worlds.the_same(*pair))]
        for pair in _looked_into(facts)
    }
    for kind in KEYED:
        homes: dict[str, dict[str, list[str]]] = {}
        for split, found in facts.items():
            inside = homes[split] = defaultdict(list)
            for fact in found:
                for key in fact.keys[kind]:
                    inside[key].append(fact.id)
        for one, other in _pairs(list(facts)):
            shared = [key for key in homes[one] if key in homes[other]]
            if kind == "seed":
                # One seed for a whole file names no record: two calls of other code may well begin with the
                # same.
                single = [key for key in shared if len(homes[one][key]) == len(homes[other][key]) == 1]
                yield from _overlap(
                    "shared_seed", (one, other), [k for k in shared if k not in set(single)], homes[other]
                )
                shared = single
            elif kind == "world":
                more = [fact for fact in same.get((one, other), ()) if not set(fact.keys[kind]) & set(shared)]
                shared = [*shared, *(fact.id for fact in more)]
                homes[other] |= {fact.id: [fact.id] for fact in more}
            yield from _overlap(kind, (one, other), shared, homes[other])


def _overlap(
    kind: Shared, splits: tuple[str, str], shared: Sequence[str], ids: Mapping[str, Sequence[str]]
) -> Iterator[Overlap]:
    if shared:
        first = sorted({name for key in shared for name in ids[key]})[:SHOWN]
        yield Overlap(kind=kind, splits=splits, count=len(shared), first=tuple(first))


def _pairs(splits: Sequence[str]) -> Iterator[tuple[str, str]]:
    for k, one in enumerate(splits):
        for other in splits[k + 1 :]:
            yield one, other


def _reworded(facts: Mapping[str, Sequence[_Facts]]) -> Iterator[Overlap]:
    for one, other in _pairs(list(facts)):
        border, known = len(facts[one]), [*facts[one], *facts[other]]
        wordings = [fact.wording for fact in known]
        hits: set[int] = set()
        for found in alike(wordings, INSERTED, border) if border < len(wordings) and border else ():
            least = np.where(found.unknown, NEAR_UNKNOWN, np.where(found.same_answer, INSERTED, np.inf))
            kept = found.share >= least
            for here, there, share in zip(
                found.one[kept].tolist(), found.other[kept].tolist(), found.share[kept].tolist(), strict=True
            ):
                # Of the records concerned it is those of the split that is not trained on.
                hit = here if other == "train" else there
                if hit not in hits and _same_work(wordings[here], wordings[there], share):
                    hits.add(hit)
        ids = sorted(known[k].id for k in hits)
        yield from _overlap("near", (one, other), ids, {name: [name] for name in ids})


def _same_work(one: Wording, other: Wording, share: float) -> bool:
    """Return whether two texts that may be one in other words are: alike enough, or one with words put in."""
    if one.words == other.words:
        return False  # which is told as the same prompt
    if share >= NEAR or (
        one.stated and one.answer == other.answer and _all_shared(one.body, other.body) >= NEAR
    ):
        return True
    short, long = sorted((one.body, other.body), key=len)
    return len(short) >= FEWEST_WORDS and any(
        _stands_in(short, long[place:]) for place, word in enumerate(long) if word == short[0]
    )


def _all_shared(one: Sequence[str], other: Sequence[str]) -> float:
    """Return the share of words and pairs of words that two texts have in common, with all that is usual."""
    said = [{*words, *pairwise(words)} for words in (one, other)]
    return len(said[0] & said[1]) / max(1, len(said[0] | said[1]))


def _stands_in(short: Sequence[str], long: Sequence[str]) -> bool:
    """Return whether a text begins with another one, single words put between its own.

    >>> _stands_in("ship it to oslo".split(), "ship it really to oslo now".split())
    True
    >>> _stands_in("ship it to oslo".split(), "ship it from rome to oslo".split())
    False
    """
    place = -1
    for word in short:
        near = [k for k in (place + 1, place + 2) if k < len(long) and long[k] == word]
        if not near:
            return False
        place = near[0]
    return True


def _word_by_word(facts: Mapping[str, Sequence[_Facts]]) -> Iterator[Overlap]:
    if not facts.get("train"):
        return
    train = Texts([fact.prompt for fact in facts["train"]])
    for split, found in facts.items():
        if not split.startswith("heldout") or not found:
            continue
        for kind, hits in (
            ("ngram", shared_ngrams(train, Texts([fact.prompt for fact in found]))),
            ("answer", answers_inside(train, [fact.answers for fact in found])),
        ):
            ids = sorted(found[k].id for k in hits)
            if ids:
                yield Overlap.model_validate(
                    {
                        "kind": kind,
                        "splits": tuple(sorted(("train", split))),
                        "count": len(ids),
                        "first": tuple(ids[:SHOWN]),
                    }
                )


def _is_question(fact: _Facts) -> bool:
    return len(fact.wording.body) >= FEWEST_WORDS and sum(map(len, fact.wording.body)) >= FEWEST_LETTERS


def _beyond_chance(facts: Mapping[str, Sequence[_Facts]], worlds: Worlds) -> Iterator[Overlap]:
    """Yield what splits share beyond what records of one source do by chance."""
    inside = cache(partial(_inside, facts))
    for split, pool in _looked_into(facts):
        kept = [name for name in facts if name in (split, pool, *SOURCE)]
        sizes = {name: sum(bool(fact.telling.numbers) for fact in facts[name]) for name in kept}
        questions = {name: sum(map(_is_question, facts[name])) for name in kept}
        told: dict[Shared, Coincidence] = {
            "near_world": by_search(sizes, split, pool, SOURCE, worlds.close),
            "inside": by_search(questions, split, pool, SOURCE, inside),
        }
        for kind in KEYS:
            keys = {name: [getattr(fact.telling, kind) for fact in facts[name]] for name in kept}
            told[kind] = by_key(keys, split, pool, SOURCE)
        for kind, found in told.items():
            if found.beyond:
                ids = sorted(facts[split][place].id for place in found.hits)
                yield Overlap(
                    kind=kind,
                    splits=(min(split, pool), max(split, pool)),
                    count=len(ids),
                    first=tuple(ids[:SHOWN]),
                    of=found.of,
                    expected=round(found.expected, 6),
                )


def _looked_into(splits: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each split with each that the policy was made by: it is trained on one and chosen by another."""
    for split in splits:
        for place, pool in enumerate(SOURCE[:2]):
            if pool in splits and split not in SOURCE[: place + 1]:
                yield split, pool


def _inside(facts: Mapping[str, Sequence[_Facts]], split: str, pool: str) -> frozenset[int]:
    """Return which questions of a split stand whole in a longer text of another; of long ones their beginning
    will do."""
    texts = Texts([fact.wording.words for fact in facts[pool]])
    by_length: dict[int, list[tuple[int, Sequence[str]]]] = defaultdict(list)
    for place, fact in enumerate(facts[split]):
        if _is_question(fact):
            run = fact.wording.body[:LONGEST_RUN]
            by_length[len(run)].append((place, run))
    hits = set()
    for length, asked in by_length.items():
        values = Texts([run for _, run in asked]).digests(np.arange(0, len(asked) * length, length), length)
        homes = _homes(texts, np.unique(values), length)
        for (place, _), value in zip(asked, values, strict=True):
            own = len(facts[split][place].wording.words)
            there = homes.get(int(value), set()) - ({place} if split == pool else set())
            if any(len(facts[pool][home].wording.words) > own for home in there):
                hits.add(place)
    return frozenset(hits)
