"""Does the held-out work stand in the training data: what makes a claim impossible, and what a reader must be
warned of.

Blocks: the words of a prompt, the id of a scenario, a hidden world or a generator's seed that two splits
share. Warns: 13 words on end of a held-out prompt in train, and a held-out answer that stands in a train
prompt. Only sets of words and digests are compared, so neither the order of records nor that of files
matters.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.audit.overlap import Texts, answers_inside, shared_ngrams, words_of
from assay.core.storage.json import digest, dumps
from assay.dataset.audit_records import BLOCKING, NGRAM, SAID, Contamination, Overlap, Shared
from assay.dataset.source import KeptRecord

# Where rows of data commonly say what they were generated from.
SCENARIO_FIELDS = ("scenario_id", "scenario")
SEED_FIELDS = ("seed", "generator_seed", "scenario_seed", "world_seed")
TEXT_FIELDS = ("messages", "prompt", "context")
SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Facts:
    id: str
    prompt: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...]
    keys: Mapping[Shared, Sequence[str]]


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
        compared["ngram"] += len(each.prompt) >= NGRAM
        compared["answer"] += bool(each.answers)
    compared["shared_seed"] = compared["seed"]
    overlaps = [*_shared(facts), *_word_by_word(facts)]
    return Contamination(
        n_records={split: len(found) for split, found in facts.items()},
        compared={kind: compared[kind] for kind in SAID},
        overlaps=tuple(sorted(overlaps, key=lambda each: (each.kind, each.splits))),
    )


def _facts(member: KeptRecord) -> _Facts:
    record = member.entry.record
    parts = [text for name in TEXT_FIELDS for text in _texts(record.get(name))]
    prompt = tuple(words_of(" ".join(parts)))
    truth, briefing = record.get("truth"), record.get("briefing")
    generated = isinstance(truth, Mapping) and not parts
    nested = [part for part in (record, truth, briefing, record.get("metadata")) if isinstance(part, Mapping)]
    scenarios = [*_named(nested, SCENARIO_FIELDS), *([f"id {member.item.id}"] if generated else [])]
    keys: dict[Shared, Sequence[str]] = {
        "prompt": [digest(prompt)] if prompt else [],
        "scenario": scenarios,
        # A truth in numbers is a world; two briefings about one world are the same question.
        "world": [digest(truth)] if generated else [],
        "seed": _named(nested, SEED_FIELDS),
    }
    golds = [record.get("gold"), *(record["golds"] if isinstance(record.get("golds"), list) else ())]
    return _Facts(
        member.item.id, prompt, tuple(dict.fromkeys(run for gold in golds for run in _answers(gold))), keys
    )


def _texts(asked: Any) -> list[str]:
    """Return the texts of a prompt, or of the messages of a conversation."""
    said = (
        [part.get("content") for part in asked if isinstance(part, Mapping)]
        if isinstance(asked, list)
        else [asked]
    )
    return [text for text in said if isinstance(text, str)]


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


def _shared(facts: Mapping[str, Sequence[_Facts]]) -> Iterator[Overlap]:
    for kind in BLOCKING:
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
