"""Which records of which split were seen by which policy: a value that can be merged, and counted record by
record.

A suite is one way of asking records; another size, other draws or another grader ask the same ones. So an
opening names the records themselves, by the digests that the fingerprint knows them by, and what was seen is
counted by record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from assay.core.records import Record, Split
from assay.core.storage.json import digest
from assay.dataset.suite import Suite

FORMAT: Literal["assay-openings/2"] = "assay-openings/2"


class Opening(Record):
    """One policy that was let loose on some records by one stage, in one working copy."""

    stage: str
    policy_digest: str
    suite_digest: str = Field(
        description="the suite in which they were asked; the first of them where there were several"
    )
    data: str | None = Field(
        description="what the data are called; null: noted by a version that did not say"
    )
    split: Split | None = Field(description="where they stand there; null as for `data`")
    records: str | None = Field(description="key of the records in `record_sets`; null as for `data`")
    copy_id: str | None = Field(
        description="random name of the working copy in which it was noted; null as for `data`"
    )
    times: int = Field(
        ge=1, description="calls that opened them; playing again with the same policy tells nothing new"
    )

    @property
    def identity(self) -> tuple[str, ...]:
        """What makes it another opening: all but how often it was made, and, where records are known, the
        suite."""
        suite = "" if self.records is not None else self.suite_digest
        known = (self.data, self.split, self.records, self.copy_id, suite)
        return (self.stage, self.policy_digest, *("" if each is None else each for each in known))


class Ledger(Record):
    """All openings, in an order that depends on nothing but them; each distinct set of records stands in it
    once."""

    format: Literal["assay-openings/2"]
    record_sets: dict[str, tuple[str, ...]] = Field(
        description="digests of records, sorted, by `key_of` them"
    )
    openings: tuple[Opening, ...]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for key, records in self.record_sets.items():
            if key != key_of(records):
                raise ValueError(f"record_sets.{key}: other records than its key is made from")
        missing = {
            each.records for each in self.openings if each.records is not None
        } - self.record_sets.keys()
        if missing:
            raise ValueError(f"record_sets: no {sorted(missing)[0]}, which an opening names")
        return self


NOTHING = Ledger(format=FORMAT, record_sets={}, openings=())


@dataclass(frozen=True, slots=True)
class Seen:
    """What one policy saw of some records: how many of them, by which stages, noted in which working
    copies."""

    n_records: int
    stages: frozenset[str]
    copies: frozenset[str | None]


def key_of(records: Iterable[str]) -> str:
    """Return the name of a set of records, 32 hex digits, whatever their order."""
    return digest(sorted(set(records)))[:32]


def opened(
    stage: str,
    policy_digest: str,
    suite_digest: str,
    records: Iterable[str],
    *,
    data: str,
    split: Split,
    copy_id: str,
) -> Ledger:
    """Return the ledger that holds one opening of some records and nothing else."""
    known = tuple(sorted(set(records)))
    opening = Opening(
        stage=stage,
        policy_digest=policy_digest,
        suite_digest=suite_digest,
        data=data,
        split=split,
        records=key_of(known),
        copy_id=copy_id,
        times=1,
    )
    return Ledger(format=FORMAT, record_sets={key_of(known): known}, openings=(opening,))


def noted(ledger: Ledger, one: Ledger) -> Ledger:
    """Return a ledger with the openings of another as made once more: one that is known is counted, not
    repeated."""
    before = {each.identity: each.times for each in ledger.openings}
    again = [
        each.model_copy(update={"times": each.times + before.get(each.identity, 0)}) for each in one.openings
    ]
    return merged(ledger, one.model_copy(update={"openings": tuple(again)}))


def merged(one: Ledger, other: Ledger) -> Ledger:
    """Return what either ledger knows. In whatever order and however often ledgers are merged, the result is
    the same."""
    known: dict[tuple[str, ...], Opening] = {}
    for each in (*one.openings, *other.openings):
        held = known.setdefault(each.identity, each)
        update = {
            "times": max(held.times, each.times),
            "suite_digest": min(held.suite_digest, each.suite_digest),
        }
        known[each.identity] = held.model_copy(update=update)
    named = {each.records for each in known.values()}
    sets = {key: records for key, records in (one.record_sets | other.record_sets).items() if key in named}
    openings = tuple(known[identity] for identity in sorted(known))
    return Ledger(format=FORMAT, record_sets=dict(sorted(sets.items())), openings=openings)


def resolved(ledger: Ledger, suite: Suite, data: str) -> Ledger:
    """Return a ledger in which openings without records have those of a suite, where that is what they name.

    Ledgers of the first format named a suite by a digest that left out task and data; whoever has the suite
    can tell.
    """
    records = tuple(sorted(set(suite.records)))
    known = {"data": data, "split": suite.split, "records": key_of(records)}
    openings = tuple(
        (
            each.model_copy(update=known)
            if each.records is None and each.suite_digest == suite.first_digest
            else each
        )
        for each in ledger.openings
    )
    if openings == ledger.openings:
        return ledger
    sets = ledger.record_sets | {key_of(records): records}
    return merged(NOTHING, Ledger(format=FORMAT, record_sets=sets, openings=openings))


def policies_that_saw(ledger: Ledger, records: Collection[str]) -> dict[str, Seen]:
    """Return every policy that saw at least one of some records, and what it saw of them."""
    asked = frozenset(records)
    overlap = {key: asked & frozenset(held) for key, held in ledger.record_sets.items()}
    parts: dict[str, tuple[set[str], set[str], set[str | None]]] = {}
    for each in ledger.openings:
        if each.records is not None and overlap[each.records]:
            seen, stages, copies = parts.setdefault(each.policy_digest, (set(), set(), set()))
            seen |= overlap[each.records]
            stages.add(each.stage)
            copies.add(each.copy_id)
    return {
        policy: Seen(len(seen), frozenset(stages), frozenset(copies))
        for policy, (seen, stages, copies) in sorted(parts.items())
    }


def policies_by_record(ledger: Ledger, records: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return for each of some records the policies that saw it."""
    found: dict[str, set[str]] = {record: set() for record in records}
    for each in ledger.openings:
        for record in () if each.records is None else ledger.record_sets[each.records]:
            if record in found:
                found[record].add(each.policy_digest)
    return {record: frozenset(policies) for record, policies in found.items()}


def without_records(ledger: Ledger) -> int:
    """Return of how many openings nobody can tell the records any more."""
    return sum(each.records is None for each in ledger.openings)
